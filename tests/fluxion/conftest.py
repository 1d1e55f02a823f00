"""A small machine in each file format, and sessions on it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fluxres import clock
from fluxres.cli.commands.query import write_drawing
from fluxres.fluxion import options
from fluxres.fluxion.session import Session

MACHINE = (
    ("cluster", "rack", 2, 0),
    ("rack", "node", 2, 1),
    ("node", "socket", 2, 0),
    ("socket", "core", 4, 1),
    ("socket", "memory", 2, 1),
)
"""m0: 2 racks of 2 nodes of 2 sockets of 4 cores and 2 memories of 4 units."""


def grug(rules: Sequence[tuple[str, str, int, int]] = MACHINE, *, memory: int = 4) -> str:
    """A recipe: (source, target, number, id_scope)."""
    kinds = dict.fromkeys(kind for source, target, _, _ in rules for kind in (source, target))
    text = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="directed">'
    for number, kind in enumerate(kinds):
        data = {"type": kind, "basename": "m" if number == 0 else kind, "root": int(number == 0)}
        data |= {"size": memory, "unit": "GB"} if kind == "memory" else {}
        text += f'<node id="{kind}">' + "".join(f'<data key="{key}">{value}</data>' for key, value in data.items()) + "</node>"
    for source, target, scale, scope in rules:
        text += f'<edge source="{source}" target="{target}"><data key="multi_scale">{scale}</data>'
        text += f'<data key="id_scope">{scope}</data></edge>'
    return text + "</graph></graphml>"


def jobspec(*resources: dict[str, Any], duration: float = 100, **system: Any) -> str:
    """A request in YAML, which JSON is."""
    return json.dumps(
        {
            "version": 9999,
            "resources": resources,
            "tasks": [{"command": ["app"], "slot": "s", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": duration, **system}},
        }
    )


def ask(type_: str, count: object = 1, *below: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A resource of a request."""
    found: dict[str, Any] = {"type": type_, "count": count, **more}
    if below:
        found["with"] = list(below)
    if type_ in ("slot", "xor_slot"):
        found.setdefault("label", "s")
    return found


@dataclass
class Typed:
    """A session that receives commands; files of requests are created when needed."""

    session: Session
    folder: Path
    out: io.StringIO
    console: io.StringIO
    errors: io.StringIO
    files: int = 0

    def __call__(self, *lines: str) -> str:
        """The results of the lines."""
        before = len(self.out.getvalue())
        self.session.run(lines)
        return self.out.getvalue()[before:]

    def file(self, text: str) -> str:
        """A new file with a text."""
        self.files += 1
        path = self.folder / f"f{self.files}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def match(self, *resources: dict[str, Any], op: str = "allocate", **more: Any) -> str:
        """The results of one match."""
        return self(f"match {op} {self.file(jobspec(*resources, **more))}")

    def taken(self, *resources: dict[str, Any], **more: Any) -> list[str]:
        """Names that a match takes exclusively, or the reason why there are none."""
        text = self.match(*resources, **more)
        if "No matching" in text:
            return ["unsatisfiable" if "Unsatisfiable" in text else "busy"]
        return [line.strip(" -").partition("[")[0] for line in text.splitlines() if line.endswith(":x]")]

    def told(self) -> str:
        """The last error."""
        return (self.errors.getvalue().splitlines() or [""])[-1]


Start = Callable[..., Typed]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts a session: options by name, and the text of the graph."""

    def started(*words: str, graph: str | None = None) -> Typed:
        path = tmp_path / "graph"
        path.write_text(grug() if graph is None else graph, encoding="utf-8")
        out, console, errors = io.StringIO(), io.StringIO(), io.StringIO()
        chosen = options.parse(["-d", "-L", str(path), *words])
        session = Session(chosen, out, console, errors, clock=clock.fixed(5.0))
        write_drawing(session)
        return Typed(session, tmp_path, out, console, errors)

    return started
