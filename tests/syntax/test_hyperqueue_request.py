"""Requests of HyperQueue's tasks, amounts, couplings of groups, and the variables of tasks."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.formats.peers.hyperqueue import definitions as hyperqueue
from fluxres.formats.peers.hyperqueue.coupling import Coupling, parse_cpulist
from fluxres.formats.peers.hyperqueue.coupling import checked as checked_couplings
from fluxres.formats.peers.hyperqueue.coupling import format as format_coupling
from fluxres.formats.peers.hyperqueue.coupling import parse as parse_coupling
from fluxres.formats.peers.hyperqueue.environment import Grant, detected, of_grants, variable
from fluxres.formats.peers.hyperqueue.request import (
    VARIANTS_MAX,
    format,
    format_value,
    of_plain,
    of_value,
    parse,
    to_plain,
    variant,
    variants,
)
from fluxres.formats.peers.hyperqueue.tokens import amount_of_float, parse_amount
from fluxres.syntax.variants import ALL, POLICIES, Ask, format_amount

ASKS = st.builds(
    Ask, st.from_regex(r"[A-Za-z][A-Za-z0-9/]{0,6}", fullmatch=True), st.integers(1, 2**32 - 1), st.sampled_from(POLICIES)
) | st.builds(Ask, st.just("x"), st.just(ALL), st.none())


@given(ASKS)
def test_requests_are_read_as_written(ask: Ask) -> None:
    assert parse(format(ask)) == parse(format(ask, short=False), dialect="current") == ask
    assert of_value(ask.name, format_value(ask)) == ask
    assert of_plain(to_plain(variant([ask]))) == variant([ask])


@given(st.integers(0, 2**32 - 1))
def test_amounts_are_exact(amount: int) -> None:
    assert parse_amount(format_amount(amount)) == amount


@given(st.floats(0, 10_000))
def test_floats_are_rounded_up_to_four_decimals(value: float) -> None:
    exact = Decimal(value) * 10_000
    # 32 bits hold seven digits, so the value may be slightly less than the written number.
    assert float(exact) * (1 - 2**-23) - 1 <= amount_of_float(value) <= float(exact) * (1 + 2**-23) + 1


@pytest.mark.parametrize(("value", "amount"), [(0.2, 2000), (0.33333, 3334), (20.00001, 200_001), (1e-9, 1), (0, 0), (7, 70_000)])
def test_floats_in_common_notations(value: float, amount: int) -> None:
    assert amount_of_float(value) == amount


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, True, "1", 2**40])
def test_floats_that_are_not_amounts(value: float) -> None:
    with pytest.raises(InputError):
        amount_of_float(value)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "name of a resource"),
        ("a", 2, "expected '='"),
        ("a=", 3, "an amount, got the end"),
        ("a=0", 3, "Zero resources"),
        ("a=0.0", 3, "Zero resources"),
        ("a=-1", 3, "an amount"),
        ("a=1.00001", 5, "precision exceeded"),
        ("a=all tight", 7, "nothing behind all"),
        ("a=2 tigh", 5, "a policy"),
        ("a=2 tight! x", 12, "nothing behind the policy"),
        ("a=2 COMPACT", 5, "a policy"),
    ],
)
def test_refusals_name_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(InputError) as found:
        parse(text)
    assert message in str(found.value)
    assert found.value.where == f"request:{column}"


def test_the_grammar_of_the_first_versions_has_whole_amounts_and_no_policy() -> None:
    assert parse("X = 1_0", dialect="seed") == Ask("X", 100_000, None)
    for text in ("x=all", "x=1.5", "x=1 compact", "x=0"):
        with pytest.raises(InputError):
            parse(text, dialect="seed")


def test_a_task_gets_a_cpu_by_default() -> None:
    assert [format(ask) for ask in variant([parse("gpus=1")]).asks] == ["gpus=1", "cpus=1"]
    assert [format(ask) for ask in variant([parse("cpus=all")]).asks] == ["cpus=all"]
    assert variant([], nodes=3).asks == ()


def test_invalid_variants_are_refused() -> None:
    one = variant([])
    with pytest.raises(InputError, match="more than once"):
        variant([parse("a=1"), parse("a=2")])
    with pytest.raises(UsageError, match="whole workers"):
        variant([parse("a=1")], nodes=2)
    for wrong in ({"weight": 0}, {"weight": float("nan")}, {"min_time_s": -1}, {"nodes": -1}):
        with pytest.raises(UsageError):
            variant([], **wrong)  # type: ignore[arg-type]  # numbers
    with pytest.raises(InputError, match="1 to 32"):
        variants([one] * (VARIANTS_MAX + 1))
    with pytest.raises(InputError, match="all variants"):
        variants([one, variant([], nodes=1)])
    assert variants([one]) == (one,)


@pytest.mark.parametrize(
    "values",
    [
        {"resources": 1},
        {"resources": [1]},
        {"resources": [{"resource": "a", "request": "Some"}]},
        {"resources": [{"resource": "a", "request": {"Compact": 0}}]},
        {"resources": [{"resource": "a", "request": {"Compact": True}}]},
        {"resources": [{"resource": "a", "request": {"Compact": 2**64}}]},
        {"n_nodes": "2"},
        {"min_time": "1h"},
    ],
)
def test_invalid_exported_requests_are_refused(values: dict[str, object]) -> None:
    with pytest.raises(InputError):
        of_plain(values)


# -- couplings -------------------------------------------------------------------------------------------------------

POOLS = [hyperqueue.parse(text) for text in ("cpus=3x2", "one=[a]", "gpus=2x1")]
COUPLINGS = st.builds(Coupling, st.just(0), st.integers(0, 2), st.just(2), st.integers(0, 1), st.integers(0, 65_535)) | st.tuples(
    st.integers(0, 1), st.integers(0, 65_535)
).map(lambda pair: Coupling(0, pair[0], 0, 2, pair[1]))


@given(st.lists(COUPLINGS, min_size=1, max_size=6, unique_by=lambda each: (each.group1, each.resource2, each.group2)))
def test_couplings_are_read_as_written(couplings: list[Coupling]) -> None:
    found = checked_couplings(couplings, POOLS)
    assert parse_coupling(format_coupling(found, POOLS), POOLS) == found == sorted(couplings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "name of a resource"),
        ("foo[0]:cpus[0]", "Resource not found: foo"),
        ("one[0]:cpus[0]", "'one' has only a single group"),
        ("cpus[0]:gpus[2]", "Invalid group id 2 for resource 'gpus'"),
        ("cpus[0]", "expected ':'"),
        ("cpus[0]:cpus[0]", "two different groups"),
        ("cpus[0]:gpus[0]=65536", "up to 65535"),
        ("cpus[0]:gpus[0]=-1", "a weight"),
        ("cpus[0]:gpus[0],gpus[0]:cpus[0]=3", "is listed twice"),
        ("cpus[0]:gpus[0] x", "a comma or the end"),
    ],
)
def test_invalid_couplings_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as found:
        parse_coupling(text, POOLS)
    assert message in str(found.value)


def test_lists_of_cpus() -> None:
    assert parse_cpulist("0-1,\n 7") == ["0", "1", "7"]
    for text in ("", "a", "3-1", "1,", "0-1-2", "1 2"):
        with pytest.raises(InputError, match="expected"):
            parse_cpulist(text)
    for text in ("0-999999999", "99999999999", "1" * 70_000):
        with pytest.raises(LimitExceeded):
            parse_cpulist(text)


# -- variables -------------------------------------------------------------------------------------------------------


def test_variables_of_a_task() -> None:
    grants = [
        Grant(parse("cpus=2 compact!"), ("3", "2"), 20_000),
        Grant(parse("gpus/amd=1"), ("0",), 10_000),
        Grant(parse("mem=1.5"), None, 15_000),
    ]
    assert of_grants(grants, pin="omp") == {
        "HQ_RESOURCE_REQUEST_cpus": "2 compact!",
        "HQ_RESOURCE_VALUES_cpus": "3,2",
        "HQ_CPUS": "3,2",
        "OMP_NUM_THREADS": "2",
        "HQ_PIN": "omp",
        "OMP_PROC_BIND": "close",
        "OMP_PLACES": "{3,2}",
        "HQ_RESOURCE_REQUEST_gpus_amd": "1 compact",
        "HQ_RESOURCE_VALUES_gpus_amd": "0",
        "ROCR_VISIBLE_DEVICES": "0",
        "HQ_RESOURCE_REQUEST_mem": "1.5 compact",
    }


def test_openmp_variables_that_a_task_already_has_are_kept() -> None:
    grants = [Grant(parse("cpus=2"), ("1", "0"), 20_000)]
    own = {"OMP_NUM_THREADS": "1", "OMP_PLACES": "cores"}
    made = of_grants(grants, pin="omp", user=own, policy=False)
    assert not own.keys() & made.keys()
    assert made["OMP_PROC_BIND"] == "close"
    assert made["HQ_RESOURCE_REQUEST_cpus"] == "2"
    assert of_grants([Grant(parse("cpus=all"), ("0",), 10_000)], policy=False)["HQ_RESOURCE_REQUEST_cpus"] == "all"
    assert "OMP_NUM_THREADS" not in of_grants([Grant(parse("cpus=0.5"), ("0",), 5000)])


def test_names_in_variables() -> None:
    assert variable("a-b/Ä") == "a_b___"


def test_devices_of_a_worker() -> None:
    assert detected({}) == detected({"CUDA_VISIBLE_DEVICES": ""}) == ({}, [])
    assert detected({"CUDA_VISIBLE_DEVICES": "3, GPU-a"})[0] == {"gpus/nvidia": ("3", "GPU-a")}
    assert detected({"CUDA_VISIBLE_DEVICES": "3,1,3", "ROCR_VISIBLE_DEVICES": "1"}, seed=True) == ({"gpus": ("1", "3")}, [])


@given(st.text(st.sampled_from("acpus=.019 tighlmpx!_/\n"), max_size=20))
def test_any_text_is_a_request_or_an_error(text: str) -> None:
    for dialect in ("any", "seed", "current"):
        try:
            ask = parse(text, dialect=dialect)  # type: ignore[arg-type]  # one of them
        except FluxresError as error:
            where = error.where
        else:
            where = "request:"
            assert ask.amount == ALL or ask.amount > 0
        assert where.startswith("request:")
