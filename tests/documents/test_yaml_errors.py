"""What the parsers of YAML say, in words, with the place of the cause."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from fluxres import limits
from fluxres.documents import places, yaml_document
from fluxres.errors import InputError

LOADERS = {"libyaml": places.LOADER, "python": yaml.SafeLoader}
#: text: place, part of the message, part of the hint
CASES: dict[str, tuple[str, str, str]] = {
    "a:\n  - b: 1\n   c: 2\n": ("3:4", "indented by 3 spaces", "after 4 spaces"),
    "a:\n  - b: 1\n      c: 2\n": ("3:7", "indented by 6 spaces", "after 4 spaces"),
    "a:\n    b: 1\n  c: 2\n": ("3:3", "indented by 2 spaces", "after 4 spaces"),
    " a: 1\nb: 2\n": ("2:1", "not indented like the first one", "after 1 space"),
    "a:\n    - b\n  - c\n": ("3:3", "this '-' is indented by 2 spaces", "begins after 4 spaces"),
    "a:\n  b: 1\n  - c\n": ("3:3", "a list entry among the keys", "below a key of its own"),
    "a:\n  - b\n  c: 1\n": ("3:3", "a key among the entries of a list", "begin it with '- '"),
    "a: b: c\n": ("1:5", "a second ': ' in the value of 'a'", '"b: c"'),
    "a:\n  count:4\n  b: 1\n": ("2:8", "no blank after the ':' of 'count'", "'count: 4'"),
    "a:\n  b: 1\n  count:4\n": ("3:8", "no blank after the ':' of 'count'", "'count: 4'"),
    "a:\n  count 4\n  b: 1\n": ("2:3", "'count 4' has no ':'", "key: value"),
    "a: 1\nb\n": ("2:1", "'b' has no ':'", "key: value"),
    "a: - b\n": ("1:4", "a list entry after a key", "[a, b]"),
    "a:\n\tb: 1\n": ("2:1", "a tab", "spaces"),
    "a:\n  b: 1\n\tc: 2\n": ("3:1", "a tab", "spaces"),
    "a: |\n\tb\n": ("2:1", "a tab", "spaces"),
    "a: @x\n": ("1:4", "cannot begin with '@'", '"@x"'),
    "a: `x`\n": ("1:4", "cannot begin with '`'", "quotes"),
    "a: {b: 1, c: 2\nd: 3\n": ("1:4", "this '{' is not closed before line 2", "'}'"),
    "a: [b, c\nd: 3\n": ("1:4", "this '[' is not closed before line 2", "']'"),
    "a: {b: 1\n": ("1:4", "this '{' is never closed", "'}'"),
    "a: {b: 1]\n": ("1:9", "']' where '}' has to close the '{' in line 1, column 4", "'}'"),
    "a: [b]]\n": ("1:7", "a ']' that closes nothing", "remove it"),
    "a: {b: 1 c: 2}\n": ("1:10", "no ',' before 'c'", "','"),
    "a: [{b: 1} {c: 2}]\n": ("1:12", "no ',' before '{c: 2}]'", "','"),
    "a: [n[1-4]]\n": ("1:6", "brackets within a word", '"n[1-4]"'),
    "a: [b,,c]\n": ("1:7", "a ',' with nothing before it", "remove it"),
    'a: "b\nc: 1\n': ("1:4", 'this " is never closed', "same quote"),
    "a: 'b\nc: 1\n": ("1:4", "this ' is never closed", "same quote"),
    'a: "b\nc: "d"\n': ("1:4", 'this " is closed only in line 2', "closing quote"),
    'a: "b" c\n': ("1:8", "'c' after the closing quote", "whole value"),
    'a: "\\q"\n': ("1:5", "\\q is no escape sequence", "\\\\"),
    "a: *\n": ("1:4", "'*' begins an alias", "quotes"),
    "a: */x\n": ("1:4", "'*' begins an alias", '"*/x"'),
    "a: !<x\n": ("1:4", "'!' begins a tag", "quotes"),
    "a: | x\n  x\n": ("1:4", "'|' begins a text of several lines", "quotes"),
    "%b: 2\n": ("1:1", "'%' is a directive", "quotes"),
    "a: 1\n...\nb: 2\n": ("3:1", "the document has ended", "one document"),
    "a: ? b\n": ("1:4", "'? ' begins a key", "quotes"),
}


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize("text", CASES)
def test_the_cause_is_named_where_it_is(text: str, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOADER", LOADERS[loader])
    where, message, hint = CASES[text]
    with pytest.raises(InputError) as caught:
        yaml_document.load(text.encode())
    error = caught.value
    assert error.where.removeprefix("<text>:").partition(": ")[0] == where
    assert message in error.message
    assert hint in error.hint


def test_a_message_that_is_not_known_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Loader(yaml.SafeLoader):
        def get_event(self) -> Any:
            raise yaml.MarkedYAMLError(None, None, "is odd", None)

    monkeypatch.setattr(places, "LOADER", Loader)
    with pytest.raises(InputError, match=r"^<text>:1:1: is odd$"):
        yaml_document.load(b"a: 1\n")


def test_duplicate_keys_are_listed_with_what_follows() -> None:
    with pytest.raises(InputError) as caught:
        yaml_document.load(b"a: 1\na: 2\nb: 1\nb: 2\nc: [\n")
    assert [mistake.where for mistake in caught.value.mistakes] == ["<text>:2:1: a", "<text>:4:1: b", "<text>:5:4"]


def test_very_many_duplicate_keys_are_counted_in_bounded_time() -> None:
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        yaml_document.load(b"a: 1\n" * 50_000)
    assert (len(caught.value.mistakes), caught.value.unlisted) == (limits.MISTAKES_MAX, 49_999 - limits.MISTAKES_MAX)
    assert time.process_time() - began < 10
