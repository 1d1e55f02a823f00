"""The find language: valid and invalid criteria, and their printed form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax import criteria
from fluxres.syntax.criteria import All, Amount, And, Compare, Criteria, Not, Or, When, keys, parse
from fluxres.syntax.idset import joined
from tests.choices import integers

NODE = Compare("type", "=", ("node",))
UP = Compare("state", "=", ("up",))
LOW = Compare("rank", "<", ((4, 4),))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("type=node", NODE),
        ("type == node", NODE),
        ("type='node'", NODE),
        ('type="node"', NODE),
        ("type in node", NODE),
        ("type in (node)", NODE),
        ("((type=node))", NODE),
        ("status=up", UP),
        ("all", All()),
        ("*", All()),
        ("ALL", All()),
        ("type=node and status=up", And((NODE, UP))),
        ("type=node AND status=up And rank<4", And((NODE, UP, LOW))),
        ("type=node or state=up and rank<4", Or((NODE, And((UP, LOW))))),
        ("(type=node or state=up) and rank<4", And((Or((NODE, UP)), LOW))),
        ("not type=node and state=up", And((Not(NODE), UP))),
        ("not (type=node and state=up)", Not(And((NODE, UP)))),
        ("NOT not type=node", Not(Not(NODE))),
        ("not(type=node)or(state=up)", Or((Not(NODE), UP))),
        ("(type=node and state=up) and rank<4", And((And((NODE, UP)), LOW))),
    ],
)
def test_connectives(text: str, found: Criteria) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("type=node,core", Compare("type", "=", ("node", "core"))),
        ("type in (node , core)", Compare("type", "=", ("node", "core"))),
        ("type!=Node,CORE", Compare("type", "!=", ("Node", "CORE"))),
        ("type~gpu*,?pu", Compare("type", "~", ("gpu*", "?pu"))),
        ("unit=''", Compare("unit", "=", ("",))),
        ("type='and'", Compare("type", "=", ("and",))),
        (r"""type="a \"b\" \\ 'c'" """, Compare("type", "=", ("a \"b\" \\ 'c'",))),
        (r"type='it\'s'", Compare("type", "=", ("it's",))),
        ("name=node[0-3,7],login1", Compare("name", "=", ("node[0-3,7]", "login1"))),
        ('name="node[0-3,7],login1"', Compare("name", "=", ("node[0-3,7]", "login1"))),
        ("name='left over'", Compare("name", "=", ("left over",))),
        ("name~node[0-3]", Compare("name", "~", ("node[0-3]",))),
        ("basename=node", Compare("basename", "=", ("node",))),
        ("id=0-3,7", Compare("id", "=", ((0, 3), (7, 7)))),
        ("id=[0-3,7]", Compare("id", "=", ((0, 3), (7, 7)))),
        ("id='7,0-3'", Compare("id", "=", ((0, 3), (7, 7)))),
        ("id in 7,2-3,0-2", Compare("id", "=", ((0, 3), (7, 7)))),
        ("rank!=5", Compare("rank", "!=", ((5, 5),))),
        ("size>=4k", Compare("size", ">=", ((4000, 4000),))),
        ("size<2Gi", Compare("size", "<", ((2**31, 2**31),))),
        ("size>=4GB", Compare("size", ">=", (Amount(4, "GB"),))),
        ("available<1.5TiB at +1h", Compare("available", "<", (Amount(1536, "GiB"),), None, When("at", "+1h"))),
        ("size!=8GiB,3,'20 kW',8GiB", Compare("size", "!=", ((3, 3), Amount(8, "GiB"), Amount(20, "kW")))),
        ("size=1K-2Ki", Compare("size", "=", ((1000, 2048),))),
        (f"size<={limits.SIZE_MAX}", Compare("size", "<=", ((limits.SIZE_MAX, limits.SIZE_MAX),))),
        ("path=/demo/rack0,/demo/rack1", Compare("path", "=", ("/demo/rack0", "/demo/rack1"))),
        ("path~/demo/*/node[!0]", Compare("path", "~", ("/demo/*/node[!0]",))),
        ("uri=power:/pdu0/node3", Compare("uri", "=", ("power:/pdu0/node3",))),
        ("under=/demo/rack0", Compare("under", "=", ("/demo/rack0",))),
        ("parent=rack0", Compare("parent", "=", ("rack0",))),
        ("depth<=2", Compare("depth", "<=", ((2, 2),))),
    ],
)
def test_values(text: str, found: Criteria) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("property=ssd", Compare("property", "=", ("ssd",))),
        ("property:ssd", Compare("property", "=", ("ssd",))),
        ("property:ssd,nvme", Compare("property", "=", ("ssd", "nvme"))),
        ("property~gpu*", Compare("property", "~", ("gpu*",))),
        ("property!=ssd", Compare("property", "!=", ("ssd",))),
        ("property:class=7", Compare("property", "=", ("7",), "class")),
        ("property:class:7", Compare("property", "=", ("7",), "class")),
        ("property:class:7,8", Compare("property", "=", ("7", "8"), "class")),
        ("property:class in 7,8", Compare("property", "=", ("7", "8"), "class")),
        ("property:at:10:30", Compare("property", "=", ("10:30",), "at")),
        ("property:class >= 2", Compare("property", ">=", ("2",), "class")),
        ("property:'a b'='c d'", Compare("property", "=", ("c d",), "a b")),
        ('property:"a:b":"c,d"', Compare("property", "=", ("c,d",), "a:b")),
        ('property:a:"c d"', Compare("property", "=", ("c d",), "a")),
        ('property:"a b":c', Compare("property", "=", ("c",), "a b")),
        ("property:'a b'", Compare("property", "=", ("a b",))),
        ("property:class=''", Compare("property", "=", ("",), "class")),
        ("tag=maintenance", Compare("tag", "=", ("maintenance",))),
        ("not tag and property", And((Not(Compare("tag", "=", (True,))), Compare("property", "=", (True,))))),
        ("property=true", Compare("property", "=", ("true",))),
        ("tag:maintenance<2026-12-01", Compare("tag", "<", ("2026-12-01",), "maintenance")),
        ("not tag:owner~ab*", Not(Compare("tag", "~", ("ab*",), "owner"))),
    ],
)
def test_properties_and_tags(text: str, found: Criteria) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("exclusive", Compare("exclusive", "=", (True,))),
        ("exclusive=TRUE", Compare("exclusive", "=", (True,))),
        ("exclusive=false", Compare("exclusive", "=", (False,))),
        ("staged!=true", Compare("staged", "=", (False,))),
        ("shared", Compare("shared", "=", (True,))),
        ("shared=false", Compare("shared", "=", (False,))),
        ("shared=j1,j2", Compare("shared", "=", ("j1", "j2"))),
        ("shared='true'", Compare("shared", "=", ("true",))),
        ("job=j1", Compare("job", "=", ("j1",))),
        ("job~sim-*", Compare("job", "~", ("sim-*",))),
        ("available>=8 at now", Compare("available", ">=", ((8, 8),), when=When("at", "now"))),
        ("available>=8 AT '2026-12-01 08:00'", Compare("available", ">=", ((8, 8),), when=When("at", "2026-12-01 08:00"))),
        ("allocated=0 during now..+1h", Compare("allocated", "=", ((0, 0),), when=When("during", "now..+1h"))),
        ("exclusive at 3600", Compare("exclusive", "=", (True,), when=When("at", "3600"))),
        ("job=at at 5", Compare("job", "=", ("at",), when=When("at", "5"))),
        ("shared during ' 5.. '", Compare("shared", "=", (True,), when=When("during", "5.."))),
    ],
)
def test_records(text: str, found: Criteria) -> None:
    assert parse(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "criteria:1: expected criteria, got empty text"),
        (" \n", "criteria:1: expected criteria, got empty text"),
        ("type=", "criteria:6: expected a value after 'type=', got end of text"),
        ("type=node,", "criteria:11: expected a value after 'node,', got end of text"),
        ("type= and rank=3", "criteria:7: expected a value after 'type=', got 'and'"),
        ("type", "criteria:5: expected an operator after 'type', got end of text"),
        ("job", "criteria:4: expected an operator after 'job', got end of text"),
        ("type node", "criteria:6: expected an operator after 'type', got 'node'"),
        ("type=node core", "criteria:11: expected 'and', 'or' or the end, got 'core' (write `and` between comparisons)"),
        ("type=node type=core", "criteria:11: expected 'and', 'or' or the end, got 'type' (write `and`"),
        ("type=no'de'", "criteria:8: expected 'and', 'or' or the end, got 'de'"),
        ("type=a=b", "criteria:7: expected 'and', 'or' or the end, got '='"),
        ("type=node && rank=3", "criteria:11: expected 'and', 'or' or the end, got '&&' (use the word and)"),
        ("type=node||rank=3", "criteria:10: expected 'and', 'or' or the end, got '||' (use the word or)"),
        ("!type=node", "criteria:1: expected a comparison such as type=node, got '!' (use the word not)"),
        ("and type=node", "criteria:1: expected a comparison such as type=node, got 'and'"),
        ("type=node and", "criteria:14: expected a comparison such as type=node, got end of text"),
        ("'type'=node", "criteria:1: expected a comparison such as type=node, got 'type'"),
        ("()", "criteria:2: expected a comparison such as type=node, got ')'"),
        ("(type=node", "criteria:11: expected ')', got end of text"),
        ("type=node)", "criteria:10: expected 'and', 'or' or the end, got ')'"),
        ("type in (node", "criteria:14: expected ',' or ')', got end of text"),
        ("type='node", "criteria:6: expected a closing ' for the string"),
        (r"type='a\n'", r"criteria:8: unknown escape '\\n' in a string"),
        ("tpye=node", "criteria:1: unknown key 'tpye' (did you mean type?)"),
        ("property.class=7", "criteria:1: unknown key 'property.class' (did you mean property?)"),
        ("zzz=1", "criteria:1: unknown key 'zzz' (keys are type, name,"),
        ("/demo/rack0", "criteria:1: unknown key '/demo/rack0' (for a path write path=/demo/rack0)"),
        ("type:node", "criteria:5: expected an operator after 'type', got ':' (write type=VALUE)"),
        ("type<node", "criteria:5: 'type' cannot be compared with '<'"),
        ("id~3", "criteria:3: 'id' cannot be compared with '~'"),
        ("exclusive>1", "criteria:10: 'exclusive' cannot be compared with '>'"),
        ("property>3", "criteria:9: 'property' cannot be compared with '>' (property:KEY>VALUE compares a value)"),
        ("property:", "criteria:10: expected a key after 'property:'"),
        ("property:=3", "criteria:10: expected a key after 'property:'"),
        ("property:a:", "criteria:12: expected a value after 'property:a:'"),
        ("property:a:b=c", "criteria:13: expected 'and', 'or' or the end, got '='"),
        ("exclusive=maybe", "criteria:11: expected true or false after exclusive=, got 'maybe'"),
        ("exclusive=true,false", "criteria:16: expected true or false after exclusive="),
        ("size>4,5", "criteria:8: expected one value after size>, got 2"),
        ("size>4-5", "criteria:6: expected one number after size>, got '4-5'"),
        ("id=007", "criteria:4: expected a number, or a range lo-hi, got '007'"),
        ("id=3-1", "criteria:4: expected a number, or a range lo-hi, got '3-1'"),
        ("id=-1", "criteria:4: expected a number, or a range lo-hi, got '-1'"),
        ("id=1--2", "criteria:4: expected a number, or a range lo-hi, got '1--2'"),
        ("id=4GB", "criteria:4: expected a number, or a range lo-hi, got '4GB'"),
        ("size=4-8GB", "criteria:6: expected a number, or a range lo-hi, got '4-8GB'"),
        ("size>=64gib", "criteria:7: expected a known unit, got 'gib' (did you mean GiB?)"),
        (
            "size=4Gx",
            "criteria:6: expected a number, or a range lo-hi, got '4Gx' (integers >= 0 without leading zeros; k M G T Ki Mi",
        ),
        ("size>4GB,5GB", "criteria:10: expected one value after size>, got 2"),
        ("size=0.1B", "criteria:6: expected a whole number of B, got '0.1B'"),
        ("size=1.5", "criteria:6: expected a number, or a range lo-hi, got '1.5'"),
        ("id=٣", "criteria:4: expected a number"),
        ("name=node[0-3", "criteria:6: expected matching brackets, got 'node[0-3' (for a glob write ~ instead of =)"),
        ("name=node[a-b]", "criteria:6: expected a number or a range lo-hi, got 'a-b'"),
        ("name=''", "criteria:6: expected a name after name=, got ''"),
        ("job=''", "criteria:5: expected a job id of 1 to"),
        ("type=node at 3", "criteria:11: 'type' does not depend on time (at can be used with allocated, available, job,"),
        ("available>8 at", "criteria:15: expected a value after '8 at', got end of text"),
        ("available>8 at 30m", "criteria:16: expected a time, got '30m'"),
        ("available>8 at -", "criteria:16: expected a finite moment, got '-'"),
        ("available>8 during 5", "criteria:20: expected a window A..B, got '5'"),
        ("available>8 during 9..5", "criteria:20: window: expected an end after its start, got 9..5"),
    ],
)
def test_errors_name_the_column_the_value_and_a_remedy(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse(text)
    assert str(refused.value).startswith(message)


def test_length_is_bounded() -> None:
    assert isinstance(parse("type=a or " * (limits.CRITERIA_LENGTH_MAX // 10 - 1) + "type=a"), Or)
    with pytest.raises(LimitExceeded, match=str(limits.CRITERIA_LENGTH_MAX)):
        parse(" " * (limits.CRITERIA_LENGTH_MAX + 1))


@pytest.mark.parametrize(("opening", "closing", "levels"), [("(", ")", 1), ("not ", "", 1), ("not (", ")", 2)])
def test_depth_is_bounded(opening: str, closing: str, levels: int) -> None:
    most = limits.CRITERIA_DEPTH_MAX // levels
    found = parse(opening * most + "all" + closing * most)
    assert parse(str(found)) == found
    for deeper in (most + 1, limits.CRITERIA_LENGTH_MAX // 8):
        with pytest.raises(LimitExceeded, match=f"deeper than {limits.CRITERIA_DEPTH_MAX} levels"):
            parse(opening * deeper + "all" + closing * deeper)


def test_numbers_names_and_job_ids_are_bounded() -> None:
    for number in (str(limits.SIZE_MAX + 1), "9" * 20, "9" * 10_000, "9999999999T"):
        with pytest.raises(LimitExceeded, match=str(limits.SIZE_MAX)):
            parse(f"size={number}")
    with pytest.raises(LimitExceeded, match=str(limits.HOSTLIST_RANGE_MAX)):
        parse(f"name=n[0-{limits.HOSTLIST_RANGE_MAX}]")
    with pytest.raises(InputError, match=str(limits.JOB_ID_LENGTH_MAX)):
        parse("job=" + "j" * (limits.JOB_ID_LENGTH_MAX + 1))


def test_times_are_resolved_on_evaluation() -> None:
    assert When("at", "+1h").resolve(100.0) == (3700.0, 3700.0)
    assert When("during", "50..+1h").resolve(100.0) == (50.0, 3650.0)
    late = parse("available>1 during now..200")
    assert isinstance(late, Compare)
    assert late.when is not None
    assert late.when.resolve(100.0) == (100.0, 200.0)
    with pytest.raises(UsageError):
        late.when.resolve(300.0)


def test_names_with_brackets_are_expanded() -> None:
    named = parse("name=n[1,0],a,'b c','größe'")
    assert isinstance(named, Compare)
    assert named.names() == ["n1", "n0", "a", "b c", "größe"]


def test_values_are_read_by_kind() -> None:
    number, text, flag = parse("id=0-3,7"), parse("type=a,b"), parse("exclusive=false")
    assert isinstance(number, Compare)
    assert isinstance(text, Compare)
    assert isinstance(flag, Compare)
    assert (number.ranges, number.texts, number.flag) == (((0, 3), (7, 7)), (), None)
    assert (text.ranges, text.texts, text.flag) == ((), ("a", "b"), None)
    assert (flag.ranges, flag.texts, flag.flag) == ((), (), False)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: (min(pair), max(pair))), max_size=8))
def test_merged_ranges_hold_the_same_numbers(ranges: list[tuple[int, int]]) -> None:
    numbers = {number for first, last in ranges for number in range(first, last + 1)}
    result = joined(ranges)
    assert {number for first, last in result for number in range(first, last + 1)} == numbers
    assert len(result) == sum(number - 1 not in numbers for number in numbers)


@pytest.mark.rfc("RFC4-42")
def test_criteria_reach_all_data_of_a_pool() -> None:
    base = {"type", "uuid", "basename", "name", "id", "property", "tag", "size", "unit", "state"}
    records = {"allocated", "available", "job", "exclusive", "shared", "staged"}
    places = {"path", "uri", "subsystem", "hierarchy", "parent", "under", "depth", "rank"}
    assert set(keys()) == base | records | places
    assert {name for name, key in keys().items() if key.timed} == records


@pytest.mark.parametrize("name", list(keys()))
def test_the_parser_accepts_the_keys_of_the_table(name: str) -> None:
    key = keys()[name]
    value = {"number": "3", "flag": "true"}.get(key.kind, "x")
    subject = f"{name}:k" if key.kind == "qualified" else name
    for op in ("=", "!=", "<", "<=", ">", ">=", "~"):
        text = f"{subject}{op}{value}"
        if op in key.operators:
            assert parse(text)
        else:
            with pytest.raises(InputError, match="cannot be compared"):
                parse(text)
    assert parse(f"{subject} in {value}") == parse(f"{subject}={value}")
    if key.alone:
        assert parse(name) == Compare(name, "=", (True,))
    assert key.help


WORDS = st.text(min_size=1, max_size=8) | st.sampled_from(
    [
        "and",
        "NOT",
        "true",
        "False",
        "all",
        "*",
        "a b",
        "it's",
        '"',
        "\\",
        "a,b",
        "n[0-3]",
        "at",
        "during",
        "in",
        "ä",
        "[",
        "a:b",
        "~",
    ]
)
RANGES = st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), min_size=1, max_size=4).map(
    lambda pairs: joined([(first, first + more) for first, more in pairs])
)
AMOUNTS = st.builds(Amount, st.integers(0, 10**39), st.sampled_from(["B", "GiB", "kW", "Gb/s", "h"]))
EXACT_NAMES = st.sampled_from(["node[0-3,7]", "n[00-12]-ib", "'[1]", "login", "left over", "=", "größe", "and"])
WHENS = st.none() | st.sampled_from(
    [When("at", "now"), When("at", "2026-12-01 08:00"), When("during", "now..+1h"), When("during", "0..")]
)


@st.composite
def comparisons(draw: st.DrawFn) -> Compare:
    key = keys()[draw(st.sampled_from(list(keys())))]
    op: Any = draw(st.sampled_from(key.operators))
    qualifier = draw(WORDS) if key.kind == "qualified" and (op in ("<", "<=", ">", ">=") or draw(st.booleans())) else None
    words = draw(st.lists(WORDS, min_size=1, max_size=1 if op in ("<", "<=", ">", ">=") else 3).map(tuple))
    values: Any = words
    if key.kind == "number":
        values = draw(RANGES) if op in ("=", "!=") else ((first := draw(integers(0, 2**62 - 1)), first),)
        if key.measured and draw(st.booleans()):
            values = (draw(AMOUNTS),) if op not in ("=", "!=") else (*values, draw(AMOUNTS))
    elif key.kind == "flag" or (key.kind == "sharing" and op == "=" and draw(st.booleans())):
        op, values = "=", (draw(st.booleans()),)
    elif key.kind == "qualified" and op == "=" and qualifier is None and draw(st.booleans()):
        values = (True,)
    elif key.kind == "names" and op != "~":
        values = draw(st.lists(EXACT_NAMES, min_size=1, max_size=3).map(tuple))
    return Compare(key.name, op, values, qualifier, draw(WHENS) if key.timed else None)


CRITERIA = st.recursive(
    comparisons() | st.just(All()),
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=8,
)


def test_a_number_that_is_no_size_is_refused_with_a_unit_as_the_way_out() -> None:
    for name, sizes in (("available", True), ("id", False)):
        with pytest.raises(InputError) as refused:
            parse(f"{name}>=1.5")
        assert refused.value.hint.endswith("multiply; sizes have a unit, such as 64GiB") is sizes


@given(CRITERIA)
def test_printed_criteria_are_read_back(found: Criteria) -> None:
    assert parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("type in (node,core)  AND(not(status==up))", "type=node,core and not state=up"),
        ("(type=a or type=b) and type=c", "(type=a or type=b) and type=c"),
        ("(type=a and type=b) or type=c", "type=a and type=b or type=c"),
        ("not (all and *)", "not (all and all)"),
        ("size >= 1Ki", "size>=1024"),
        ("exclusive=true at ' +1h'", "exclusive at +1h"),
        ("exclusive!=true", "exclusive=false"),
        ("property:'a b':3 and property:ssd", 'property:"a b"=3 and property=ssd'),
        ("name='node[0-3]','x y'", 'name=node[0-3],"x y"'),
        ("shared='true'", 'shared="true"'),
    ],
)
def test_the_canonical_text(text: str, printed: str) -> None:
    assert str(parse(text)) == printed


FRAGMENTS = st.sampled_from(
    [*keys(), "status", "and", "or", "not", "all", "*", "in", "at", "during", "now", "+1h", "0..9", "(", ")", ",", "=", "!=",
     "<=", "~", ":", "'", '"', "\\", "node[0-3,7]", "[", "]", "0-3", "7", "true", "j1", "&", "!", " ", "\n", "ä", "\0"]
)  # fmt: skip


@given(st.text() | st.lists(FRAGMENTS, max_size=14).map("".join) | st.lists(FRAGMENTS, max_size=14).map(" ".join))
def test_any_text_is_criteria_or_an_error_with_its_place(text: str) -> None:
    refused: InputError | None = None
    try:
        found = parse(text)
    except InputError as error:
        refused = error
    if refused is None:
        assert parse(str(found)) == found
    else:
        place, column = refused.where.split(":")
        assert place == "criteria"
        assert 1 <= int(column) <= len(text) + 1


@given(CRITERIA, st.data())
def test_damaged_criteria_are_criteria_or_an_error(found: Criteria, data: st.DataObject) -> None:
    text = str(found)
    at = data.draw(integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(FRAGMENTS | st.just("")) + text[at + 1 :]
    assume(damaged != text)
    try:
        again = parse(damaged)
    except InputError:
        return
    assert parse(str(again)) == again


def test_the_module_exports_the_table() -> None:
    assert criteria.keys() is keys()


SPEC = (Path(__file__).parents[2] / "specs" / "criteria.md").read_text(encoding="utf-8")


def test_the_written_grammar_lists_the_keys_and_their_operators() -> None:
    written = {}
    for name, alone, operators in re.findall(r"^\| `(\w+)` \| (alone, )?`([^`]+)` \|", SPEC, re.MULTILINE):
        written[name] = (bool(alone), operators.removesuffix(" in"))
    in_code = {name: (key.alone and key.kind != "qualified", " ".join(key.operators)) for name, key in keys().items()}
    assert written == in_code


def test_the_examples_of_the_written_grammar_are_criteria() -> None:
    examples = SPEC.split("```")[1].strip().splitlines()
    assert len(examples) == 3
    for example in examples:
        assert parse(str(parse(example))) == parse(example)
