"""Every argument that is a time takes a time in any form: all public signatures are walked, so that no new one is left out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres import clock
from fluxres.errors import UsageError
from fluxres.instance.policy import Multifactor
from fluxres.model import ResourceGraph
from tests.allocation.test_records import CORE, MEMORY, machine

MOMENT = re.compile(r"(start|end|at|after|before|during|at_s)")
LENGTH = re.compile(r"(duration_s|ttl_s|length_s)")
ANNOTATED = re.compile(r"\b(Time|Length)\b")

EIGHT = datetime(2030, 1, 1, 8, tzinfo=UTC)
EIGHT_S = EIGHT.timestamp()
SOON = EIGHT + timedelta(hours=1)
MOMENTS = [
    SOON,
    SOON.astimezone().replace(tzinfo=None),
    np.datetime64("2030-01-01T09:00"),
    "+1h",
    "now + 60 min",
    "2030-01-01T09:00Z",
    str(int(SOON.timestamp())),
    np.float64(SOON.timestamp()),
    np.int64(SOON.timestamp()),
]
LENGTHS = [timedelta(hours=2), np.timedelta64(120, "m"), "2h", "2:00:00", "120 minutes", np.float32(7200), np.int64(7200)]


def at_eight() -> ResourceGraph:
    g = machine()
    g.clock = clock.fixed(EIGHT_S)
    g.allocate(MEMORY, job="held", end=EIGHT_S + 86400)
    return g


def instance() -> tuple[fluxres.Instance, fluxres.Job]:
    top = fluxres.Instance(at_eight())
    return top, top.submit("slot/core", duration_s=60)


def limit_of(length: Any) -> float:
    top, job = instance()
    top.set_duration(job, length)
    return job.duration_s


def expiration_of(moment: Any) -> float | None:
    top, _ = instance()
    top.set_expiration(moment)
    return top.expires_at


def freed(moment: Any, how: str, **more: Any) -> object:
    g = at_eight()
    getattr(g, how)("held", *more.pop("wanted", ()), **more)
    return g.allocation("held")


def extended(**how: Any) -> float:
    with TemporaryDirectory() as place:
        store = f"sqlite://{place}/site.db"
        fluxres.save(at_eight(), store)
        with fluxres.open_child(store, job="held", clock=clock.fixed(EIGHT_S)) as child:
            return child.extend(**how)


def reserved(**how: Any) -> tuple[float, float]:
    job = instance()[0].reserve("slot/core", **{"start_s": EIGHT_S + 3600, "duration_s": 60, **how})
    return job.duration_s, job.limit


E = EIGHT_S + 86400
G = at_eight
CALLS: dict[str, Callable[[Any], object]] = {
    "ResourceGraph.find at": lambda t: G().find("available>0", at=t).paths(),
    "ResourceGraph.find during": lambda t: G().find("available>0", during=("now", t)).paths(),
    "ResourceGraph.aggregate at": lambda t: G().aggregate(at=t),
    "ResourceGraph.aggregate duration_s": lambda d: G().aggregate(duration_s=d),
    "ResourceGraph.available at": lambda t: G().available(at=t).paths(),
    "ResourceGraph.available duration_s": lambda d: G().available(duration_s=d).paths(),
    "ResourceGraph.totals at": lambda t: list(G().totals(at=t)),
    "ResourceGraph.totals duration_s": lambda d: list(G().totals(duration_s=d)),
    "ResourceGraph.holdings at": lambda t: list(G().holdings(at=t)),
    "ResourceGraph.allocated at": lambda t: G().allocated(at=t).paths(),
    "ResourceGraph.allocation at": lambda t: G().allocation("held", at=t),
    "ResourceGraph.match at": lambda t: G().match("slot/core", at=t).start,
    "ResourceGraph.match duration_s": lambda d: G().match("slot/core", duration_s=d).end,
    "ResourceGraph.earliest after": lambda t: G().earliest("slot/core", after=t),
    "ResourceGraph.earliest duration_s": lambda d: G().earliest("slot/core", duration_s=d),
    "ResourceGraph.why_not at": lambda t: str(G().why_not("slot=99/core", at=t)),
    "ResourceGraph.why_not duration_s": lambda d: str(G().why_not("slot=99/core", duration_s=d)),
    "ResourceGraph.match_all at": lambda t: [m.start for m in G().match_all(["slot/core"], at=t)],
    "ResourceGraph.match_all duration_s": lambda d: [m.end for m in G().match_all(["slot/core"], duration_s=d)],
    "ResourceGraph.earliest_all after": lambda t: G().earliest_all(["slot/core"], after=t),
    "ResourceGraph.earliest_all duration_s": lambda d: G().earliest_all(["slot/core"], duration_s=d),
    "ResourceGraph.why_not_all at": lambda t: str(G().why_not_all(["slot=99/core"], at=t)),
    "ResourceGraph.why_not_all duration_s": lambda d: str(G().why_not_all(["slot=99/core"], duration_s=d)),
    "ResourceGraph.allocate start": lambda t: G().allocate(CORE, job="a", start=t, end=E),
    "ResourceGraph.allocate at": lambda t: G().allocate("slot/core", job="a", at=t, end=E),
    "ResourceGraph.allocate end": lambda t: G().allocate("slot/core", job="a", end=t),
    "ResourceGraph.allocate duration_s": lambda d: G().allocate(CORE, job="a", duration_s=d),
    "ResourceGraph.allocate_orelse_reserve after": lambda t: G().allocate_orelse_reserve(
        "slot/core", job="a", after=t, duration_s=1
    ),
    "ResourceGraph.allocate_orelse_reserve duration_s": lambda d: G().allocate_orelse_reserve("slot/core", job="a", duration_s=d),
    "ResourceGraph.allocate_all start": lambda t: G().allocate_all([("slot/core", "a")], start=t, end=E),
    "ResourceGraph.allocate_all at": lambda t: G().allocate_all([("slot/core", "a")], at=t, end=E),
    "ResourceGraph.allocate_all end": lambda t: G().allocate_all([("slot/core", "a")], end=t),
    "ResourceGraph.allocate_all duration_s": lambda d: G().allocate_all([("slot/core", "a")], duration_s=d),
    "ResourceGraph.allocate_all_orelse_reserve after": lambda t: G().allocate_all_orelse_reserve(
        [("slot/core", "a")], after=t, duration_s=1
    ),
    "ResourceGraph.allocate_all_orelse_reserve duration_s": lambda d: G().allocate_all_orelse_reserve(
        [("slot/core", "a")], duration_s=d
    ),
    "ResourceGraph.grow start": lambda t: G().grow("held", CORE, start=t, end=E),
    "ResourceGraph.grow end": lambda t: G().grow("held", CORE, end=t),
    "ResourceGraph.free start": lambda t: freed(t, "free", start=t),
    "ResourceGraph.free end": lambda t: freed(t, "free", end=t),
    "ResourceGraph.shrink start": lambda t: freed(t, "shrink", wanted=(MEMORY,), start=t),
    "ResourceGraph.shrink end": lambda t: freed(t, "shrink", wanted=(MEMORY,), end=t),
    "ResourceGraph.set_end end": lambda t: G().set_end("held", t),
    "ResourceGraph.set_end duration_s": lambda d: G().set_end("held", duration_s=d),
    "ResourceGraph.expire before": lambda t: G().expire(t),
    "ResourceGraph.stage start": lambda t: G().stage(CORE, job="a", start=t, end=E).commit(),
    "ResourceGraph.stage end": lambda t: G().stage(CORE, job="a", end=t).commit(),
    "ResourceGraph.stage duration_s": lambda d: G().stage(CORE, job="a", duration_s=d).commit(),
    "ResourceGraph.stage ttl_s": lambda d: (s := G().stage(CORE, job="a", end=E, ttl_s=d)).graph.records.stages[s.stage].expires,
    "ResourceGraph.copy at": lambda t: G().copy(at=t).aggregate(),
    "ResourceGraph.node_states at": lambda t: G().node_states(at=t).counts(),
    "ResourceGraph.reserve start": lambda t: G().reserve(CORE, name="m", start=t, end=E),
    "ResourceGraph.reserve end": lambda t: G().reserve(CORE, name="m", end=t),
    "ResourceGraph.reserve duration_s": lambda d: G().reserve(CORE, name="m", duration_s=d),
    "ResourceGraph.reserve every_s": lambda d: G().reserve(CORE, name="m", duration_s=1, every_s=d, until=E),
    "ResourceGraph.reserve until": lambda t: G().reserve(CORE, name="m", duration_s=1, every_s=7200, until=t),
    "ResourceGraph.set_state since": lambda t: (
        g := G(),
        g.set_state(CORE, "drain", reason="x", since=t),
        g.pool(CORE).state_note,
    )[2],
    "ResourceGraph.window at": lambda t: G().window(t, None),
    "ResourceGraph.window duration_s": lambda d: G().window(None, d),
    "ResourceGraph.open_window start": lambda t: G().open_window(t, E),
    "ResourceGraph.open_window end": lambda t: G().open_window(None, t),
    "Pool.shared_by at": lambda t: G().root.shared_by(at=t),
    "Pool.shared_by duration_s": lambda d: G().root.shared_by(duration_s=d),
    "Pool.allocated at": lambda t: G().pool(MEMORY).allocated(t),
    "Pool.available at": lambda t: G().pool(MEMORY).available(t),
    "Pool.available duration_s": lambda d: G().pool(MEMORY).available(duration_s=d),
    "Pool.allocations start": lambda t: G().pool(MEMORY).allocations(start=t),
    "Pool.allocations end": lambda t: G().pool(MEMORY).allocations(end=t),
    "Pool.reservations start": lambda t: G().pool(MEMORY).reservations(start=t),
    "Pool.reservations end": lambda t: G().pool(MEMORY).reservations(end=t),
    "Pool.allocate start": lambda t: G().pool(CORE).allocate(1, "a", start=t, end=E),
    "Pool.allocate end": lambda t: G().pool(CORE).allocate(1, "a", end=t),
    "Pool.allocate duration_s": lambda d: G().pool(CORE).allocate(1, "a", duration_s=d),
    "Pool.free start": lambda t: G().pool(MEMORY).free("held", start=t),
    "Pool.free end": lambda t: G().pool(MEMORY).free("held", end=t),
    "Request.parse duration_s": lambda d: fluxres.Request.parse("slot/core", duration_s=d).duration_s,
    "Instance.submit duration_s": lambda d: instance()[0].submit("slot/core", duration_s=d).duration_s,
    "Instance.submit sizes": lambda d: instance()[0].submit("slot=1/core", sizes={1: d}).duration_s,
    "Instance.set_duration duration_s": limit_of,
    "Instance.reserve start_s": lambda t: reserved(start_s=t),
    "Instance.reserve duration_s": lambda d: reserved(duration_s=d),
    "Child.extend end": lambda t: extended(end=t),
    "Child.extend duration_s": lambda d: extended(duration_s=d),
    "Instance.set_expiration at_s": expiration_of,
    "Multifactor.__init__ age_max_s": lambda d: Multifactor(age_max_s=d).age_max_s,
    "Multifactor.__init__ half_life_s": lambda d: Multifactor(half_life_s=d).half_life_s,
    "Multifactor.__init__ recalculate_s": lambda d: Multifactor(recalculate_s=d).recalculate_s,
}


def time_arguments() -> dict[str, str]:
    """The annotation of each argument of a public method whose name or type says that it is a time."""
    found = {}
    classes = [value for name in fluxres.__all__ if inspect.isclass(value := getattr(fluxres, name))]
    for each in [*classes, Multifactor]:
        for name, method in inspect.getmembers(each, callable):
            if (name.startswith("_") and name != "__init__") or not getattr(method, "__module__", "").startswith("fluxres"):
                continue
            for argument in inspect.signature(method).parameters.values():
                kind = str(argument.annotation)
                is_path = name in ("merge", "move")  # `at` is a place there
                if (MOMENT.fullmatch(argument.name) and not is_path) or LENGTH.fullmatch(argument.name) or ANNOTATED.search(kind):
                    found[f"{each.__name__}.{name} {argument.name}"] = kind
    return found


OTHERS = {
    **dict.fromkeys(("IDset.next after", "IDset.prev before", "ResourceGraph.log after"), "a number"),
    "Request.__init__ duration_s": "the result of Request.parse",
}
RESULTS = {"Span", "Match", "Allocation", "Problem"}
"""Values that the package makes: their times are seconds or ticks already."""
ARGUMENTS = {
    name: kind for name, kind in time_arguments().items() if name.partition(".")[0] not in RESULTS and name not in OTHERS
}


def test_every_time_argument_is_declared_and_tried() -> None:
    assert sorted(ARGUMENTS) == sorted(CALLS)
    assert [name for name, kind in ARGUMENTS.items() if not ANNOTATED.search(kind)] == []


@pytest.mark.parametrize("name", CALLS)
def test_a_time_in_any_form_is_the_same(name: str) -> None:
    call = CALLS[name]
    is_length = "Length" in ARGUMENTS[name]
    expected = call(7200.0 if is_length else SOON.timestamp())
    for given in LENGTHS if is_length else MOMENTS:
        assert call(given) == expected, f"{given!r}"


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_time_is_a_usage_error(name: str) -> None:
    for given in ("soonish", b"1h", np.datetime64("NaT"), object(), float("nan")):
        with pytest.raises(UsageError):
            CALLS[name](given)


def test_a_time_of_day_counts_from_the_clock_of_the_graph() -> None:
    g = machine()
    noon = datetime(2030, 1, 1, 12)
    g.clock = clock.fixed(noon.timestamp())
    a = g.allocate(CORE, job="a", start="tomorrow 08:00", end="10:00")
    assert (a.start, a.end) == (datetime(2030, 1, 2, 8).timestamp(), datetime(2030, 1, 2, 10).timestamp())


def test_pandas_timestamps_are_datetimes() -> None:
    pandas = pytest.importorskip("pandas")
    g = at_eight()
    for given in (pandas.Timestamp(SOON), pandas.Timestamp(SOON.astimezone().replace(tzinfo=None))):
        assert g.window(given, pandas.Timedelta("2h")) == g.window(SOON, "2h")
    with pytest.raises(UsageError, match=r"^at: expected a time, got NaT"):
        g.window(pandas.NaT, None)
