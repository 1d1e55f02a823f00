"""Partitions, QOS, accounts and users with limits, shares and priorities (`instance/accounting.py`, `instance/ledger.py`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fluxres.clock import FOREVER
from fluxres.errors import (
    FluxresError,
    InfeasibleRequest,
    InputError,
    InsufficientResources,
    NotInAccounting,
    UsageError,
    exit_status,
)
from fluxres.instance import Instance
from fluxres.instance.accounting import Account, Accounting, PartitionLimits, Qos, User, load
from fluxres.instance.fair_share import FairShares
from fluxres.simulation import Hierarchy, Submission, simulate
from fluxres.simulation.machine import of_number, of_shape
from fluxres.syntax.jobspec import as_request
from tests.instance.machines import ManualClock
from tests.simulation.site_course import course

S = 1_000_000
EXAMPLE = Path(__file__).parents[2] / "data/examples/accounting/site.yaml"


@pytest.mark.parametrize("first", [0, 52_520])
def test_random_sites_start_and_refuse_every_job_like_the_rules_written_down(first: int, deeper: float) -> None:
    """`python -m tests.simulation.site_course` makes thousands of them."""
    assert {course(seed) for seed in range(first, first + round(80 * deeper))} == {""}


def site(**rules: Any) -> Instance:
    clock = ManualClock()
    return Instance(of_shape("node=8"), queue_policy="easy", inventory="auto", clock=clock, accounting=Accounting(**rules))


def test_a_job_at_a_limit_waits_and_holds_up_no_others() -> None:
    instance = site(users={"ann": User(max_jobs=1)}, qos={"normal": Qos()})
    first, second = (instance.submit("slot=1/node", duration_s=10, user="ann") for _ in range(2))
    other = instance.submit("slot=1/node", duration_s=10, user="bob")
    assert [job.state.name for job in (first, second, other)] == ["RUN", "SCHED", "RUN"]
    assert (first.limit_reached, second.limit_reached) == ("", "user ann: max_jobs is 1")
    assert (second.account, second.qos, second.partition, second.reserved_at) == ("root", "normal", None, None)
    instance.finish(first)
    assert second.state.name == "RUN"
    assert instance.check() == []


def test_submissions_beyond_a_limit_are_refused_until_others_have_ended() -> None:
    instance = site(accounts={"a": Account(grp_submit_jobs=2)}, users={"ann": User(account="a"), "bob": User(account="a")})
    first = instance.submit("slot=8/node", duration_s=10, user="ann")
    second = instance.submit("slot=8/node", duration_s=10, user="bob")
    with pytest.raises(InsufficientResources, match="account a: more jobs submitted than grp_submit_jobs allows: 2"):
        instance.submit("slot=1/node", user="ann")
    instance.cancel(second)
    with pytest.raises(FluxresError, match="nobody"):
        instance.submit("slot=1/node", user="bob", dependencies=["afterok:nobody"])
    instance.cancel(instance.submit("slot=1/node", user="ann"))
    instance.finish(first)
    assert [instance.submit("slot=1/node", user=name).state.name for name in ("ann", "bob")] == ["RUN", "RUN"]


def test_the_first_limit_in_slurms_order_decides_and_groups_all_hold() -> None:
    rules: dict[str, Any] = {
        "qos": {"high": Qos(max_jobs=3)},
        "accounts": {"a": Account(max_jobs=2, grp_size=4), "b": Account(parent="a")},
        "users": {"ann": User(account="b", max_jobs=1), "bob": User(account="b")},
    }
    instance = site(**rules)
    high = [instance.submit("slot=1/node", user="ann", qos="high") for _ in range(4)]
    assert [job.state.name for job in high] == ["RUN", "RUN", "RUN", "SCHED"]
    assert high[3].limit_reached == "qos high: max_jobs is 3"
    assert instance.submit("slot=1/node", user="ann").limit_reached == "user ann: max_jobs is 1"
    assert instance.submit("slot=2/node", user="bob").limit_reached == "account a: grp_size is 4 nodes"
    bob = [instance.submit("slot=1/node", user="bob") for _ in range(2)]
    assert [job.limit_reached for job in bob] == ["", "account a: grp_size is 4 nodes"]


def test_times_of_partitions() -> None:
    parts = {"short": PartitionLimits(max_time="10m", default_time="1m", default=True), "long": PartitionLimits(max_time=7200)}
    instance = site(partitions=parts, qos={"brief": Qos(max_wall=30)})
    assert instance.submit("slot=1/node").duration_s == 60
    assert instance.submit("slot=1/node", partition="long").duration_s == 7200
    assert instance.submit("slot=1/node", qos="brief").duration_s == 30
    with pytest.raises(InfeasibleRequest, match=r"partition short: a longer time than max_time allows: 10\s*m"):
        instance.submit("slot=1/node", duration_s=601)
    with pytest.raises(InfeasibleRequest, match="qos brief: a longer time than max_wall"):
        instance.submit("slot=1/node", duration_s=31, qos="brief")
    for wrong, message in (({"partition": "lang"}, "no partition 'lang'"), ({"qos": "high"}, "no QOS 'high'")):
        with pytest.raises(InfeasibleRequest, match=message):
            instance.submit("slot=1/node", **wrong)


PARTITIONS = {
    "partitions": {"debug": {"max_time": "30m", "max_jobs": 1}, "batch": {"default": True}},
    "aliases": {"1": "debug"},
    "qos": {"normal": {}, "high": {"max_submit_jobs": 4}},
}
OF_DEBUG = {
    "version": 1,
    "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "node", "count": 1}]}],
    "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
    "attributes": {"system": {"duration": 60, "queue": "debug"}},
}


@pytest.mark.parametrize("inventory", ["graph", "auto"])
@pytest.mark.parametrize("wanted", ["-N1 -x -p debug -t 1", "-N1 -x --partition=1 -t 1", OF_DEBUG], ids=str)
def test_partitions_of_the_accounting_only_limit_on_a_machine_without_partitions(wanted: Any, inventory: str) -> None:
    instance = Instance(of_shape("node=8/core=2"), inventory=inventory, clock=ManualClock(), accounting=PARTITIONS)
    first, second, third = instance.submit(wanted), instance.submit(wanted), instance.submit("-N8 -x -p batch -t 40")
    assert [(job.partition, job.state.name) for job in (first, second, third)] == [
        ("debug", "RUN"),
        ("debug", "SCHED"),
        ("batch", "SCHED"),
    ]
    assert second.limit_reached == "partition debug: max_jobs is 1"
    instance.finish(first)
    assert (second.state.name, instance.check()) == ("RUN", [])
    instance.finish(second)
    assert third.state.name == "RUN"
    with pytest.raises(InfeasibleRequest, match="partition debug: a longer time than max_time allows: 30 min"):
        instance.submit("-N1 -p 1 -t 40")
    assert instance.reserve("-N1 -p debug", start_s=7200, duration_s=60).state.name == "DEPEND"
    assert instance.can_hold(as_request("-N8 -p debug"))
    assert not instance.can_hold(as_request("-N8 -p dbug"))


@pytest.mark.parametrize("inventory", ["graph", "auto"])
def test_a_child_grows_by_a_request_that_names_a_partition_of_the_accounting(inventory: str) -> None:
    instance = Instance(of_shape("node=8/core=2"), inventory=inventory, clock=ManualClock(), accounting=PARTITIONS)
    child = instance.spawn(instance.submit("-N1 -x -p batch -t 40"))
    assert child.grow("-N1 -x -p debug") == ["/cluster/node1"]
    with pytest.raises(NotInAccounting, match="did you mean debug"):
        child.grow("-N1 -x -p dbug")
    assert instance.check() == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"partition": "dbug"}, "no partition 'dbug' (did you mean debug?)"),
        ({"partition": "x"}, "no partition 'x' (choose from debug, batch)"),
        ({"qos": "hig"}, "no QOS 'hig' (did you mean high?)"),
        ({"qos": "x"}, "no QOS 'x' (choose from normal, high)"),
        ({"wanted": "-N1 -p dbug"}, "no partition 'dbug' (did you mean debug?)"),
    ],
)
def test_a_wrong_name_is_told_the_nearest_or_all(wrong: dict[str, str], message: str) -> None:
    instance = Instance(of_shape("node=8"), accounting=PARTITIONS)
    with pytest.raises(NotInAccounting) as caught:
        instance.submit(**{"wanted": "-N1", **wrong})
    assert (str(caught.value), exit_status(caught.value)) == (message, 2)
    assert isinstance(caught.value, UsageError)


def test_jobs_of_a_workload_are_charged_to_the_partition_that_their_request_names(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text("".join(f"- {{request: '-N1 -p {name}', run: 10, duration: 20}}\n" for name in ("debug", "1", "dbug")))
    result = simulate(jobs, "node=8/core=2", accounting=PARTITIONS)
    assert result.schedule is not None
    assert result.schedule.starts() == {0: 0, 1: 10 * S}  # at most one job of debug runs
    assert dict(result.refusals.reasons) == {"no partition 'dbug'": 1}


def test_a_job_beyond_its_partition_waits_if_limits_are_not_enforced_at_submission() -> None:
    rules = Accounting(partitions={"1": PartitionLimits(max_time=5, default=True)}, enforce_part_limits=False)
    work = [Submission(1, 0, 9 * S, 9 * S, 1), Submission(2, 0, 5 * S, 5 * S, 1)]
    result = simulate(work, 4, queue_policy="fcfs", accounting=rules)
    assert (result.left, result.metrics.jobs, dict(result.left_reasons)) == (
        1,
        1,
        {"partition 1: a longer time than max_time allows: 5 s": 1},
    )


def test_associations_that_are_not_listed_are_refused_on_request() -> None:
    instance = site(users={"ann": User()}, accounts={"a": Account()}, enforce_associations=True)
    instance.submit("slot=1/node", user="ann", account="a")
    for user, account in (("bob", "a"), ("ann", "b"), (None, None)):
        with pytest.raises(InfeasibleRequest, match=r"no account 'b'|no user"):
            instance.submit("slot=1/node", user=user, account=account)


def test_jobs_go_to_partitions_of_the_machine(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "fluxres: 1\nresources: [{type: node, count: 4}]\npartitions:\n  small: {nodes: 'node[0-1]', max_time: 1m}\n"
        "  large: {nodes: 'node[0-3]', default: true}\n"
    )
    rules = Accounting(partitions={"small": PartitionLimits(), "large": PartitionLimits(default=True)}, aliases={"1": "small"})
    jobs = [Submission(n, 0, 10 * S, FOREVER, 1, queue=queue) for n, queue in enumerate(("1", "1", "1", None))]
    result = simulate(jobs, tmp_path / "m.yaml", accounting=rules, queue_policy="easy")
    assert result.schedule is not None
    assert sorted(result.schedule.starts().items()) == [(0, 0), (1, 0), (2, 10 * S), (3, 0)]
    assert sorted(result.schedule.limit) == [60 * S, 60 * S, 60 * S, FOREVER]


def test_fair_share_gives_the_factors_of_slurms_own_example() -> None:
    """Slurm's page "Classic Fairshare Algorithm": accounts A (40) over B (30) and C (10), D (60) over E (25) and F (35)."""
    rules = Accounting(
        accounts={
            "A": Account(fairshare=40),
            "D": Account(fairshare=60),
            "B": Account(parent="A", fairshare=30),
            "C": Account(parent="A", fairshare=10),
            "E": Account(parent="D", fairshare=25),
            "F": Account(parent="D", fairshare=35),
        },
        users={f"user{n}": User(account=account) for n, account in enumerate("BCCEF", 1)},
    )
    shares = FairShares(rules, 1e15)
    for user, used in (("user1", 20), ("user2", 25), ("user4", 25)):
        shares.charge(user, None, used, 0.0)
        shares.charge(user, None, -used, 1.0)
    shares.charge("other", "elsewhere", 30, 0.0)  # the rest of the machine's usage
    shares.charge("other", "elsewhere", -30, 1.0)
    shares.root.below = [node for node in shares.root.below if node.shares > 1]  # which the example does not show
    found = [round(shares.classic(f"user{n}", None, 1.0), 4) for n in range(1, 6)]
    assert found == pytest.approx([0.408479, 0.022097, 0.125, 0.5, 0.749154], abs=2e-4)


def test_limits_of_a_hierarchy_are_refused() -> None:
    with pytest.raises(UsageError, match="accounting: limits are those of one queue"):
        simulate([], of_number(4), accounting=Accounting(), hierarchy=Hierarchy((2,)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qos: {a: {max_wall: 3x}}", "<text>:1:21: qos.a.max_wall: expected a duration, got '3x'"),
        ("users: {ann: {acount: a}}", "users.ann.acount: unknown key"),
        ("users: {ann: {account: a}}", "users.ann.account: no account 'a'"),
        ("partitions: {a: {default_time: 2h, max_time: 1h}}", "partitions.a.default_time: is longer than max_time"),
        ("partitions: {a: {min_size: 9, max_size_of_job: 8}}", "partitions.a.min_size: is more than max_size_of_job"),
        ("users: {ann: {qos: a}}", "users.ann.qos: no qos 'a'"),
        ("accounts: {a: {parent: b}, b: {parent: a}}", "the accounts above it form a cycle"),
        ("aliases: {'1': batch}", "aliases.1: no partition 'batch'"),
        ("partitions: {a: {default: true}, b: {default: true}}", "partitions.b.default: a is the default partition already"),
        ("users: {7: {}}", "the key 7 is not text"),
        ("users: {ann: {max_jobs: -1}}", "users.ann.max_jobs: expected a whole number of at least 0, or nothing, got -1"),
    ],
)
def test_wrong_rules_are_named_with_their_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load(text.encode())
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2h30m", 9000.0), ("1:30:00", 5400.0), ("1-0", 86400.0), ("1w", 604800.0), ("24 hrs", 86400.0), ("90min", 5400.0)],
)
def test_durations_are_read_as_in_commands(text: str, seconds: float) -> None:
    rules = load(f"partitions: {{a: {{max_time: '{text}'}}}}\nqos: {{b: {{max_wall: '{text}', grace_time: '{text}'}}}}".encode())
    assert rules.partitions["a"].max_time_s == rules.qos["b"].max_wall_s == rules.qos["b"].grace_time_s == seconds


@pytest.mark.parametrize("word", ["UNLIMITED", "INFINITE", "inf"])
def test_an_unlimited_time_is_no_limit(word: str) -> None:
    rules = load(f"partitions: {{a: {{max_time: {word}, default_time: 1h}}}}".encode())
    assert rules.partitions["a"].max_time_s == math.inf


MISTAKEN = b"""\
partitions:
  debug: {max_tim: 30m}
  batch: {default: true, max_time: 1 dya}
accounts:
  physics: {fairshare: -3}
  optics: {parent: physic, max_jobs: 8}
users:
  ann: {account: optics, qos: hihg}
qos: {high: {}}
aliases: {"1": debg, "1": debug}
"""


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(InputError) as caught:
        load(MISTAKEN)
    said = [(one.where, one.message, one.hint) for one in caught.value.mistakes]
    assert [(where.split(": ")[0], message) for where, message, _ in said] == [
        ("<text>:2:11", "unknown key 'max_tim'"),
        ("<text>:3:36", "expected a duration, got '1 dya'"),
        ("<text>:5:24", "expected a whole number of at least 0, got -3"),
        ("<text>:6:20", "no account 'physic'"),
        ("<text>:8:31", "no qos 'hihg'"),
        ("<text>:10:22", "duplicate key"),
    ]
    assert [hint for _, _, hint in said[3:5]] == ["did you mean physics?", "did you mean high?"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("{qoss: {high: {}}, users: {ann: {qos: high}}}", ["qoss"]),
        ("{qos: [high], users: {ann: {qos: high}}}", ["qos"]),
        ("{partitions: {7: {}}, aliases: {a: b}}", ["partitions"]),
        ("{preempt_typ: qos, qos: {a: {}, b: {preempt: [a]}}}", ["preempt_typ"]),
        ("{partitions: {a: {max_time: 1x, default_time: 2h}}}", ["partitions.a.max_time"]),
        ("{accounts: {c: {parent: a}, a: {parent: b}, b: {parent: a}}}", ["accounts.a.parent"]),
    ],
)
def test_what_follows_from_a_mistake_is_no_other_one(text: str, places: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load(text.encode())
    assert [one.where.split(": ")[1] for one in caught.value.mistakes] == places


def test_the_example_is_read() -> None:
    rules = load(EXAMPLE)
    assert (rules.default_partition, rules.qos["high"].priority, list(rules.above("optics"))) == (
        "batch",
        100,
        ["optics", "physics", "root"],
    )
