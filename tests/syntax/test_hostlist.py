"""Hostlists: RFC 29 with the padding and the encoding of flux-core."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import FluxresError, InputError, LimitExceeded, UsageError
from fluxres.syntax import hostlist
from fluxres.syntax.hostlist import Hostlist, Hostname
from fluxres.syntax.idset import IDset

STEMS = st.sampled_from(["", "n", "node", "a-1b-", "x0y", "rack.7-"])
DIGITS = st.integers(0, 130).map(str) | st.integers(0, 12).map("{:02}".format) | st.integers(95, 105).map("{:03}".format)
HOSTS = st.lists(
    st.builds(str.__add__, STEMS, DIGITS) | st.sampled_from(["login", "n1-ib", "n" + "9" * 30, "a/b:c"]), max_size=40
)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        (" ,\t\n,", []),
        ("a", ["a"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[3,1,1]", ["n3", "n1", "n1"]),
        ("n[2-2]", ["n2"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[007,3,11-12]", ["n007", "n3", "n11", "n12"]),
        ("[0-1]p", ["0p", "1p"]),
        ("r[0-1]-ib0", ["r0-ib0", "r1-ib0"]),
        ("a,b c\nd", ["a", "b", "c", "d"]),
        ("n1,n[1-2],n1", ["n1", "n1", "n2", "n1"]),
    ],
)
def test_accepts_what_flux_accepts(text: str, hosts: list[str]) -> None:
    assert hostlist.parse(text) == hosts
    assert hostlist.count(text) == len(hosts)


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("n[3-1]", 3),
        ("n[]", 3),
        ("n[1,]", 5),
        ("n[1,,2]", 5),
        ("n[a-b]", 3),
        ("n[1-]", 3),
        ("n[-1]", 3),
        ("n[1--2]", 3),
        ("n[1, 2]", 5),
        ("n[+1]", 3),
        ("n[٣]", 3),
        ("ok,n[1", 4),
        ("n1]", 1),
        ("n[[1]]", 1),
        ("n]1[", 1),
        ("n[1-2]m[3-4]", 1),
        ("nœud", 1),
        ("a,n\x07", 3),
    ],
)
def test_invalid_hostlists_are_refused_with_the_column(text: str, column: int) -> None:
    with pytest.raises(InputError) as refused:
        hostlist.parse(text)
    assert refused.value.where == f"hostlist:{column}"


def test_a_range_that_decreases_is_refused_with_the_other_order() -> None:
    with pytest.raises(InputError) as refused:
        hostlist.parse("n[03-01]")
    assert str(refused.value) == "hostlist:3: expected a range from a lower number to a higher one, got '03-01' (write 01-03)"


def test_a_range_holds_as_many_hosts_as_in_flux() -> None:
    most = f"n[1-{limits.HOSTLIST_RANGE_MAX}]"
    assert hostlist.count(most) == limits.HOSTLIST_RANGE_MAX
    with pytest.raises(LimitExceeded, match="split it"):
        hostlist.parse(f"n[0-{limits.HOSTLIST_RANGE_MAX}]")


def test_a_list_of_many_ranges_is_bounded_too() -> None:
    ranges = limits.IDSET_COUNT_MAX // limits.HOSTLIST_RANGE_MAX
    most = ",".join([f"n[1-{limits.HOSTLIST_RANGE_MAX}]"] * ranges)
    assert hostlist.count(most) == limits.IDSET_COUNT_MAX
    with pytest.raises(LimitExceeded, match=str(limits.IDSET_COUNT_MAX)):
        hostlist.parse(most + ",n0")


def test_names_are_bounded_including_padding() -> None:
    longest = "n" + "0" * (limits.NAME_LENGTH_MAX - 2) + "1"
    assert hostlist.parse(longest) == [longest]
    assert hostlist.parse(f"n[{longest[1:]}]") == [longest]
    for text in (longest + "1", f"n[0{longest[1:]}]", f"n[1-{'9' * 5000}]"):
        with pytest.raises(LimitExceeded if "[" in text else InputError, match=str(limits.NAME_LENGTH_MAX)):
            hostlist.parse(text)


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ([], ""),
        (["n0"], "n0"),
        (["n0", "n1"], "n[0-1]"),
        (["n0", "m1"], "n0,m1"),
        (["n2", "n1", "n0"], "n[2,1,0]"),
        (["n1", "n1"], "n[1,1]"),
        (["n9", "n10"], "n[9-10]"),
        (["n09", "n10"], "n[09-10]"),
        (["n99", "n100"], "n[99-100]"),
        (["n099", "n100"], "n[099-100]"),
        (["n08", "n09", "n10", "n99", "n100"], "n[08-10,99-100]"),
        (["n1", "n02", "n3"], "n[1,02,3]"),
        (["n9", "n010"], "n[9,010]"),
        (["n01", "n2"], "n[01,2]"),
        (["n1", "login", "n2"], "n1,login,n2"),
        (["n1-ib", "n2-ib"], "n1-ib,n2-ib"),
        (["0", "1", "2"], "[0-2]"),
        (["n" + "9" * 19, "n1" + "0" * 19], "n" + "9" * 19 + ",n1" + "0" * 19),
    ],
)
def test_format_folds_like_flux(hosts: list[str], text: str) -> None:
    assert hostlist.format(hosts) == text


@pytest.mark.parametrize("host", ["", "a b", "a,b", "a[1]", "nœud", "a\0", "x" * (limits.NAME_LENGTH_MAX + 1)])
def test_names_that_a_hostlist_cannot_express_are_refused_but_shown_by_fold(host: str) -> None:
    with pytest.raises(InputError, match="name"):
        hostlist.format(["n0", host])
    assert hostlist.fold(["n0", "n1", host, "n2"]) == f"n[0-1],{host!r},n2"


@given(HOSTS)
def test_folded_lists_are_read_back_in_order(hosts: list[str]) -> None:
    text = hostlist.format(hosts)
    assert hostlist.parse(text) == hosts
    assert hostlist.fold(hosts) == text


def numbered(host: str) -> tuple[str, str]:
    [(stem, digits)] = re.findall(r"^(.*?)([0-9]*)$", host)
    return (stem, digits) if digits and len(digits) < 19 else (host, "")


def naive_format(hosts: list[str]) -> str:
    """A second implementation of the encoding: split at stems, then wherever printing the range would not give the host."""
    out = []
    for (stem, plain), group in groupby(map(numbered, hosts), key=lambda item: (item[0], not item[1])):
        numbers = [digits for _, digits in group]
        if plain:
            out += [stem] * len(numbers)
            continue
        runs: list[list[str]] = []
        for digits in numbers:
            if runs and str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])) == digits:
                runs[-1].append(digits)
            else:
                runs.append([digits])
        texts = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
        out.append(stem + texts[0] if len(numbers) == 1 else f"{stem}[{','.join(texts)}]")
    return ",".join(out)


@given(HOSTS)
def test_folding_equals_its_plain_definition(hosts: list[str]) -> None:
    assert hostlist.format(hosts) == naive_format(hosts)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("frontier[00001-09408]", ("frontier", 5, "", 1, 9408)),
        ("n[0-15]-ib", ("n", 1, "-ib", 0, 15)),
        ("[4]", ("", 1, "", 4, 4)),
        ("n4", None),
        ("n[0-3,7]", None),
        ("n[0-3],m", None),
        ("", None),
        ("n[3-0]", None),
        (f"n[0-{limits.HOSTLIST_RANGE_MAX}]", None),
    ],
)
def test_regular_recognises_one_plain_range(text: str, answer: object) -> None:
    assert hostlist.regular(text) == answer


@given(STEMS, st.integers(0, 500), st.integers(0, 40), st.integers(1, 5), st.sampled_from(["", "-ib", "x3"]))
def test_regular_agrees_with_parse(prefix: str, first: int, more: int, width: int, suffix: str) -> None:
    text = f"{prefix}[{first:0{width}}-{first + more}]{suffix}"
    found = hostlist.regular(text)
    assert found is not None
    stem, padding, tail, low, high = found
    assert hostlist.parse(text) == [f"{stem}{number:0{padding}}{tail}" for number in range(low, high + 1)]


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        ("a", ["a"]),
        ("n[0-3,7],login1", ["n[0-3,7]", "login1"]),
        (" /a b , c,,", ["/a b", "c"]),
        ("n[1,2", ["n[1,2"]),
        ("n]1,2", ["n]1", "2"]),
    ],
)
def test_split_splits_outside_brackets(text: str, items: list[str]) -> None:
    assert hostlist.split(text) == items


@given(st.text() | st.text("n019-[], "))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        if hostlist.count(text) > 10_000:
            return
        hosts = hostlist.parse(text)
    except FluxresError:
        return
    assert hostlist.parse(hostlist.format(hosts)) == hosts


# -- Hostlist --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("foo001", ("foo", 1, "001")),
        ("foo0", ("foo", 0, "0")),
        ("12", ("", 12, "12")),
        ("foo", ("foo", None, "")),
        ("foo1-ib", ("foo1-ib", None, "")),
        ("foo-1a-2", ("foo-1a-", 2, "2")),
        ("n" + "9" * 200, ("n" + "9" * 200, None, "")),
    ],
)
def test_parts_of_a_name(name: str, parts: tuple[str, int | None, str]) -> None:
    found = Hostname.of(name)
    assert found == parts
    assert found.prefix + found.digits == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a[1-2]", "a,", "a]", "ä"])
def test_names_that_a_hostlist_cannot_express_have_no_parts(name: str) -> None:
    with pytest.raises(InputError):
        Hostname.of(name)


@given(HOSTS, HOSTS, st.integers(-45, 45))
def test_a_list_of_hosts_is_a_sequence(names: list[str], others: list[str], at: int) -> None:
    hosts = Hostlist(names)
    assert list(hosts) == list(hosts.append()) == names
    assert list(hosts.append(others, Hostlist(names))) == names + others + names
    assert hosts == Hostlist(str(hosts)) == Hostlist(hosts)
    assert hash(hosts) == hash(Hostlist(str(hosts)))
    assert str(hosts) == hostlist.format(names)
    assert (len(hosts), list(hosts[at:]), list(hosts[:at])) == (len(names), names[at:], names[:at])
    assert list(hosts[IDset(range(1, len(names), 3))]) == names[1::3]
    if -len(names) <= at < len(names):
        assert hosts[at] == names[at]
    else:
        with pytest.raises(IndexError):
            hosts[at]
    for name in [*names[:3], *others[:3]]:
        assert (name in hosts) == (name in names)
        assert hosts.find(name) == (names.index(name) if name in names else -1)
    assert hosts.indices(others, ignore_nomatch=True) == [names.index(name) for name in others if name in names]
    if set(others) <= set(names):
        assert hosts.indices(others) == [names.index(name) for name in others]
    else:
        with pytest.raises(UsageError, match="not in the hostlist"):
            hosts.indices(others)


@given(HOSTS, HOSTS)
def test_operations_on_lists_of_hosts(names: list[str], others: list[str]) -> None:
    hosts = Hostlist(names)
    once = hosts.uniq()
    assert sorted(once) == sorted(set(names))
    assert Counter(hosts.sort()) == Counter(names)
    assert list(dict.fromkeys(hosts.sort())) == list(once)
    assert Counter(hosts.delete(others)) == Counter(names) - Counter(others)
    assert list(hosts.exclude(others)) == [name for name in names if name not in others]
    assert hosts.union(others) == Hostlist(names + others).uniq()
    assert hosts.intersect(others) == Hostlist([name for name in names if name in others]).uniq()
    assert hosts.intersect() == hosts
    assert hosts.xor(others) == Hostlist(set(names) ^ set(others)).uniq()


@pytest.mark.parametrize(
    ("text", "ordered"),
    [
        ("b,a,b", "a,b,b"),
        ("n[10,9,100]", "n[9-10,100]"),
        ("n[10,9],n,n010,n9-ib", "n,n[9-10,010],n9-ib"),
        ("n[100,015,45]", "n[45,015,100]"),
        ("n[2,1,2]", "n[1-2,2]"),
    ],
)
def test_order_of_hosts(text: str, ordered: str) -> None:
    assert str(Hostlist(text).sort()) == ordered


def test_deleting_keeps_the_order_of_the_rest() -> None:
    hosts = Hostlist("n[3,1,3,2]")
    assert str(hosts.delete("n3")) == "n[1,3,2]"
    assert str(hosts.delete("n[3,3]")) == "n[1-2]"
    assert str(hosts.delete("m1")) == str(hosts)


def test_a_list_of_hosts_is_made_of_text_or_of_hosts() -> None:
    assert list(Hostlist(["n[1-2]", "m"])) == ["n1", "n2", "m"]
    assert repr(Hostlist("n1,n2")) == "Hostlist('n[1-2]')"
    assert Hostlist("n1") != ["n1"]
    with pytest.raises(InputError):
        Hostlist("n[1-")
    with pytest.raises(UsageError):
        Hostlist([1])  # type: ignore[list-item]  # what a caller may give by mistake
