"""The values in specs/tour.md: what one `fluxres allocate` passes from function to function, recorded while it runs.

    python -m tests.docs.tour          prints the blocks
    python -m tests.docs.tour --write  puts them into specs/tour.md

A block stands between ``<!-- tour: NAME -->`` and ``<!-- /tour -->``; the names are those of `STEPS`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import orjson

import fluxres
from fluxres import clock
from fluxres.cli.program import run

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "specs" / "tour.md"
BLOCK = re.compile(r"(<!-- tour: ([a-z-]+) -->\n)(.*?)(<!-- /tour -->)", re.DOTALL)
COMMAND = ("allocate", "-N2", "-c4", "--job", "j1")
NOW_S = 1_800_000_000.0
"""2027-01-15T08:00:00Z."""


class Step(NamedTuple):
    """A function that returns on the way, and what to show of it.

    Args:
        file, function: where it is, below fluxres/.
        show: from its local variables and what it returned to lines of text.
    """

    file: str
    function: str
    show: Callable[[dict[str, Any], Any], str]


def _tree(tops: Iterable[Any], line: Callable[[Any], str]) -> str:
    lines = []
    todo = [(top, 0) for top in tops]
    while todo:
        one, depth = todo.pop(0)
        lines.append(f"{'    ' * depth}{line(one)}")
        todo = [(child, depth + 1) for child in one.children] + todo
    return "\n".join(lines)


def _request(_: dict[str, Any], request: Any) -> str:
    return _tree(request.resources, lambda vertex: f"Vertex({vertex.type!r}, count={vertex.count.min})")


def _demand(_: dict[str, Any], plan: Any) -> str:
    return _tree(plan.demands, lambda demand: f"Demand {demand.number}: {demand.count.min} {demand.type}, at {demand.place}")


def _form(_: dict[str, Any], form: Any) -> str:
    return f"Form(sort={form.sort!r}, node={form.node.count.min} {form.node.type}, from Demand {form.node.number})"


def _placement(_: dict[str, Any], found: Any) -> str:
    slots = ", ".join(f"{group.label} × {len(group)}" for group in found.slots)
    return f"vertices  {found.vertices.tolist()}\namounts   {found.amounts.tolist()}\nslots     {slots}"


def _batch(names: dict[str, Any], batch: Any) -> str:
    return f"Batch of {len(batch.vertices)} pools for {names['job']!r} over [{batch.start}, {_end(batch.end)})"


def _held(names: dict[str, Any], _: Any) -> str:
    records = names["self"]
    return f"records.pools_of['j1']  {sorted(records.pools_of['j1'])}"


def _used(names: dict[str, Any], _: Any) -> str:
    planner, start = names["self"], names["start"]
    used = {v: planner.used(v, start, start + 1) for v in [*names["vertices"].tolist(), 8]}
    return f"units in use at the start, by vertex  {used}"


def _event(_: dict[str, Any], body: bytes) -> str:
    event = orjson.loads(body)
    pools = event.pop("pools")
    shown = {**event, "pools": [*pools[:2], "…", pools[-1]]}
    return ", ".join(f"{key}: {_text(value)}" for key, value in shown.items())


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def _end(tick: int) -> str:
    return "FOREVER" if tick >= clock.FOREVER else str(tick)


STEPS: dict[str, Step] = {
    "request": Step("syntax/jobspec.py", "of_options", _request),
    "graph": Step("store/rows.py", "Rows.read", lambda names, graph: f"{graph!r}; last event in the journal: {names['row'].seq}"),
    "window": Step(
        "model/resource_graph.py", "ResourceGraph._request_window", lambda _, window: f"[{window[0]}, {_end(window[1])}) in ticks"
    ),
    "plan": Step("match/plan.py", "plan", _demand),
    "form": Step("match/form.py", "form", _form),
    "capacity": Step(
        "match/node_table.py",
        "NodeTable.capacity",
        lambda _, found: f"free cores by node  {found[0].tolist()}",
    ),
    "nodes": Step("match/vector.py", "Search._choose", lambda _, chosen: f"rows of the node table  {chosen.nodes.tolist()}"),
    "pools": Step(
        "match/vector.py",
        "Search._even_pools",
        lambda names, found: f"node rows {names['nodes'].tolist()}: the cores that come first, as vertices  {found.tolist()}",
    ),
    "placement": Step("match/matcher.py", "Matcher.match", _placement),
    "planned": Step("allocation/plans.py", "match", _batch),
    "planner": Step("planner/planner.py", "Planner.hold_all", _used),
    "records": Step("allocation/records.py", "Records.allocate", _held),
    "journal": Step("store/journal.py", "body", _event),
}


class Recorder:
    """Notes what the functions of `STEPS` return, the first time each does."""

    def __init__(self) -> None:
        self.blocks: dict[str, str] = {}
        root = f"{Path(fluxres.__file__).parent}{os.sep}"
        self._wanted = {(f"{root}{step.file}", step.function): name for name, step in STEPS.items()}

    def __call__(self, frame: Any, event: str, value: Any) -> None:
        name = self._wanted.get((frame.f_code.co_filename, frame.f_code.co_qualname)) if event == "return" else None
        if name is not None and name not in self.blocks:
            sys.setprofile(None)
            self.blocks[name] = STEPS[name].show(frame.f_locals, value)
            sys.setprofile(self)


def _command(*words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        run(list(words))
    return out.getvalue()


def record() -> dict[str, str]:
    """The blocks of the page, by name."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder, patch.object(clock, "system", clock.fixed(NOW_S)):
        os.environ["FLUXRES_STORE"] = f"sqlite:///{folder}/store.db"
        _command("load", str(ROOT / "data" / "clusters" / "demo.yaml"))
        sys.setprofile(recorder)
        try:
            answer = _command(*COMMAND)
        finally:
            sys.setprofile(None)
    blocks = {}
    for name, step in STEPS.items():
        blocks[name] = f"```text\n# fluxres/{step.file}: {step.function}\n{recorder.blocks.get(name, '(not reached)')}\n```\n"
    blocks["answer"] = f"```console\n$ fluxres {' '.join(COMMAND)}\n{answer}```\n"
    return blocks


def page(text: str, blocks: dict[str, str]) -> str:
    """The text of the page with these blocks in it."""
    return BLOCK.sub(lambda found: f"{found[1]}{blocks[found[2]]}{found[4]}", text)


def in_fresh_process() -> dict[str, str]:
    """The blocks, recorded in another process, whose time zone and environment are known."""
    env = {**os.environ, "TZ": "UTC", "COLUMNS": "120", "NO_COLOR": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.tour", "--json"], cwd=ROOT, env=env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, str] = orjson.loads(done.stdout)
    return found


def main(words: list[str]) -> None:
    if "--json" in words:
        print(orjson.dumps(record()).decode())
        return
    blocks = in_fresh_process()
    if "--write" in words:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), blocks), encoding="utf-8")
    else:
        print("\n".join(f"<!-- tour: {name} -->\n{block}<!-- /tour -->\n" for name, block in blocks.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
