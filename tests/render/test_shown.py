"""What a person sees of a value: short forms, the tables of the commands, and their HTML in notebooks."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

import fluxres
from fluxres import limits
from fluxres.cli.program import run
from fluxres.render.html import HtmlStyle, page
from fluxres.render.text import Column, table
from tests.traceability import ROOT


class Page(HTMLParser):
    """The elements, and the texts without their markup; raises where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] != "style":
            self.texts.append(data)


def demo() -> fluxres.ResourceGraph:
    return fluxres.load(ROOT / "data" / "clusters" / "demo.yaml")


def values() -> dict[str, Any]:
    g = demo()
    allocation = g.allocate("slot=4/[core=8;gpu=1]", job="j1", duration_s="1h")
    top = fluxres.Instance(demo())
    top.spawn(top.submit("slot/node", duration_s=60, name="solve"))
    return {
        "graph": g,
        "pool": g.pool("/demo/rack0/node0"),
        "selection": g.find("type=node"),
        "nothing": g.find("type=node and id=99"),
        "allocation": allocation,
        "holdings": g.holdings(),
        "totals": g.totals(),
        "match": g.match("-N2 -x", duration_s=60),
        "later match": g.match("-N2 -x", at=60, duration_s=60),
        "refusal": g.why_not("-N8 -x", duration_s=60),
        "instance": top,
    }


VALUES = values()
SHORT = {
    "graph": "<ResourceGraph demo: 200 pools, 1 job>",
    "allocation": "<Allocation j1: 32 core, 4 gpu, from 0 s until 3600 s>",
    "holdings": "<Spans of 1 job: 36 records>",
    "totals": "<Totals of 10 types>",
    "match": "<Match of 2 node, from 0 s until 60 s, policy first>",
    "instance": "<Instance demo: fcfs, 0 pending, 1 running>",
}


@pytest.mark.parametrize("name", SHORT)
def test_short_form_is_one_line(name: str) -> None:
    assert repr(VALUES[name]) == SHORT[name]


def test_refusal_reads_as_sentences() -> None:
    refusal = VALUES["refusal"]
    assert str(refusal).splitlines() == refusal.sentences()
    assert repr(refusal) == f"<Refusal: {' '.join(refusal.sentences())}>"


@pytest.mark.parametrize("name", VALUES)
def test_print_and_show_agree(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    VALUES[name].show()
    assert capsys.readouterr().out == f"{VALUES[name]}\n"


@pytest.mark.parametrize(
    ("command", "value"),
    [
        (["show"], lambda g: g),
        (["show", "/demo/rack0/node2"], lambda g: g.pool("/demo/rack0/node2")),
        (["find", "type=node or type=gpu"], lambda g: g.find("type=node or type=gpu")),
        (["allocated"], lambda g: g.holdings()),
        (["allocated", "j1"], lambda g: g.allocation("j1")),
        (["when", "-N2", "-x"], lambda g: g.match("-N2 -x")),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_values_print_as_the_commands_do(
    command: list[str], value: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLUXRES_STORE", f"sqlite:///{tmp_path}/s.db")
    g = demo()
    g.allocate("/demo/rack0/node[0-1]", job="j1", end=4e9)
    g.pool("/demo/rack0/node2/socket0/memory").allocate(16, "j2", end=4e9)
    fluxres.save(g, f"sqlite:///{tmp_path}/s.db")
    run(command)
    printed = capsys.readouterr().out
    assert printed == f"{value(fluxres.load(f'sqlite:///{tmp_path}/s.db'))}\n"
    assert len(printed.splitlines()) > 1


def test_trees_may_be_shown_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    demo().show(depth=1)
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["/demo", "└─"]


@pytest.mark.parametrize("name", VALUES)
def test_html_has_the_words_of_the_text(name: str) -> None:
    shown = Page(VALUES[name]._repr_html_())
    words = set(" ".join(shown.texts).replace("\xa0", " ").split())
    assert set(str(VALUES[name]).split()) <= words
    assert shown.tags[:2] == ["div", "style"]


def test_html_of_a_graph_has_its_totals_and_its_tree() -> None:
    assert Page(VALUES["graph"]._repr_html_()).tags.count("table") == 3


def test_html_escapes_what_files_and_people_wrote() -> None:
    g = fluxres.build(fluxres.Resource("node", 1, children=[fluxres.Resource("core", 2)]), name="s")
    g.tag("/s/node0", "note", "<script>alert('&')</script>\x1b[2J")
    g.allocate("/s/node0/core0", job="<b>j</b>")
    for value in (g, g.find("type=node or type=core"), g.allocation("<b>j</b>"), g.why_not("-N1 -x"), g.pool("/s/node0")):
        html = value._repr_html_()
        assert "script" not in Page(html).tags
        assert "b" not in Page(html).tags
        assert "\x1b" not in html
    assert "<script>alert('&')</script>\\x1b[2J" in " ".join(Page(g._repr_html_()).texts)


def test_html_tables_are_bounded_and_count_the_rest() -> None:
    rows = [[str(number)] for number in range(limits.HTML_ROWS_MAX + 2)]
    whole, cut = ("".join(table([Column("N")], part, style=HtmlStyle())) for part in (rows[:-2], rows))
    assert whole.count("<tr>") == cut.count("<tr>") == limits.HTML_ROWS_MAX + 1
    assert "more" not in whole
    assert cut.endswith("… and 2 more rows")


def test_html_of_a_selection_counts_the_pools_in_the_rest() -> None:
    number = limits.HTML_ROWS_MAX + 5
    g = fluxres.build(fluxres.Resource("node", number), name="s")
    for i in range(number):
        g.tag(f"/s/node{i}", "serial", str(i))
    shown = Page(g.find("type=node")._repr_html_())
    assert shown.tags.count("tr") == limits.HTML_ROWS_MAX + 1
    assert shown.texts[-1] == "… and 5 more pools"


def test_style_suits_light_and_dark_pages() -> None:
    css = page([])
    assert "prefers-color-scheme:dark" in css
    assert "data-jp-theme-light=false" in css
    assert not re.search(r"background(-color)?:(?!none)", css)


def test_values_of_a_changed_graph_show_their_short_form() -> None:
    g = demo()
    g.allocate("/demo/rack0/node0", job="j")
    held = g.allocation("j")
    before = str(held)
    stale = [g.find("type=node"), g.pool("/demo/rack0/node3"), g.match("slot/core")]
    g.unlink("/demo/rack1")
    for value in stale:
        assert str(value) == repr(value)
        assert repr(value) in " ".join(Page(value._repr_html_()).texts)
    assert str(held) == before  # an allocation is a value of its machine
    g.destroy()
    assert str(g) == repr(g) == "<ResourceGraph demo: destroyed>"
    assert "destroyed" in g._repr_html_()


def test_nothing_is_drawn_until_somebody_looks() -> None:
    code = (
        "import sys, fluxres\n"
        "g = fluxres.load('data/clusters/demo.yaml')\n"
        "a = g.allocate('-N2 -x', job='j', duration_s=60), g.find('type=node'), g.match('slot/core'), fluxres.Instance(g)\n"
        "list(map(repr, a))\n"
        "print(sorted(name for name in sys.modules if name.startswith('fluxres.render') or name in ('pyarrow', 'html')))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert shown.stdout == "[]\n"
