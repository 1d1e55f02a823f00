"""`fluxres experiment`: run studies of schedulers and report the results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluxres.cli.output import answer, answer_table, note
from fluxres.cli.program import Group
from fluxres.cli.progress import progress
from fluxres.cli.settings import TABLE_OUTPUTS, Settings
from fluxres.documents.document import plural
from fluxres.errors import RunFailed
from fluxres.render.text import Column, table, table_width

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fluxres.experiments.comparison import Checked, Comparison, Estimate
    from fluxres.experiments.real import Pair, Wanted
    from fluxres.experiments.study import Study
    from fluxres.launch.hierarchy import EqualJobs
    from fluxres.render.text import Cells, Style

NOT_AS_EXPECTED = 1
"""Exit status if a result differs from the expected value, or a run is missing or refused every job."""

_REMARKS_MAX = 20
"""Bound on the remarks about single runs that a terminal shows."""

_PATH = click.Path(path_type=Path)


@click.group("experiment", cls=Group, invoke_without_command=True)
@click.pass_context
def experiment_command(ctx: click.Context) -> None:
    """Run the simulations described by a study, and compare them."""
    if ctx.invoked_subcommand is None:
        raise click.UsageError("expected run, report or show", ctx)


@experiment_command.command("run")
@click.argument("study", metavar="STUDY", type=_PATH)
@click.option("--out", metavar="DIR", type=_PATH, required=True, help="Directory of the results; completed runs in it are kept.")
@click.option(
    "--processes", metavar="N", type=click.IntRange(1, 1024), help="Number of parallel runs. Default: one per processor."
)
@click.option("--cluster", metavar="ADDRESS", help="Run on this dask.distributed scheduler.")
@click.option("--check", "checks", is_flag=True, help="Compare the results with the study's expected values.")
@click.option("--real", "is_real", is_flag=True, help="Run each setting in processes as well, on this machine, and compare.")
@click.pass_obj
def run(
    settings: Settings, study: Path, out: Path, processes: int | None, cluster: str | None, checks: bool, is_real: bool
) -> int:
    """Execute the runs of a study that are not in DIR yet, and write the report.

    It can be interrupted at any time; the same command continues with the remaining runs. Ends with status 5 if a run failed.
    """
    read = _study(study)
    if is_real:
        _require_real(read)
    head = [_title(read)]
    return make_runs(settings, read, out, processes=processes, cluster=cluster, checks=checks, head=head, is_real=is_real)


def make_runs(
    settings: Settings,
    study: Study,
    out: Path,
    *,
    processes: int | None = None,
    cluster: str | None = None,
    checks: bool = False,
    keeps: bool = True,
    head: Sequence[str] = (),
    is_real: bool = False,
) -> int:
    """Make the runs of a study that are missing, and report them.

    Args:
        checks: compare with the expected values.
        head: lines before the table.
        is_real: the first run of each setting is made in processes as well.
        keeps: the directory stays, so it gets a report.
    """
    from fluxres.experiments import campaign

    with progress(len(study.runs), "runs") as shown:

        def show(done: float, text: str) -> None:
            shown.done, shown.text = done, text

        try:
            ended = campaign.run(
                study,
                out,
                processes=processes or campaign.default_processes(),
                cluster=cluster,
                command=settings.command,
                on_progress=show,
            )
        except KeyboardInterrupt:
            if keeps:
                note(f"completed runs are in {out}; the same command makes those that are missing")
            raise
    for key, error in ended.failed.items():
        note(f"run {key} failed: {error}")
    if is_real:
        _run_really(study, out)
    return _report(settings, study, out, made=ended.made, kept=ended.kept, checks=checks, keeps=keeps, head=head)


def _require_real(study: Study) -> None:
    from fluxres.experiments import real
    from fluxres.launch import hierarchy

    def start(wanted: Wanted) -> None:
        hierarchy.check(wanted.machine.graph, wanted.hierarchy, _ensemble(wanted), inventory=wanted.inventory)

    real.require(study, start)


def _run_really(study: Study, out: Path) -> None:
    """Run the first run of each setting in processes, one after the other."""
    from fluxres.experiments import real
    from fluxres.experiments.folder import ResultsFolder
    from fluxres.launch import hierarchy

    folder = ResultsFolder(out)
    runs = [run for run in study.runs if run.repeat == 0 and folder.is_done(run)]
    with progress(len(runs), "real runs") as shown:
        for done, run in enumerate(runs):
            shown.done, shown.text = done, run.key
            place = folder.runs / run.key
            if real.read(place) is None:
                wanted = real.wanted(run)
                found = hierarchy.run(
                    wanted.machine.graph, wanted.hierarchy, _ensemble(wanted), inventory=wanted.inventory, keeps_starts=True
                )
                for instance, what in found.notes.items():
                    note(f"run {run.key}, {instance}: {what}")
                measured = real.Real(
                    found.jobs,
                    found.completed,
                    found.failed,
                    found.instances,
                    found.boot_s,
                    found.run_s,
                    len(os.sched_getaffinity(0)),
                    os.getloadavg()[0],
                )
                if found.is_complete:
                    real.write(place, measured, found.starts_s)


def _ensemble(wanted: Wanted) -> EqualJobs:
    from fluxres.launch.hierarchy import EqualJobs

    return EqualJobs(wanted.jobs, wanted.job, wanted.request, wanted.limit_s)


@experiment_command.command("report")
@click.argument("results", metavar="DIR", type=_PATH)
@click.option("--check", "checks", is_flag=True, help="Compare the results with the study's expected values.")
@click.pass_obj
def report(settings: Settings, results: Path, checks: bool) -> int:
    """Write tables, charts and the report of the runs in DIR again."""
    from fluxres.experiments.folder import ResultsFolder

    study = ResultsFolder(results).study()
    return _report(settings, study, results, made=0, kept=None, checks=checks, head=[_title(study)])


@experiment_command.command("show", outputs=TABLE_OUTPUTS)
@click.argument("study", metavar="STUDY|DIR", type=_PATH)
@click.pass_obj
def show(settings: Settings, study: Path) -> None:
    """List the runs of a study, or of the study whose results are in DIR, and check that they are possible."""
    from fluxres.experiments.folder import ResultsFolder
    from fluxres.experiments.study import value_text

    read = ResultsFolder(study).study() if study.is_dir() else _study(study)
    columns = [Column("RUN"), *(Column(name.upper()) for name in read.headings), Column("SEED", right=True)]
    answer_table(
        settings,
        columns,
        [[each.key, *map(value_text, each.settings.values()), str(each.seed)] for each in read.runs],
        lambda: {
            "study": read.page.name,
            "runs": [{"run": each.key, "settings": each.settings, "seed": each.seed} for each in read.runs],
        },
    )


def _title(study: Study) -> str:
    return study.page.title or study.page.name


def _study(path: Path) -> Study:
    from fluxres.experiments import checks, study

    read = study.load(path)
    checks.check(read)
    return read


def _report(
    settings: Settings,
    study: Study,
    out: Path,
    *,
    made: int,
    kept: int | None,
    checks: bool,
    keeps: bool = True,
    head: Sequence[str] = (),
) -> int:
    from fluxres.experiments import comparison, real, report
    from fluxres.experiments.folder import ResultsFolder

    folder = ResultsFolder(out)
    found, notes = report.write(study, folder) if keeps else (comparison.compare(study, folder), [])
    for text in notes:
        note(text)
    for text in comparison.warnings(found):
        note(f"warning: {text}")
    failed = {key: error for row in found.rows for key, error in row.errors.items()}
    remarks = list(comparison.remarks(found))
    for text in remarks[:_REMARKS_MAX]:
        note(text)
    if len(remarks) > _REMARKS_MAX:
        note(f"{len(remarks) - _REMARKS_MAX} more remarks of this kind" + " are in the report" * keeps)
    metrics = [document["metrics"] for row in found.rows for _, document in row.runs]
    is_idle = any(each["refused"] and not each["jobs"] for each in metrics)
    checked = comparison.check(found) if checks else []
    document: dict[str, Any] = {
        "study": study.page.name,
        "results": str(out) if keeps else None,
        "report": str(out / report.REPORT) if keeps else None,
        "made": made,
        "kept": sum(len(row.runs) for row in found.rows) - made if kept is None else kept,
        "missing": found.missing,
        "failed": failed,
        "settings": [_row(found, at) for at in range(len(found.rows))],
        "expected": [each.to_dict() for each in checked],
        "real": [_real(each) for each in real.pairs(found)],
    }
    answer(settings, document=lambda: document, lines=lambda style: [*head, *_lines(style, found, checked, document)])
    if failed:
        raise RunFailed(f"{len(failed)} of {plural(len(study.runs), 'run')} failed", where=study.page.name)
    return NOT_AS_EXPECTED if found.missing or is_idle or not all(each.holds for each in checked) else 0


def _real(pair: Pair) -> dict[str, Any]:
    import msgspec

    measured: dict[str, Any] = msgspec.to_builtins(pair.real)
    made = {"settings": pair.row.settings, "simulated_s": pair.simulated_s, "real_s": pair.real.makespan_s, "ratio": pair.ratio}
    return made | measured


def _row(found: Comparison, at: int) -> dict[str, Any]:
    row = found.rows[at]
    keys = ("mean", "low", "high", "repeats", "interval")

    def told(given: Mapping[str, Estimate | None]) -> dict[str, Any]:
        return {
            name: None if each is None else dict(zip(keys, (*each, each.method), strict=True)) for name, each in given.items()
        }

    return {
        "settings": row.settings,
        "figures": told(row.figures),
        "ratios": told(row.ratios),
        "jobs_compared": list(row.common.values()) or None,
    }


def _lines(style: Style, found: Comparison, checked: list[Checked], document: dict[str, Any]) -> list[str]:
    from fluxres.experiments.comparison import alike

    lines = [*compared(style, found), *_real_lines(style, found)]
    lines += [f"{each.verdict}: {each.text}" for each in alike(checked)]
    lines += [f"missing: {plural(len(document['missing']), 'run')}"] * bool(document["missing"])
    return [*lines, *[f"report: {document['report']}"] * bool(document["report"])]


def _real_lines(style: Style, found: Comparison) -> list[str]:
    """A table of the settings that were run in processes as well; empty if none were."""
    from fluxres.experiments import real
    from fluxres.experiments.figures import number

    made = real.pairs(found)
    if not made:
        return []
    titles = ("SIMULATED (s)", "REAL (s)", "BOOT (s)", "REAL / SIMULATED", "COMPLETED")
    columns = [Column("SETTING"), *(Column(title, right=True) for title in titles)]
    rows = [
        [
            each.row.label,
            number(each.simulated_s),
            number(each.real.makespan_s),
            number(each.boot_s),
            number(each.ratio),
            f"{each.real.completed}/{each.real.jobs}",
        ]
        for each in made
    ]
    return ["", *table(columns, rows, style=style)]


def compared(style: Style, found: Comparison) -> list[str]:
    """The settings with their metrics, each with its ratio to the baseline: several tables where one would be too wide."""
    metrics = _metrics(found)
    lines: list[str] = []
    for group in _fitting(style, _settings(found), metrics):
        columns, texts = zip(*group, strict=True)
        lines += [*[""] * bool(lines), *table(columns, [*zip(*texts, strict=True)], style=style)]
    return [*lines, *_legend(found, metrics)]


def _settings(found: Comparison) -> list[Cells]:
    """What varies, and the numbers of runs and of jobs where these differ from those wanted."""
    from fluxres.experiments.comparison import repeats_needed, sets_of
    from fluxres.experiments.figures import FIGURES, number
    from fluxres.experiments.study import value_text

    study, needed = found.study, repeats_needed(found)
    columns: list[Cells] = [
        (Column(_heading(name)), [value_text(value) for value in values])
        for name, values in zip(study.headings, zip(*(row.settings.values() for row in found.rows), strict=True), strict=True)
    ]
    if not columns:
        columns.append((Column("STUDY"), [study.page.name]))
    if any(len(row.runs) != needed for row in found.rows):
        columns.append((Column("RUNS", right=True), [f"{len(row.runs)}/{needed}" for row in found.rows]))
    for name in sets_of(found):
        means = [number(each.mean if (each := row.figures.get(name)) else None) for row in found.rows]
        columns.append((Column(_heading(FIGURES[name].title), right=True), means))
    return columns


def _metrics(found: Comparison) -> list[Cells]:
    """The metrics that are shown first and have values, with confidence intervals."""
    from fluxres.experiments.charts import spread
    from fluxres.experiments.figures import Scale, scale, title

    columns: list[Cells] = []
    for name in found.study.shown:
        own = [row.figures.get(name) for row in found.rows]
        shown = scale(name, [each.mean for each in own if each])
        ratios = [row.ratios.get(name) for row in found.rows]
        texts = [
            spread(each, shown) + (f"  ×{spread(ratio, Scale(1.0, ''), digits=3)}" if ratio else "")
            for each, ratio in zip(own, ratios, strict=True)
        ]
        if any(own):
            columns.append((Column(_heading(title(name, shown)), right=True), texts))
    return columns


def _fitting(style: Style, settings: Sequence[Cells], metrics: Sequence[Cells]) -> Iterator[list[Cells]]:
    """Tables: the settings with as many metrics as the terminal has room for."""
    group = [*settings]
    for each in metrics:
        if len(group) > len(settings) and style.columns is not None and table_width([*group, each]) > style.columns:
            yield group
            group = [*settings]
        group.append(each)
    if metrics:
        yield group


def _legend(found: Comparison, metrics: Sequence[Cells]) -> list[str]:
    """What × and intervals are, where there are any."""
    from fluxres.experiments.comparison import repeats_needed
    from fluxres.experiments.study import in_words

    page, said = found.study.page, []
    if page.baseline:
        said.append(f"×: ratio to {in_words(page.baseline, page.labels)}" + ", run by run" * (page.repeats > 1))
    if any(mark in text for _, texts in metrics for text in texts for mark in ("±", "[")):
        said.append("± and [ ]: 95 % confidence")
    if page.stop is not None:
        said.append(f"{repeats_needed(found)} repeats, at most {page.repeats}")
    return ["; ".join(said)] if said and metrics else []


def _heading(text: str) -> str:
    """A short heading in capitals, but for its unit: `h` and `H` are not the same."""
    name, bracket, unit = text.replace("mean bounded slowdown (×)", "bounded slowdown").partition(" (")
    return name.upper().replace("_", " ") + bracket + unit
