"""The figures of the studies of data/experiments in specs/experiments.md, and where they come from.

    python -m tests.docs.studies RESULTS [NAME ...]    runs all studies, or these, in RESULTS/NAME, and records and writes them
    python -m tests.docs.studies                       writes the tables and pictures again, from what is recorded

`specs/figures/studies.json` has what each run measured, and the SHA-256 of the page that describes it.  A table stands in the
document between ``<!-- study: NAME METRIC ... [by AXIS] [to PATH=VALUE] -->`` and ``<!-- /study -->``: the values of the axis are
the columns, and ratios are to this setting instead of the baseline.  A picture `specs/figures/experiment-NAME.svg` compares the
first metric of a study of `PICTURES`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from fluxres.experiments import campaign, charts, study
from fluxres.experiments.comparison import Estimate, estimate, ratio
from fluxres.experiments.figures import Scale, scale, title
from fluxres.experiments.folder import ResultsFolder
from fluxres.experiments.study import Run, Study, label, matches, readable

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "data" / "experiments"
PAGE = ROOT / "specs" / "experiments.md"
FIGURES = ROOT / "specs" / "figures"
RECORD = FIGURES / "studies.json"
BLOCK = re.compile(
    r"(<!-- study: ([a-z-]+) ([\w ]+?)(?: by ([\w.]+))?(?: to ([\w.]+)=(\S+))? -->\n)(.*?)(<!-- /study -->)", re.DOTALL
)
PICTURES = ("levels", "boot", "policies", "power", "sharing")
DIGITS = 12

Measured = Mapping[str, float | None]
"""The metrics of a run."""


class Recorded(NamedTuple):
    """What was measured of a study.

    Args:
        page: the SHA-256 of its page.
        runs: the metrics that it shows first, by the key of the run.
    """

    page: str
    runs: Mapping[str, Measured]


class Row(NamedTuple):
    """A setting with the estimates of its metrics, and of their ratios to the baseline."""

    settings: Mapping[str, Any]
    figures: Mapping[str, Estimate | None]
    ratios: Mapping[str, Estimate | None]
    is_base: bool


def names() -> list[str]:
    return sorted(path.stem for path in STUDIES.glob("*.yaml"))


def digest(name: str) -> str:
    return sha256((STUDIES / f"{name}.yaml").read_bytes()).hexdigest()


@cache
def load(name: str) -> Study:
    return study.load(STUDIES / f"{name}.yaml")


@cache
def recorded() -> dict[str, Recorded]:
    return {name: Recorded(**each) for name, each in orjson.loads(RECORD.read_bytes()).items()}


def measured(found: Study, metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """What is recorded of the metrics of a run."""
    return {name: None if (value := metrics[name]) is None else float(f"{value:.{DIGITS}g}") for name in found.shown}


def measured_runs(found: Study, folder: ResultsFolder) -> dict[str, dict[str, float | None]]:
    """The same of all runs."""
    documents = {run.key: folder.read(run) for run in found.runs}
    return {key: measured(found, document["metrics"]) for key, document in documents.items() if document is not None}


# -- tables ------------------------------------------------------------------------------------------------------------


def rows(name: str, base: Mapping[str, Any] | None = None) -> list[Row]:
    """The settings of a study, by what is recorded: all of its settings ran the same jobs, so ratios are those of the metrics.

    Args:
        base: what ratios are to; by default the baseline.
    """
    found, runs = load(name), recorded()[name].runs
    base = base or found.page.baseline
    made = []
    for settings in found.settings:
        wanted = {**settings, **base}
        of = next(each for each in found.settings if matches(each, wanted))
        own, theirs = (_values(found, runs, each) for each in (settings, of))
        figures = {metric: estimate(list(values.values())) for metric, values in own.items()}
        ratios = {metric: ratio(values, theirs[metric]) for metric, values in own.items()}
        made.append(Row(settings, figures, ratios, of is settings))
    return made


def _values(found: Study, runs: Mapping[str, Measured], settings: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """By metric and repeat."""
    own: list[Run] = [run for run in found.runs if run.settings == settings]
    return {metric: {run.repeat: value for run in own if (value := runs[run.key][metric]) is not None} for metric in found.shown}


def table(name: str, metrics: Sequence[str], axis: str | None = None, base: Mapping[str, Any] | None = None) -> str:
    """Means with 95 % confidence, each with its ratio to the baseline, or to this setting."""
    found, made = load(name), rows(name, base)
    scales = {metric: scale(metric, [own.mean for row in made if (own := row.figures[metric])]) for metric in metrics}
    heads = [path for path in found.varied if path != axis]
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in made:
        cells = lines.setdefault(tuple(_written(row.settings[path]) for path in heads), [])
        cells += [_cell(row, metric, scales[metric]) for metric in metrics]
    headings = [title(metric, scales[metric]) for metric in metrics]
    if axis is not None:
        values = dict.fromkeys(_written(row.settings[axis]) for row in made)
        word = found.page.labels.get(axis, axis.rpartition(".")[2])
        headings = [f"{headings[0]}: {word} {value}" if not at else value for at, value in enumerate(values)]
    first = [found.page.labels.get(path, path.rpartition(".")[2]).replace("_", " ") for path in heads]
    head = [f"| {' | '.join([*first, *headings])} |", f"|{'---|' * len(first)}{'--:|' * len(headings)}"]
    return "\n".join([*head, *(f"| {' | '.join([*key, *cells])} |" for key, cells in lines.items())])


def _written(value: Any) -> str:
    return readable(value).removeprefix("model=")


def _cell(row: Row, metric: str, shown: Scale) -> str:
    own, relative = row.figures[metric], row.ratios[metric]
    text = charts.spread(own, shown)
    return text if relative is None or row.is_base else f"{text} (×{charts.spread(relative, Scale(1.0, ''), digits=3)})"


def with_tables(text: str) -> str:
    """A document with its tables made again."""

    def made(block: re.Match[str]) -> str:
        base = {block[5]: block[6]} if block[5] else None
        return f"{block[1]}{table(block[2], block[3].split(), block[4], base)}\n{block[8]}"

    return BLOCK.sub(made, text)


# -- pictures ----------------------------------------------------------------------------------------------------------


def picture(name: str) -> bytes:
    """The first metric of a study, and its ratios to the baseline, as its report draws them."""
    found = load(name)
    metric = found.shown[0]
    bars = []
    for row in rows(name):
        *outer, last = row.settings.items()
        group = label(dict(outer), found.page.labels)
        bars.append(charts.Bar(readable(last[1]), group, row.figures[metric], row.ratios[metric], row.is_base))
    against = study.in_words(found.page.baseline, found.page.labels)
    return charts.comparison(bars, metric, against=against).svg


# -- making them -------------------------------------------------------------------------------------------------------


def record(results: Path, wanted: Sequence[str]) -> Iterator[str]:
    """Run studies, and record what they measured."""
    kept = {name: each._asdict() for name, each in recorded().items()} if RECORD.exists() else {}
    for name in wanted:
        found, folder = load(name), ResultsFolder(results / name)
        failed = campaign.run(found, folder.path, processes=2).failed
        if failed:
            raise SystemExit(f"{name}: {failed}")
        kept[name] = {"page": digest(name), "runs": measured_runs(found, folder)}
        RECORD.write_bytes(orjson.dumps(dict(sorted(kept.items())), option=orjson.OPT_INDENT_2) + b"\n")
        yield name


def main() -> None:
    if words := sys.argv[1:]:
        for name in record(Path(words[0]), words[1:] or names()):
            print(name)
        recorded.cache_clear()
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    for name in PICTURES:
        (FIGURES / f"experiment-{name}.svg").write_bytes(picture(name))


if __name__ == "__main__":
    main()
