"""Damage bytes and documents: a byte, a line, a value at a time, preferably with values that parsers fail on."""

from __future__ import annotations

import re
from random import Random

#: common typing errors, and values that parsers are known to fail on
ODD = [
    *(b"", b"0", b"-1", b"1", b"2", b"64", b"1e3", b"0x7f", b"9223372036854775808", b"4611686018427387903", b"1e309"),
    *(b".nan", b"-.inf", b"null", b"~", b"true", b"[]", b"{}", b"''", b"'x'", b'"\\ud800"', b'"\\0"', b"&a", b"*a"),
    *(b"<<: *a", b"!!python/x", b"---\n", b"\t", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xed\xa0\x80"),
    *(b"[0-3]", b"[0-999999999]", b"*", b"/", b"power:/", b"${id}", b"${rack}", b"${id:099999}", b"$", b"count: 3"),
    *(b"id: 0-3", b"use: node", b"hierarchy: true", b"direction: both", b"pairing: cross", b"size: 0", b"uuid: x"),
    *(b"way: true", b"names: 'a[1-3]'", b"hosts: 'a[1-3]'", b"root: {type: node}", b"include: [a.yaml]", b"state: down"),
    *(b"tags: {a: b}", b"properties: [a]", b"exclusive: true", b"rank: 3", b"capacity: 4", b"end: 1", b"pools: []"),
    *(b"allocations: []", b"reservations: []"),
]  # fmt: skip
_WORD = re.compile(rb"[\w.$/\[\]*-]+")
_NUMBER = re.compile(rb"\d+")
_LARGEST = 1 << 16


def mutated(data: bytes, random: Random) -> bytes:
    """The text after one to six changes."""
    for _ in range(random.choice((1, 1, 1, 2, 3, 6))):
        data = random.choice((_flip, _cut, _repeat, _move, _insert, _word, _number, _line, _truncate))(data, random)
    return data[:_LARGEST]


def damaged(data: bytes, random: Random) -> bytes:
    """A binary file after a few flipped bits, blocks of nothing, or an end that comes too early."""
    content = bytearray(data)
    how = random.randrange(4)
    if how == 0:
        return bytes(content[: random.randrange(len(content) + 1)])
    if how == 1:
        at = random.randrange(len(content))
        content[at : at + random.choice((1, 16, 512, 4096))] = bytes(random.choice((1, 16, 512, 4096)))
        return bytes(content)
    for _ in range(random.choice((1, 1, 2, 8, 64))):
        # The first pages contain the schema and the small tables, through which everything else is found.
        at = random.randrange(min(len(content), random.choice((100, 4096, 8192, len(content)))))
        content[at] = random.randrange(256) if how == 2 else content[at] ^ 1 << random.randrange(8)
    return bytes(content)


def _span(data: bytes, random: Random) -> tuple[int, int]:
    at = random.randrange(len(data) + 1)
    return at, min(len(data), at + random.choice((1, 1, 2, 8, 40, 200)))


def _flip(data: bytes, random: Random) -> bytes:
    at, _ = _span(data, random)
    return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]


def _cut(data: bytes, random: Random) -> bytes:
    at, stop = _span(data, random)
    return data[:at] + data[stop:]


def _repeat(data: bytes, random: Random) -> bytes:
    at, stop = _span(data, random)
    return data[:at] + data[at:stop] * random.choice((2, 2, 3, 300)) + data[stop:]


def _move(data: bytes, random: Random) -> bytes:
    at, stop = _span(data, random)
    to, _ = _span(data, random)
    return data[:to] + data[at:stop] + data[to:]


def _insert(data: bytes, random: Random) -> bytes:
    at, _ = _span(data, random)
    return data[:at] + random.choice(ODD) + data[at:]


def _word(data: bytes, random: Random) -> bytes:
    """One word in place of another, or of something odd."""
    words = list(_WORD.finditer(data))
    if not words:
        return data
    found, other = random.choice(words), random.choice(words)
    new: bytes = random.choice((other[0], random.choice(ODD)))
    return data[: found.start()] + new + data[found.end() :]


def _number(data: bytes, random: Random) -> bytes:
    numbers = list(_NUMBER.finditer(data))
    if not numbers:
        return data
    found = random.choice(numbers)
    new = random.choice((random.randrange(100), 10 ** random.randrange(25), int(found[0][:20]) + random.choice((-1, 1)), -1))
    return data[: found.start()] + b"%d" % new + data[found.end() :]


def _line(data: bytes, random: Random) -> bytes:
    lines = data.split(b"\n")
    at = random.randrange(len(lines))
    if random.random() < 0.5:
        lines.insert(random.randrange(len(lines) + 1), lines[at])
    elif random.random() < 0.5:
        del lines[at]
    else:
        lines[at] = b" " * random.randrange(6) + lines[at].lstrip()
    return b"\n".join(lines)


def _truncate(data: bytes, random: Random) -> bytes:
    return data[: random.randrange(len(data) + 1)] if random.random() < 0.3 else data
