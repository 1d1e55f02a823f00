"""Timelines, against the records moment by moment."""

from __future__ import annotations

from random import Random
from xml.etree import ElementTree

import pytest

import fluxres
from fluxres import Resource, ResourceGraph, limits
from fluxres.clock import TICKS_PER_S
from fluxres.render import timeline
from fluxres.render.text import Column, Style, table, width, without_utf8
from fluxres.render.timeline_svg import picture
from fluxres.syntax import hostlist

SPAN = (0, 100 * TICKS_PER_S)


def filled(seed: int) -> ResourceGraph:
    random = Random(seed)
    node = Resource("node", 3, id=range(6), children=[Resource("core", 2)])
    graph = fluxres.build(Resource("rack", 2, children=[node]), name="lab")
    wheres = [pool.where for pool in graph.walk("/")]
    for number in range(12):
        start = random.choice([0, 10, 30, 60])
        try:
            graph.allocate(random.choice(wheres[1:]), job=f"j{number}", start=start, end=start + random.randint(1, 60))
        except fluxres.FluxresError:
            continue
    graph.reserve("/lab/rack1", name="m", start=70, end=90, ignore_jobs=True)
    return graph


def there(graph: ResourceGraph, host: str, at: int) -> tuple[str, ...]:
    node = next(pool for pool in graph.find("type=node") if pool.name == host)
    near = [*graph.structure.ancestors(node.vertex), *range(node.vertex, graph.structure.end.item(node.vertex))]
    moment = at * TICKS_PER_S
    return tuple(sorted({job for v in near for job, *_ in graph.records.spans(v, moment, moment + 1)}))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(20))
def test_each_host_has_the_jobs_that_the_records_say(seed: int) -> None:
    graph = filled(seed)
    found = timeline.of(graph, SPAN)
    hosts = [(host, row) for row in found.rows for host in hostlist.parse(row.label)]
    assert sorted(host for host, _ in hosts) == [f"node{i}" for i in range(6)]
    assert sum(row.nodes for row in found.rows) == 6
    for host, row in hosts:
        for at in range(100):
            jobs = next((segment.jobs for segment in row.segments if segment.start <= at < segment.end), ())
            assert jobs == there(graph, host, at)
    looks = [row.segments for row in found.rows]
    assert len(set(looks)) == len(looks), "alike nodes share a row"


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [40, 80, 133])
@pytest.mark.parametrize("seed", range(20))
def test_every_line_fits(seed: int, columns: int) -> None:
    for by_job in (False, True):
        lines = timeline.draw(timeline.of(filled(seed), SPAN, by_job=by_job), columns)
        assert all(width(line) <= columns for line in lines)
        rows = lines[2 : lines.index("")]
        assert rows
        assert {width(line) for line in rows} == {columns}


def test_a_table_is_aligned_as_the_output_shows_it() -> None:
    columns = [Column("NAME", cut=True), Column("POOLS", right=True)]
    rows = [["Größe", "1"], ["core", "12"], ["a name that is cut ↔", "3"]]
    for limit in (None, 24):
        lines = table(columns, rows, style=Style(columns=limit, encoding="ascii"))
        assert all(line.isascii() for line in lines)
        assert len({len(line) for line in lines}) == 1
        assert limit is None or len(lines[0]) <= limit


@pytest.mark.parametrize("encoding", ["utf8", "ascii"])
@pytest.mark.parametrize("job", [r"a\x1b[31mb", "Größe", "核" * 20, "e\u0301" * 9])
@pytest.mark.parametrize("by_job", [False, True])
def test_lines_have_one_width_whatever_the_output_shows(job: str, by_job: bool, encoding: str) -> None:
    graph = fluxres.build(Resource("node", 3), name="lab")
    graph.allocate("/lab/node0", job=job, start=0, end=90)
    graph.allocate("/lab/node1", job="b", start=0, end=90)
    style = Style(encoding=encoding)
    lines = timeline.draw(timeline.of(graph, SPAN, by_job=by_job), 60, style=style)
    bars = lines[2 : lines.index("")]
    shown = bars if encoding == "utf8" else [without_utf8(line, encoding) for line in bars]
    assert {width(line) for line in shown} == {60}
    assert len({width(line.partition("|" if encoding == "ascii" else "│")[0]) for line in shown}) <= 2


def test_the_bars_begin_and_end_where_they_should() -> None:
    graph = fluxres.build(Resource("node", 2), name="lab")
    graph.allocate("/lab/node0", job="a", start=0, end=50)
    graph.allocate("/lab/node0", job="later", start=75, end=100)
    graph.set_state("/lab/node1", "drain")
    assert timeline.draw(timeline.of(graph, SPAN), 27) == [
        "HOSTS  now         60",
        "       ▼───────────┬───────",
        "node0  │a━━━━━━━━·····│late",
        "node1  │drainedxxxxxxxxxxxx",
        "",
        "━━ running  ┅┅ planned",
        "xx drained or down  ·· free",
    ]


def test_the_picture_is_svg_with_names_escaped() -> None:
    graph = fluxres.build(Resource("node", 2), name="lab")
    graph.allocate("/lab/node0", job="<a&b>", start=0, end=50, user="<eve>")
    root = ElementTree.fromstring(picture(timeline.of(graph, SPAN), "lab <1>", 800))
    texts = [element.text for element in root.iter() if element.text and element.text.strip()]
    assert {"lab <1>", "node0", "node1", "<a&b>", "<eve>"} <= set(texts)
    assert root.attrib["width"] == "800"


def test_a_picture_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHART_ROWS_MAX", 1)
    graph = fluxres.build(Resource("node", 2), name="lab")
    graph.allocate("/lab/node0", job="a", start=0, end=50)
    assert "… and 1 more row<" in picture(timeline.of(graph, SPAN), "lab", 800)


def test_a_legend_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHART_LEGEND_MAX", 1)
    graph = fluxres.build(Resource("node", 3), name="lab")
    for number, user in enumerate(("ada", "bob", "eve")):
        graph.allocate(f"/lab/node{number}", job=user, start=0, end=50, user=user)
    assert "… 2 more" in picture(timeline.of(graph, SPAN), "lab", 800)


def test_nodes_of_one_name_are_named_by_path() -> None:
    graph = fluxres.build(Resource("rack", 2, children=[Resource("node", 2)]), name="lab")
    graph.allocate("/lab/rack1/node0", job="a", start=0, end=50)
    assert [row.label for row in timeline.of(graph, SPAN).rows] == [
        "/lab/rack0/node[0-1],/lab/rack1/node1",
        "/lab/rack1/node0",
    ]


def test_dates_on_the_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    begin = 1_795_478_400.0 + 1800  # 2026-11-24T00:30Z
    assert [text for _, text in timeline.ticks(begin, begin + 86_400, 6)] == ["06:00", "12:00", "18:00", "Nov 25"]
    assert [text for _, text in timeline.ticks(begin, begin + 30 * 86_400, 6)][:2] == ["Nov 29", "Dec 4"]
