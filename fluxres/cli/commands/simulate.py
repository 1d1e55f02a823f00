"""`fluxres simulate`: run a workload on a machine in simulated time, under one queue policy or several."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluxres.cli import completing
from fluxres.cli.estimates import estimates_options
from fluxres.cli.output import answer, note
from fluxres.cli.policy_options import match_policy_option, queue_policy_option
from fluxres.cli.program import Command
from fluxres.cli.progress import progress
from fluxres.cli.settings import JOB_OUTPUTS, PLAIN_OUTPUTS, Duration, Settings
from fluxres.documents.document import plural
from fluxres.errors import PolicyError, UsageError
from fluxres.render.text import Column, Style, table

if TYPE_CHECKING:
    from fluxres.simulation.costs.fit import Fit, Quality
    from fluxres.simulation.costs.overheads import LevelCost
    from fluxres.simulation.machine import Machine
    from fluxres.simulation.result import Result
    from fluxres.simulation.schedule import Sink
    from fluxres.simulation.simulator import Simulator
    from fluxres.simulation.workload.workload import Workload


@click.command("simulate", cls=Command, outputs=(*PLAIN_OUTPUTS, *JOB_OUTPUTS))
@click.argument("workload", metavar="WORKLOAD", shell_complete=completing.file)
@click.option(
    "--machine",
    metavar="SOURCE",
    shell_complete=completing.machine,
    help="A number, a shape such as node=32/core=8, or a file. Default: the trace's own.",
)
@click.option(
    "--unit", metavar="TYPE", help="Pool type of a processor in the workload. Default: node, else the pool of several units."
)
@queue_policy_option(
    "fcfs, easy (default), hybrid, conservative, jqm-poller, …; by level: easy:fcfs. Several are compared.",
    "queue_policies",
    multiple=True,
)
@match_policy_option("first (default), low, high, …; by level: low:high.")
@click.option(
    "--size-policy",
    metavar="P",
    shell_complete=completing.size_policy,
    help="Size of a job that may have several: requested (default), greedy, earliest-finish, efficiency:0.5.",
)
@click.option(
    "--resize-policy",
    metavar="P",
    shell_complete=completing.resize_policy,
    help="Malleable jobs that run: none (default), expand-idle, shrink-to-start, equipartition.",
)
@click.option(
    "--adaptive",
    metavar="A",
    help="Make the jobs moldable or malleable: moldable:min=0.5,max=2,fraction=0.3. Needs --speedup.",
)
@click.option(
    "--speedup",
    metavar="S",
    help="How much faster they are on more: linear, amdahl:serial=0.05, downey:A={size},sigma=1, table:1=1,8=6.5.",
)
@click.option(
    "-T",
    "--topology",
    "hierarchy",
    metavar="FANOUTS",
    help="Instances per level: 2x4 is two with four each, 16+8 two of these sizes. Default: one.",
)
@click.option("--boot", type=Duration(), metavar="D", help="Time that an instance takes to start. Default: 0.")
@click.option(
    "--ahead",
    type=click.IntRange(0),
    metavar="N",
    help="Number of queued jobs up to which an innermost instance gets more; 0 for no limit.",
)
@click.option(
    "--larger",
    type=click.Choice(("refuse", "up")),
    metavar="W",
    help="A job too large for its instance: refuse (default), up (to the next sibling that can hold it, else to the parent).",
)
@click.option(
    "--balance",
    metavar="P",
    shell_complete=completing.balance,
    help="Waiting jobs between siblings: none (default), steal (by an idle one), redeal:SECONDS (all, from time to time).",
)
@click.option(
    "--elastic",
    metavar="P",
    shell_complete=completing.elastic,
    help="Innermost instances grow and shrink: none (default), demand (after each event), share:SECONDS (by their work).",
)
@click.option("--cut", is_flag=True, help="Reduce jobs larger than the machine to its size. Default: refuse them.")
@click.option(
    "--cost",
    "costs",
    metavar="C",
    multiple=True,
    shell_complete=completing.cost,
    help="Time of a decision: none (default), fixed:S, fitted:PART=S,…, measured, a model such as fluxion-first. By level.",
)
@click.option(
    "--overhead",
    "overheads",
    metavar="O",
    multiple=True,
    help="Time of other work: ingest=1ms,start=2ms; also event, launch, spawn, messages, message. By level.",
)
@click.option(
    "--starts-per-node", type=click.IntRange(0), metavar="N", help="Jobs a node can start at once. Default: any number."
)
@click.option(
    "--event-order",
    metavar="O",
    type=click.Choice(("sequential", "batched")),
    default="sequential",
    help="Events of one moment: sequential (default; a pass after each), batched (ends first, then one pass).",
)
@click.option(
    "--processors",
    metavar="P",
    type=click.Choice(("requested", "allocated", "larger")),
    default="requested",
    help="Processors of a job of an SWF trace: requested (default), allocated, or the larger.",
)
@click.option(
    "--events",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Failures, repairs, reservations, cancels and holds, as a YAML or JSON list.",
)
@click.option("--failures", metavar="F", help="A model of failures: mtbf=30d,mttr=4h; also shape=0.7, each=rack.")
@click.option(
    "--on-failure",
    type=click.Choice(("fail", "requeue")),
    default="fail",
    help="What happens to the jobs on pools that fail: fail (default), requeue.",
)
@click.option("--checkpoint", metavar="C", help="How jobs save their work: interval=1h,save=5m,restart=2m.")
@click.option(
    "--accounting",
    metavar="FILE",
    type=click.Path(),
    help="Partitions, QOS, accounts and users with limits, shares and priorities (YAML).",
)
@click.option(
    "--energy",
    metavar="E",
    help="What a node draws, in watts: idle=100,full=200; also epsilon, off, resume, suspend. none: not counted.",
)
@click.option(
    "--power-saving",
    metavar="P",
    help="Switch idle nodes off: suspend_time=10m,suspend=30s,resume=2m; also keep, suspend_rate, resume_rate.",
)
@click.option("--power-cap", metavar="W", help="The most that all nodes may draw: 6.4kW, or over time 0=12kW,8h=6.4kW,18h=none.")
@click.option(
    "--predict",
    "prediction",
    metavar="P",
    shell_complete=completing.predictor,
    help="Policies plan with run times by tsafrir, average:last=5, fraction, categories, perfect. Default: with limits.",
)
@click.option(
    "--correct",
    "corrector",
    metavar="C",
    shell_complete=completing.corrector,
    help="What is expected of a job that outlives its prediction: tsafrir (default), doubling, requested.",
)
@click.option(
    "--feedback",
    metavar="F",
    shell_complete=completing.feedback,
    help="Jobs are submitted after others end: think (as the trace says), sessions (as it seems). Default: at their times.",
)
@estimates_options("WORKLOAD")
@click.option("--inventory", metavar="I", help="auto (default), graph, named, counted.")
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    shell_complete=completing.workload_format,
    help="Format of WORKLOAD: swf, batsim, jobs. Default: detected.",
)
@click.option("--seed", type=int, default=0, metavar="N", help="Seed of a model. Default: 0.")
@click.option("--repeats", type=click.IntRange(1), default=1, metavar="N", help="Runs of a model, with seeds from --seed on.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write results and a report with charts to DIR.")
@click.pass_obj
def simulate_command(settings: Settings, /, workload: str, **given: Any) -> int | None:
    """Simulate a WORKLOAD on a machine and print metrics, or compare queue policies.

    WORKLOAD is a trace (SWF, Batsim JSON, a list of jobs), or a model: lublin:days=7,size=128, ensemble:jobs=10000,run=2s,
    bursts:jobs=500. With -o csv (the columns of Batsim) or -o swf the jobs are written as they end.
    """
    if len(given["queue_policies"]) > 1 or given["repeats"] > 1 or given["out"] is not None:
        return _compare(settings, workload, given)
    _simulate(settings, workload, given)
    return None


# -- one run -----------------------------------------------------------------------------------------------------------


def _simulate(settings: Settings, workload: str, given: dict[str, Any]) -> None:
    from fluxres.simulation.costs.least import measured
    from fluxres.simulation.costs.overheads import fit_of, fitting

    with progress(None, "jobs") as shown:
        shown.text = f"reading {workload}"
        jobs, machine = _read(workload, given)
        _require_policies(given, jobs)
        shown.text, shown.total = "simulating", jobs.count
        costs = _costs(given)
        if workload != "-":  # standard input can be read once
            costs = measured(costs, lambda costs: _pass(workload, given, costs))
        fit = fit_of(costs)
        if fit is not None and workload != "-":
            _calibrate(fit, workload, given)
        sinks = _sinks(settings, jobs, machine, is_nested=_hierarchy(given) is not None or jobs.has_requests)
        simulator = _simulator(given, machine, costs if fit is None else fitting(costs, fit), sinks)

        def tell(ended: int) -> None:
            shown.done = ended

        result = simulator.run(jobs, tell)
    _note_left_out(jobs, result)
    if settings.output not in JOB_OUTPUTS:
        fitted = None if fit is None else str(fit.fitted())
        quality = None if fit is None else fit.quality()
        made = _made(settings, workload, machine, given)
        answer(
            settings,
            document=lambda: (
                _document(jobs, machine, result)
                | {"fitted_cost": fitted, "fit": None if quality is None else quality._asdict(), "made": made}
            ),
            lines=lambda style: [*_lines(result, made, style), *_measured(fitted, quality)],
        )
    if result.errors:
        raise PolicyError("; ".join(result.errors[:3]), hint="the metrics cover what ran until then")


def _simulator(given: dict[str, Any], machine: Machine, costs: list[LevelCost], sinks: list[Sink]) -> Simulator:
    from fluxres.instance import accounting
    from fluxres.simulation.simulator import Simulator

    hierarchy = _hierarchy(given)
    return Simulator(
        machine,
        hierarchy=hierarchy,
        cost=costs,
        size_policy=given["size_policy"] or "requested",
        resize_policy=given["resize_policy"] or "none",
        inventory=given["inventory"] or "auto",
        event_order=given["event_order"],
        disturbances=_disturbances(given, machine),
        accounting=None if given["accounting"] is None else accounting.load(given["accounting"]),
        prediction=_prediction(given),
        feedback=given["feedback"],
        energy=_energy(given),
        sinks=sinks,
        keep=False,
        **({} if hierarchy else _policies(given)),
    )


def _costs(given: dict[str, Any]) -> list[LevelCost]:
    from fluxres.simulation.costs import overheads
    from fluxres.simulation.costs.cost import parse

    return overheads.levels_of([parse(text) for text in given["costs"]], [overheads.parse(text) for text in given["overheads"]])


def _calibrate(fit: Fit, workload: str, given: dict[str, Any]) -> None:
    from fluxres.simulation.calibration import calibrate
    from fluxres.simulation.nesting.hierarchy import by_level

    calibrate(
        fit,
        lambda: _read(workload, given)[1],
        queue_policies=by_level(next(iter(given["queue_policies"]), "easy")),
        match_policies=by_level(given["match_policy"] or "first"),
        inventory=given["inventory"] or "auto",
    )


def _pass(workload: str, given: dict[str, Any], costs: list[LevelCost]) -> None:
    """A pass of a simulation only to measure its decisions."""
    jobs, machine = _read(workload, given)
    _simulator(given, machine, costs, []).run(jobs)


def _read(workload: str, given: dict[str, Any]) -> tuple[Workload, Machine]:
    from fluxres.experiments.parts import Changed
    from fluxres.simulation.machine import Machine, read
    from fluxres.simulation.workload import adapted, reading
    from fluxres.simulation.workload.estimates import estimate

    jobs = reading.read(workload, format=given["format_name"], seed=given["seed"], processors=given["processors"])
    if given["estimates"] is not None:
        estimate(jobs, given["estimates"], given["seed"], missing=given["estimates_for"] == "missing")
    graph = read(given["machine"], jobs.processors)
    fine = "core" if jobs.has_requests and "core" in graph.structure.types else ""
    machine = Machine(graph, given["unit"] or fine)
    if given["cut"]:
        jobs.submissions = Changed(jobs.submissions, size_max=machine.count, notes=jobs.notes)
    if given["adaptive"] is not None or given["speedup"] is not None:
        how = adapted.parse(given["adaptive"] or "moldable", given["speedup"] or "")
        jobs.submissions = adapted.Adapted(jobs.submissions, how, machine.count, given["seed"])
    return jobs, machine


def _note_left_out(jobs: Workload, result: Result) -> None:
    for reason, number in (*jobs.left_out.items(), *((f"refused: {why}", n) for why, n in result.refusals.by_kind().items())):
        note(f"{plural(number, 'job')} left out, {reason}")
    for reason, number in result.left_reasons.items():
        note(f"{plural(number, 'job')} never started, {reason}")
    if len(result.refusals):
        note(f"refused: job{'s' * (len(result.refusals) > 1)} {result.refusals.listed()}")
    for reason, number in jobs.notes.items():
        note(f"{plural(number, 'time')} {reason}")
    for reason, number in result.notes.items():
        note(reason + f" ({number} times)" * (number > 1))


def _made(settings: Settings, workload: str, machine: Machine, given: dict[str, Any]) -> dict[str, str]:
    """What a result depends on, and when and by which command it was made."""
    from datetime import UTC, datetime

    from fluxres import __version__, clock
    from fluxres.experiments.figures import counted
    from fluxres.simulation.nesting.hierarchy import topology

    source = given["machine"] or machine.graph.name
    size = counted(machine.count, machine.unit)
    policies, match = given["queue_policies"] or ("easy",), given["match_policy"] or "first"
    queues = f"queue {'policies' if len(policies) > 1 else 'policy'} {', '.join(policies)}"
    nested = ""
    if topology(given["hierarchy"] or "1")[0]:  # one instance has no siblings that the others are about
        nested = f", {given['hierarchy']} instances"
        nested += "".join(f", {name} {given[name]}" for name in ("larger", "balance", "elastic") if given[name])
    nested += "".join(f", {name} {given[key]}" for name, key in _CHOICES.items() if given[key])
    nested += "".join(f", {name} {given[name]}" for name in ("prediction", "corrector", "feedback") if given[name])
    order = "" if given["event_order"] == "sequential" else f", events {given['event_order']}"
    is_model = ":" in workload and not given["format_name"]
    model = f", estimates {given['estimates']}" if given["estimates"] else ""
    model += f", seed {given['seed']}" if is_model or given["estimates"] else ""
    return {
        "workload": workload + model,
        "machine": size if source.isdecimal() else f"{source}: {size}",
        "scheduler": f"{queues}, match policy {match}{nested}, cost {'; '.join(given['costs']) or 'none'}{order}",
        **_conditions(given),
        "fluxres": __version__,
        "date": datetime.fromtimestamp(clock.system(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": settings.command,
    }


_CHOICES = {"size policy": "size_policy", "resize policy": "resize_policy", "jobs": "adaptive", "speed-up": "speedup"}
_CONDITIONS = (
    "energy",
    "power_saving",
    "power_cap",
    "failures",
    "events",
    "on_failure",
    "checkpoint",
    "accounting",
    "processors",
)


def _conditions(given: dict[str, Any]) -> dict[str, str]:
    """What else a result depends on, where it is not the default; nothing otherwise."""
    words = {name: given[name] for name in _CONDITIONS if given[name] not in (None, "fail", "requested")}
    if given["failures"] is not None:
        words["failures"] = f"{given['failures']} (seed {given['seed']})"
    if given["boot"]:
        words["boot"] = f"{given['boot']:g} s"
    if given["ahead"] is not None:
        words["ahead"] = str(given["ahead"])
    if given["overheads"]:
        words["overheads"] = "; ".join(given["overheads"])
    if given["starts_per_node"]:
        words["starts per node"] = str(given["starts_per_node"])
    if given["cut"]:
        words["cut"] = "to the machine"
    if given["inventory"] not in (None, "auto"):
        words["inventory"] = given["inventory"]
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in words.items())
    return {"conditions": said} if said else {}


def _disturbances(given: dict[str, Any], machine: Machine) -> Any:
    from fluxres.documents.source import Source
    from fluxres.simulation.disturbances import attempts, external, failures

    events: Any = [] if given["events"] is None else external.read(Source.named(given["events"]))
    if given["failures"] is not None:
        made = failures.parse(given["failures"], given["seed"])
        made.require(machine.graph.structure)
        events = external.merged(events, made.events(machine.graph.structure))
    how = attempts.NOTHING_SAVED if given["checkpoint"] is None else attempts.parse(given["checkpoint"])
    return external.Disturbances(events, given["on_failure"], how)


def _energy(given: dict[str, Any]) -> Any:
    from fluxres.simulation.energy.energy import of_options

    return of_options(given["energy"], given["power_saving"], given["power_cap"])


def _prediction(given: dict[str, Any]) -> Any:
    from fluxres.simulation.prediction.prediction import Prediction

    if given["prediction"] is None:
        if given["corrector"] is not None:
            raise UsageError("--correct is for predictions", hint="use --predict as well, such as --predict tsafrir")
        return None
    return Prediction(given["prediction"], given["corrector"] or "tsafrir")


def _policies(given: dict[str, Any]) -> dict[str, Any]:
    found = {"queue_policy": next(iter(given["queue_policies"]), None), "match_policy": given["match_policy"]}
    return {key: value for key, value in found.items() if value}


def _hierarchy(given: dict[str, Any]) -> Any:
    from fluxres.simulation.nesting.hierarchy import Hierarchy, by_level, topology

    if all(given[key] is None for key in ("hierarchy", "boot", "ahead", "larger", "balance", "elastic", "starts_per_node")):
        return None
    fan_outs, sizes = topology(given["hierarchy"] or "1")
    return Hierarchy(
        fan_outs,
        by_level(next(iter(given["queue_policies"]), "easy")),
        by_level(given["match_policy"] or "first"),
        given["boot"] or 0.0,
        given["ahead"],
        (),
        sizes,
        given["larger"] or "refuse",
        given["balance"] or "none",
        given["elastic"] or "none",
        given["starts_per_node"] or 0,
    )


def _require_policies(given: dict[str, Any], jobs: Workload) -> None:
    """Refuse policies of levels that no instance has; jobs with instances of their own add levels."""
    from fluxres.simulation.nesting.hierarchy import by_level, require_policies

    if (hierarchy := _hierarchy(given)) is not None and not jobs.has_instances:
        require_policies(hierarchy.queue_policies, hierarchy.levels, "queue policy")
        require_policies(by_level(given["match_policy"] or "first"), hierarchy.levels, "match policy")


def _sinks(settings: Settings, jobs: Workload, machine: Any, *, is_nested: bool) -> list[Sink]:
    from fluxres.simulation.results.numbering import Translated
    from fluxres.simulation.results.results import BatsimCsv, SwfText

    if settings.output == "csv":
        written = BatsimCsv(sys.stdout, jobs.name)
        return [Translated(written, machine.graph.structure, machine.unit) if is_nested else written]
    if settings.output == "swf":
        return [SwfText(sys.stdout, {"Version": "2.2", "Computer": machine.graph.name, "MaxProcs": str(machine.count)})]
    return []


def _document(jobs: Workload, machine: Any, result: Result) -> dict[str, Any]:
    from dataclasses import asdict

    from fluxres.experiments.figures import energy_figures

    return {
        "workload": jobs.name,
        "machine": machine.graph.name,
        "unit": machine.unit,
        "size": machine.count,
        **result.metrics.to_dict(),
        **({} if result.losses is None else result.losses.to_dict()),
        "predictions": None if result.predictions is None else result.predictions.to_dict(),
        **({} if result.energy is None else energy_figures(result)),
        "left": result.left,
        "left_reasons": dict(result.left_reasons),
        "left_out": dict(jobs.left_out),
        "refused": dict(result.refusals.reasons),
        "refused_ids": result.refusals.ids,
        "errors": result.errors,
        "events": result.events,
        "instances": [asdict(row) for row in result.instances],
    }


_ROWS = (
    "mean_wait_s",
    "max_wait_s",
    "mean_turnaround_s",
    "mean_bounded_slowdown",
    "mean_stretch",
    "makespan_s",
    "throughput_per_s",
    "utilisation",
)


def _head(made: dict[str, str]) -> list[str]:
    return [f"{key:22} {made[key]}" for key in ("workload", "machine", "scheduler", "conditions") if key in made]


def _lines(result: Result, made: dict[str, str], style: Style) -> Iterator[str]:
    from fluxres.experiments.figures import energy_figures, of_predictions

    metrics = result.metrics
    yield from _head(made)
    ended = ", ".join(f"{number:,} {what}" for what, number in sorted(metrics.results.items()))
    idle = sum(metrics.results.values()) - metrics.jobs
    never = f", of which {idle:,} never ran" if idle else ""
    yield f"{'jobs that ran':22} {metrics.jobs:,} ({ended or 'none'}{never})"
    if result.left:
        yield f"{'jobs never started':22} {result.left:,}"
    for name in _ROWS:
        value = getattr(metrics, name)
        if value is not None:
            yield _figure(name, value)
    others = {} if result.losses is None else result.losses.to_dict()
    for name, value in (others | energy_figures(result) | of_predictions(result.predictions)).items():
        if value is not None:
            yield _figure(name, value)
    if len(result.instances) > 1:
        yield from table(_LEVELS, list(_levels(result)), style=style)


def _figure(name: str, value: float) -> str:
    """A line with a metric and its unit; a mere number has none."""
    from fluxres.experiments.figures import FIGURES, scale

    shown = scale(name, [value])
    return f"{FIGURES[name].title:22} {shown.text(value):>9} {shown.unit.removeprefix('number')}".rstrip()


def _measured(fitted: str | None, quality: Quality | None) -> list[str]:
    """What repeats measured decisions, and how well."""
    if fitted is None or quality is None:
        return []
    from fluxres.experiments.figures import number

    unknown = f"not identified: {', '.join(quality.not_identified)}; it refuses other topologies (--cost measured:calibrate)"
    how = f"residual {number(quality.residual_s * 1000)} of {number(quality.mean_s * 1000)} ms a decision"
    return [
        f"measured decisions, to repeat with: --cost {fitted}",
        f"{how}; {quality.explained:.0%} of the variance explained",
        *([unknown] if quality.not_identified else []),
    ]


_LEVELS = (
    Column("LEVEL", right=True),
    Column("INSTANCES", right=True),
    Column("JOBS", right=True),
    Column("DECISIONS", right=True),
    Column("MEAN BUSY (s)", right=True),
)


def _levels(result: Result) -> Iterator[list[str]]:
    from fluxres.experiments.figures import number

    levels: dict[int, list[Any]] = {}
    has_cost = any(row.decisions for row in result.instances)
    for row in result.instances:
        levels.setdefault(row.level, []).append(row)
    for level, rows in sorted(levels.items()):
        busy_s = sum(row.busy_s for row in rows) / len(rows)
        decisions = (sum(row.decisions for row in rows), busy_s)
        counts = [number(n) for n in (level, len(rows), sum(row.jobs for row in rows))]
        yield [*counts, *(map(number, decisions) if has_cost else ("", ""))]


# -- several runs, compared --------------------------------------------------------------------------------------------


def _compare(settings: Settings, workload: str, given: dict[str, Any]) -> int:
    import tempfile

    from fluxres.cli.commands.experiment import make_runs
    from fluxres.experiments import checks
    from fluxres.experiments.quick import study_of

    if settings.output in JOB_OUTPUTS:
        raise UsageError(f"-o {settings.output} is for one run", hint="with --out DIR, each run writes its jobs to a file in DIR")
    if given["format_name"] is not None:
        raise UsageError("--format cannot be given for several runs", hint="the format is detected by the content")
    policies = given["queue_policies"] or ("easy",)
    for each in policies:
        # Refuses a policy that is unknown, in the words for one run.
        _hierarchy({**given, "hierarchy": given["hierarchy"] or "1", "queue_policies": [each]})
    if workload == "-":
        raise UsageError("standard input can be read for one run only", hint="give a file")
    jobs, machine = _read(workload, given)
    for each in policies:
        _require_policies({**given, "queue_policies": [each]}, jobs)
    source = given["machine"] or str(machine.count)
    made = study_of(
        workload, policies, machine=source, unit=machine.unit, options=given, repeats=given["repeats"], seed=given["seed"]
    )
    if given["repeats"] > 1 and made.runs[0].workload.file is not None:
        raise UsageError("--repeats needs a model, since a trace is the same with every seed")
    checks.check(made)
    processes = 1 if any("measured" in text for text in given["costs"]) else None  # neighbours would be measured as well
    head = _head(_made(settings, workload, machine, given))
    if given["out"] is not None:
        return make_runs(settings, made, given["out"], processes=processes, head=head)
    with tempfile.TemporaryDirectory(prefix="fluxres-") as folder:
        return make_runs(settings, made, Path(folder), processes=processes, keeps=False, head=head)
