"""Find the keys at the beginning of a file, before any parser has seen it.

Formats are distinguished by their keys and not by words, since a word may occur in any value. The text may be cut anywhere, so
this scanner accepts everything; it is the reader of the detected format that refuses bad input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

_DEPTH: Final = 6
_TOKEN = re.compile(
    r"""
    "(?:[^"\\]|\\.)*+"? | '(?:[^']|'')*+'?     # quoted text, which may be cut at the end of the head
    | [{}\[\],:]
    | [^\s{}\[\],"':][^\n{}\[\],:]*(?::(?![\s"'{\[])[^\n{}\[\],:]*)*      # YAML's plain words may have colons in them
    """,
    re.VERBOSE,
)
_BLOCK_KEY = re.compile(
    r"""
    ([ ]*+)((?:-[ ]++)*+)
    (?:"((?:[^"\\]|\\.)*+)"[ \t]*+ | '((?:[^']|'')*+)'[ \t]*+ | ([^\s"'#{}\[\],&*!|>%@`:][^:\n]*+))
    :(?:[ \t]++(.*+))?$
    """,
    re.VERBOSE,
)
#: an item of a list in flow style
_FLOW_ITEM = re.compile(r"([ ]*+)((?:-[ ]++)++)([{\[].*+)$")
#: what may precede a document: empty lines, comments, directives, the document start marker
_BEFORE = re.compile(r"(?:\s++|\#[^\n]*+|%[^\n]*+|---(?=\s))*+")
#: a TOML table or INI section, and a key with a value, each on its own line
_TABLE = re.compile(r"\[{1,2}[ \t]*[\w.\-\"' ]+\]{1,2}[ \t]*(?:#.*)?")
_SETTING = re.compile(r"[\w.\-\"']+[ \t]*=[ \t]*\S.*")
_XML_ROOT = re.compile(rb"(?:\s++|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*+(?:\[.*?\])?\s*+>)*+<([\w.:-]+)", re.DOTALL)


@lru_cache(maxsize=4)
def keys(head: bytes) -> frozenset[str]:
    """The keys in the first part of a YAML or JSON text, as paths with ``[]`` for any item of a list.

    Args:
        head: the first bytes of a text, which may be cut anywhere.

    Cost: O(length), a few milliseconds for 64 KiB; the last few results are cached.

    >>> sorted(keys(b'{"graph": {"nodes": [{"id": "0", "meta'))
    ['graph', 'graph.nodes', 'graph.nodes[].id']
    >>> sorted(keys(b"fluxres: 1\\nresources:\\n  - type: node\\n"))
    ['fluxres', 'resources', 'resources[].type']
    """
    text = head.decode("utf-8-sig", "replace")
    start = text[_BEFORE.match(text).end() :]  # type: ignore[union-attr]  # it also matches the empty string
    if start.startswith(("{", "[")):
        return frozenset(_flow(start, ""))
    return frozenset(_block(text)) if not start.startswith("<") else frozenset()


def _flow(text: str, path: str) -> Iterator[str]:
    """Keys of JSON, or of YAML's flow style."""
    above: list[tuple[str, bool]] = []
    is_map = False
    word: str | None = None
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            above.append((path, is_map))
            if len(above) > _DEPTH:
                is_map, word = token == "{", None
                continue
            path += f".{word}" if is_map and word is not None and path else word if is_map and word is not None else ""
            is_map, word = token == "{", None
            path += "" if is_map else "[]"
        elif token in "}]":
            if not above:
                return
            path, is_map = above.pop()
            word = None
        elif token == ",":
            word = None
        elif token == ":":
            if is_map and word is not None and len(above) <= _DEPTH:
                yield f"{path}.{word}" if path else word
        elif word is None or not is_map:
            word = token.strip("\"' \t\r")


def _block(text: str) -> Iterator[str]:
    """Keys of YAML's block style, and of flow style within a line."""
    above: list[tuple[int, str]] = []
    for line in text.split("\n"):
        key_line = _BLOCK_KEY.match(line.rstrip("\r"))
        match = key_line or _FLOW_ITEM.match(line)
        if match is None:
            continue
        indent, dashes = len(match[1]), match[2].count("-")
        column = indent + len(match[2])
        # A list may have the same indentation as the key it belongs to, so a dash does not close that key.
        while above and above[-1][0] >= (indent + 1 if dashes else column):
            above.pop()
        if dashes:
            above.append((indent + 1, (above[-1][1] if above else "") + "[]" * dashes))
        if key_line is None:
            yield from _flow(match[3], above[-1][1])
            continue
        key = next(part for part in match.group(3, 4, 5) if part is not None).rstrip()
        path = f"{above[-1][1]}.{key}" if above else key
        if len(above) > _DEPTH:
            continue
        yield path
        above.append((column, path))
        if match[6] and match[6][0] in "{[":
            yield from _flow(match[6], path)


def is_toml(text: str) -> bool:
    """Whether a text looks like TOML or INI: tables in brackets, then settings.

    >>> is_toml("# a\\n[project]\\nname = 'x'\\n"), is_toml("[a]"), is_toml("a: 1")
    (True, False, False)
    """
    lines = [line for line in map(str.strip, text.split("\n")) if line and not line.startswith(("#", ";"))]
    if not lines or not (_TABLE.fullmatch(lines[0]) or _SETTING.fullmatch(lines[0])):
        return False
    return any(map(_TABLE.fullmatch, lines)) and any(map(_SETTING.fullmatch, lines))


def xml_root(head: bytes) -> str:
    """The name of the first element of an XML text, without its namespace; empty for other texts.

    >>> xml_root(b"<?xml version='1.0'?><!-- x --><g:graphml>"), xml_root(b"a < b")
    ('graphml', '')
    """
    found = _XML_ROOT.match(head.removeprefix(b"\xef\xbb\xbf"))
    return found[1].decode("utf-8", "replace").rpartition(":")[2] if found else ""
