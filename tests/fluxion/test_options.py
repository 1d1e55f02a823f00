"""The options of the program, and the command itself."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fluxres import limits
from fluxres.errors import InputError, StoreError, UsageError
from fluxres.fluxion import drawing, options, policies, pruning
from tests.fluxion.conftest import Start, ask, grug, jobspec

NODE = ask("slot", 1, ask("node", 1))


def test_long_and_short_names_are_equivalent() -> None:
    values = ["a", "jgf", "CA", "low", "rv1", "flexible", "ALL:core", "out", "100", "graphml", "base"]
    letters = "LfSPFTptrgo"
    names = [
        "load-file", "load-format", "match-subsystems", "match-policy", "match-format", "traverser-policy", "prune-filters",
        "test-output", "reserve-vtx-vec", "graph-format", "graph-output",
    ]  # fmt: skip
    short = ["-d", "-e", *(word for pair in zip(letters, values, strict=True) for word in (f"-{pair[0]}", pair[1]))]
    long = ["--disable-prompt", "--elapse-time"]
    long += [word for pair in zip(names, values, strict=True) for word in (f"--{pair[0]}", pair[1])]
    assert options.parse(short) == options.parse(long)
    found = options.parse(short)
    assert options.parse(["-S", "ca"]).subsystem == found.subsystem
    assert (found.load_file, found.is_flexible, found.prompt, found.elapse_time) == ("a", True, False, True)
    assert options.parse(["--load-file=a"]).load_file == options.parse(["-La"]).load_file == "a"


def test_defaults() -> None:
    found = options.parse([])
    assert (found.load_file, found.load_format, found.subsystem, found.match_format) == (
        "conf/default", "grug", "containment", "simple",
    )  # fmt: skip
    assert found.policy == policies.POLICIES["first"]


def test_filters_are_combined_and_may_be_empty() -> None:
    assert options.parse(["-p", "ALL:core", "-p", "rack:node"]).prune_filters == "ALL:core,rack:node"
    assert options.parse(["--prune-filters="]).prune_filters == ""
    assert pruning.parse(" ALL:core, ALL:core ,,rack : node") == {"ALL": ["core"], "rack": ["node"]}


@pytest.mark.parametrize(
    "words",
    [
        ["-Z"], ["--colour"], ["-L"], ["file"], ["-f", "toml"], ["-S", "XA"], ["-P", "fast"], ["-F", "yaml"], ["-T", "fast"],
        ["-p", "core"], ["-p", "a:b:c"], ["-p", ":core"], ["-r", "-1"], ["-r", "2000001"], ["-r", "9" * 99], ["-g", "png"],
    ],
)  # fmt: skip
def test_unknown_words_are_refused(words: list[str]) -> None:
    with pytest.raises(UsageError):
        options.parse(words)


@pytest.mark.parametrize("name", options.SUBSYSTEMS)
def test_known_subsystems_may_be_missing(start: Start, name: str) -> None:
    if options.SUBSYSTEMS[name][0] == "containment":
        assert start("-S", name).taken(NODE) == ["node3"]
    else:
        with pytest.raises(InputError, match="no subsystem"):
            start("-S", name)


def test_graph_is_drawn(start: Start, tmp_path: Path) -> None:
    graph = grug((("cluster", "node", 1, 0),))
    start("-o", str(tmp_path / "drawn"), graph=graph)
    assert (tmp_path / "drawn.dot").read_text(encoding="utf-8") == (
        'digraph G {\n0 [label="m0"];\n1 [label="node0"];\n0->1 [label="containment"];\n}\n'
    )
    start("-g", "graphml", "-o", str(tmp_path / "drawn"), graph=graph)
    text = (tmp_path / "drawn.graphml").read_text(encoding="utf-8")
    assert '<edge source="n0" target="n1"><data key="subsystem">containment</data></edge>' in text
    with pytest.raises(StoreError, match="cannot be written"):
        start("-o", str(tmp_path / "no" / "drawn"))
    assert set(drawing.FORMS) == {"dot", "graphml"}


def test_a_full_disk_leaves_the_drawing_that_was_there(start: Start, tmp_path: Path) -> None:
    (tmp_path / "drawn.dot").write_text("old", encoding="utf-8")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StoreError, match="nothing was written"):
            start("-o", str(tmp_path / "drawn"), graph=grug((("cluster", "node", 40, 0),)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "drawn.dot").read_text(encoding="utf-8") == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"drawn.dot", "graph"}


def run(folder: Path, *words: str, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from fluxres.cli.main import main; sys.exit(main())", "query", *words]
    return subprocess.run(command, input=typed, capture_output=True, text=True, cwd=folder, timeout=60, check=False)


def test_the_program_writes_results_to_the_file_named(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text(grug(), encoding="utf-8")
    (tmp_path / "job").write_text(jobspec(NODE), encoding="utf-8")
    done = run(tmp_path, "-L", "graph", "-t", "out", "-d", typed="match allocate job\nlist\n")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "INFO: 1, job, ALLOCATED\n")
    written = (tmp_path / "out").read_text(encoding="utf-8")
    assert written.startswith("      ---------node3[1:x]\n")
    shown = run(tmp_path, "-L", "graph", typed="match allocate job\nquit\n").stdout
    assert shown == f"resource-query> {written}resource-query> "


def test_program_exits_with_a_status(tmp_path: Path) -> None:
    (tmp_path / "graph").write_text(grug(), encoding="utf-8")
    assert run(tmp_path, "-L", "graph", "-d", typed="nonsense\n").returncode == 1
    assert run(tmp_path, "-L", "graph", "-d", typed="match allocate none\n").returncode == 0
    for words in (["-L", "none"], ["-Z"], ["-L", "graph", "-t", "no/out"], ["-L", "graph", "-f", "jgf"]):
        done = run(tmp_path, *words)
        assert done.returncode not in (0, 1)
        assert done.stderr.startswith("fluxres: ERROR ")
        assert done.stderr.count("fluxres: ERROR") == 1
    endless = run(tmp_path, "-L", "graph", "-d", typed="x" * (limits.TYPED_LINE_MAX + 1))
    assert endless.returncode not in (0, 1)
    assert "characters" in endless.stderr
    told = run(tmp_path, "--help")
    assert told.returncode == 0
    assert told.stdout.startswith("usage: fluxres query")
