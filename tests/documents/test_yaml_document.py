"""YAML and JSON are read as plain values with their places; other input ends in one message."""

from __future__ import annotations

import concurrent.futures
import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fluxres import limits
from fluxres.documents import places, yaml_document
from fluxres.documents.yaml_document import load
from fluxres.errors import FluxresError, InputError, LimitExceeded


def refusal(source: bytes | str | Path) -> FluxresError:
    with pytest.raises(InputError) as caught:
        load(source)
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 17),
        ("-3", -3),
        ("+3", 3),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", float("-inf")),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
        ("yes", "yes"),
        ("off", "off"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("2026-12-01", "2026-12-01"),
        ("0-3", "0-3"),
        ("'12'", "12"),
        ('"~"', "~"),
        ("=", "="),
    ],
)
def test_plain_scalars_are_those_of_the_core_schema(text: str, value: object) -> None:
    found = load(f"k: {text}\n".encode()).values
    assert found == {"k": value}
    assert type(found["k"]) is type(value)


@pytest.mark.parametrize(
    ("source", "where", "message"),
    [
        (b"", "<text>:1:1", "is empty"),
        (b"# only a comment\n", "<text>:1:1", "is empty"),
        (b"a: 1\nb:\n\tc: 2\n", "<text>:3:1: b", "a tab in the indentation"),
        (b"a: 1\nb: x\0y\n", "<text>:2:5", "is not a text file: it contains a NUL byte"),
        (b"a: \x1b[31m\n", "<text>:1:4", "control character U+001B"),
        (b"a: 1\nb: \xff\n", "<text>:2:4", "byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16"), "<text>:1:1", "is UTF-16"),
        (b"a: 1\n---\nb: 2\n", "<text>:2:1", "a second document begins here"),
        (b"a:\n  b: 1\n  b: 2\n", "<text>:3:3: a.b", "duplicate key"),
        (b"a: {1: x}\n", "<text>:1:5: a", "the key 1 is not text"),
        (b"? [x]\n: y\n", "<text>:1:3", "a list cannot be a key"),
        (b"a: !!python/object:os.system x\n", "<text>:1:4: a", "tags such as"),
        (b"a: [*x]\n", "<text>:1:5: a[0]", "no anchor '&x'"),
        (b"a: &x [1, *x]\n", "<text>:1:11: a[1]", "is inside its own anchor"),
        (b"a: &x {b: {<<: *x}}\n", "<text>:1:16: a.b.<<", "is inside its own anchor"),
        (b"<<: 3\n", "<text>:1:5: <<", "'<<' merges a mapping"),
        (b"a: [1, 2\n", "<text>:1:4", "this '[' is never closed"),
    ],
)
def test_a_broken_document_is_refused_with_line_column_and_path(source: bytes, where: str, message: str) -> None:
    error = refusal(source)
    assert error.where == where
    assert message in error.message
    assert error.hint


def test_byte_order_mark_is_not_part_of_the_text() -> None:
    assert load(b"\xef\xbb\xbfa: 1\n").values == {"a": 1}


def test_merge_keys_add_missing_keys_and_the_first_of_several() -> None:
    text = b"a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\n"
    document = load(text)
    assert document.values["c"] == {"x": 3, "y": 1, "z": 2}
    assert document.position(["c", "z"]) == (2, 17)


# -- places -------------------------------------------------------------------------------------------------------------


def test_places_of_values_and_keys() -> None:
    document = load(b"resources:\n  - type: node\n    count:  four\n")
    assert document.where(["resources", 0, "count"]) == "<text>:3:13: resources[0].count"
    assert document.where(["resources", 0, "count"], key=True) == "<text>:3:5: resources[0].count"
    assert document.where(["resources", 0, "missing"]) == "<text>:2:5: resources[0].missing"


LINKED = """
a: &a {x: 1, y: [1, {z: 2}]}
? b
: &b [*a, {<<: *a, x: 3, "<<": 4}]
c: {<<: [*a, {w: 1}], x: 2, <: 1}
d:
- *b
- - *a
  - k: |
      text
e: ~
"""


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ((), (2, 1), (2, 1)),
        (("b",), (4, 3), (3, 3)),
        (("b", 0), (4, 7), (4, 7)),
        (("b", 0, "y", 1, "z"), (2, 25), (2, 22)),
        (("b", 1, "x"), (4, 23), (4, 20)),
        (("b", 1, "<<"), (4, 32), (4, 26)),
        (("b", 1, "y"), (2, 17), (2, 14)),
        (("c", "<<"), (5, 4), (5, 4)),
        (("c", "x"), (5, 26), (5, 23)),
        (("c", "<"), (5, 32), (5, 29)),
        (("c", "w"), (5, 18), (5, 15)),
        (("d", 0), (7, 3), (7, 3)),
        (("d", 0, 1, "y", 7), (2, 17), (2, 17)),
        (("d", 1, 1, "k", "q"), (9, 8), (9, 8)),
        (("e",), (11, 4), (11, 1)),
    ],
)
def test_place_of_a_value_behind_aliases_and_merges(
    path: tuple[str | int, ...], value: tuple[int, int], key: tuple[int, int]
) -> None:
    document = load(LINKED.encode())
    assert (document.position(path), document.position(path, key=True)) == (value, key)


PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=15,
)


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, item in items for deeper in paths(item, (*path, key)))]


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), PLAIN, min_size=1, max_size=4))
def test_json_places_are_where_values_begin(value: dict[str, object]) -> None:
    text = json.dumps(value, indent=1)
    assume("Infinity" not in text)
    document = load(text.encode())
    assert document.is_json
    assert document.values == value
    lines = text.split("\n")
    for path in paths(value):
        line, column = document.position(path)
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        inner = value
        for step in path:
            inner = inner[step]
        assert json.JSONDecoder().raw_decode(rest)[0] == inner


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), PLAIN, max_size=4).filter(bool))
def test_emitted_documents_are_read_back(value: dict[str, object]) -> None:
    text = yaml_document.block(value)
    document = yaml_document.parse(text.encode())
    assert document.values == value
    assert yaml_document.block(document.values) == text


TEXTS = st.text(st.sampled_from('a":,[]{}\\ é\n'), max_size=4)
JSON_VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3)
)


@given(JSON_VALUES, st.sampled_from([None, 1]))
def test_values_and_levels_of_json_are_counted_like_in_a_walk(value: Any, indent: int | None) -> None:
    for text in (json.dumps(value, indent=indent), json.dumps(value, ensure_ascii=False)):
        count = yaml_document.count(value, "")
        depth = levels(value)
        for bounds in ((depth, count), (depth - 1, count), (depth, count - 1)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(limits, "DOCUMENT_DEPTH_MAX", bounds[0])
                patch.setattr(limits, "DOCUMENT_VALUES_MAX", bounds[1])
                if bounds == (depth, count):
                    yaml_document.require_bounded(text.encode(), value, "f")
                elif depth:
                    with pytest.raises(LimitExceeded, match=r"^f: "):
                        yaml_document.require_bounded(text.encode(), value, "f")


def levels(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(levels, inner), default=0)


# -- bounds -------------------------------------------------------------------------------------------------------------


def bomb(levels: int) -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines).encode()


def test_alias_bomb_ends_at_the_bound() -> None:
    error = refusal(bomb(30))
    assert isinstance(error, LimitExceeded)
    assert f"aliases expand to more than {limits.ALIASED_VALUES_MAX} values" in error.message


def test_merge_bomb_ends_at_the_bound() -> None:
    lines = ["a0: &a0 {x: [1, 2, 3, 4, 5, 6, 7, 8, 9]}"]
    lines += [f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 20)}], k{i}: *a{i - 1}}}" for i in range(1, 30)]
    assert isinstance(refusal("\n".join(lines).encode()), LimitExceeded)


@pytest.mark.parametrize(
    "text", [b"[" * 100_000, b"- " * 1000, b"a: " + b"{a: " * 300, b"[" * 300 + b"]" * 300, b'{"a":' * 300 + b"1" + b"}" * 300]
)
def test_depth_is_bounded(text: bytes) -> None:
    error = refusal(text)
    assert isinstance(error, LimitExceeded)
    assert f"{limits.DOCUMENT_DEPTH_MAX} levels" in error.message


def test_depth_through_aliases_is_bounded() -> None:
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 300))]
    assert f"{limits.DOCUMENT_DEPTH_MAX} levels" in refusal("\n".join(lines).encode()).message


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for bound, source in [
        ("DOCUMENT_BYTES_MAX", b"a: 1234567890"),
        ("YAML_BYTES_MAX", b"a: 1234567890"),
        ("DOCUMENT_VALUES_MAX", b"a: [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]"),
        ("DOCUMENT_VALUES_MAX", b'{"a": [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]}'),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(limits, bound, 10)
            assert isinstance(refusal(source), LimitExceeded), bound


def test_a_number_of_many_digits_is_refused_and_not_converted() -> None:
    assert "digits" in refusal(b"a: " + b"9" * 100_000).message


# -- sources ------------------------------------------------------------------------------------------------------------


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    assert "is a directory" in refusal(tmp_path).message
    assert "no such file" in refusal(tmp_path / "x.yaml").message
    assert "no such file" in refusal("nowhere.yaml").message
    assert "is a device" in refusal(Path("/dev/zero")).message
    assert "is not a valid file name" in refusal(Path("a\0b")).message
    assert refusal(Path("x" * 5000)).message.startswith("cannot be read")
    assert "is not a valid file name" in refusal(Path("a\ud800b")).message
    assert "is empty" in refusal("").message


def test_named_pipe_is_read_and_without_a_writer_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        writing = pool.submit(path.write_text, "a: 1\nb: '" + "x" * 200_000 + "'\n")
        values = load(path).values
        writing.result()
    assert isinstance(values, dict)
    assert len(values["b"]) == 200_000
    monkeypatch.setattr(limits, "PIPE_WAIT_S", 0.05)
    assert "no process writes" in refusal(path).message


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1\n")

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Root may read any file, so the system's answer is simulated.
    monkeypatch.setattr("os.open", refuse)
    assert "Permission denied" in refusal(path).message


def test_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"a: [\n")
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert refusal("-").where == "<stdin>:1:4"


def test_messages_have_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\na: 2\n")
    assert refusal(path).where == f"{path}:2:1: a"


# -- anything -----------------------------------------------------------------------------------------------------------

SOUP = st.lists(
    st.sampled_from(
        [
            "a",
            ":",
            " ",
            "\n",
            "- ",
            "? ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "&x ",
            "*x",
            "<<: ",
            "!t ",
            "|",
            ">",
            "'",
            '"',
            "#",
            "\t",
            "---\n",
            "1",
            "~",
            "é",
        ]
    ),
    max_size=30,
).map("".join)


@settings(deadline=None, max_examples=300)
@given(st.one_of(SOUP.map(str.encode), st.binary(max_size=40), st.text(max_size=40).map(str.encode)))
def test_any_bytes_are_a_document_or_a_message(data: bytes) -> None:
    try:
        document = load(data)
    except InputError as error:
        assert error.where.startswith("<text>")  # noqa: PT017  # most examples do not raise
        return
    orjson.dumps(document.values) if document.is_json else document.position(())


@settings(deadline=None, max_examples=200)
@given(SOUP)
def test_each_value_has_a_place_in_the_text(text: str) -> None:
    try:
        document = load(text.encode())
    except InputError:
        return
    lines = text.split("\n")
    for path in paths(document.values):
        line, column = document.position(path)
        assert 1 <= line <= len(lines) + 1
        assert 1 <= column <= max(map(len, lines)) + 1


@settings(deadline=None, max_examples=300)
@given(SOUP)
def test_reader_agrees_with_the_python_parser(text: str) -> None:
    """LibYAML and PyYAML's own parser give the same events, and the composer the same values."""
    try:
        fast = load(text.encode()).values
    except InputError:
        return
    composer = yaml_document._Composer("<text>", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "LOADER", yaml.SafeLoader)
        try:
            slow = composer.compose()
        except InputError:
            return  # the two refuse different texts, but read the same values
    assert fast == slow


def test_json_may_contain_a_delete_character_and_yaml_may_not() -> None:
    assert yaml_document.load(b'{"a": "\x7f"}').values == {"a": "\x7f"}
    with pytest.raises(InputError, match=r"1:5: control characters are not allowed"):
        yaml_document.load(b'a: "\x7f"\n')
