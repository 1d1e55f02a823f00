"""A campaign of requests that are no proper HTTP, or nearly.

    python -m tests.service.malformed --requests 5000 [--seed 1]

Proper requests are damaged at random, or in ways in which servers are attacked. Each must be refused, or its connection closed;
afterwards the server answers as before, and its log has no traceback.
"""

from __future__ import annotations

import argparse
import re
import socket
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

from fluxres.service.client.addresses import address
from tests.crash.campaign import address as new_store
from tests.service.campaign import prepare
from tests.service.conftest import running

_TO: Final = b"HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
_JSON: Final = b"Content-Type: application/json\r\n"
_BODY: Final = b'{"wanted":"slot=1/core","job":"j9"}'
_PROPER: Final = [
    b"GET /v1/graphs/demo/pools?criteria=type%3Dnode " + _TO + b"\r\n",
    b"GET /v1/graphs/demo/instance/jobs?instance=main " + _TO + b"Accept: */*\r\n\r\n",
    b"POST /v1/graphs/demo/why " + _TO + _JSON + b"Content-Length: 35\r\n\r\n" + _BODY,
    b"POST /v1/graphs/demo/allocate " + _TO + _JSON + b"Idempotency-Key: k\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n23\r\n" + _BODY + b"\r\n0\r\n\r\n",
    b"POST /v1/graphs/demo/merge?at=/demo " + _TO + b"Content-Length: 35\r\n\r\n" + _BODY,
    b"DELETE /v1/graphs/none " + _TO + b"If-Match: *\r\n\r\n",
]
_QUIET_S: Final = 0.1
Damage = Callable[[bytes, Random], bytes]


def _at(text: bytes, random: Random) -> int:
    return random.randrange(len(text) + 1)


def _insert(text: bytes, random: Random) -> bytes:
    at = _at(text, random)
    return text[:at] + random.randbytes(random.choice((1, 3, 40))) + text[at:]


def _cut(text: bytes, random: Random) -> bytes:
    begin = _at(text, random)
    return text[:begin] + text[begin + random.choice((1, 2, 20)) :]


def _twice(text: bytes, random: Random) -> bytes:
    begin, end = sorted((_at(text, random), _at(text, random)))
    return text[:end] + text[begin:]


def _end(text: bytes, random: Random) -> bytes:
    return text[: _at(text, random)]


def _flip(text: bytes, random: Random) -> bytes:
    changed = bytearray(text)
    for _ in range(random.randint(1, 5)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _header(line: bytes) -> Damage:
    return lambda text, _random: text.replace(b"\r\n", b"\r\n" + line + b"\r\n", 1)


def _word(old: bytes, *new: bytes) -> Damage:
    return lambda text, random: text.replace(old, random.choice(new), 1)


DAMAGES: Final[list[Damage]] = [
    *([_insert, _cut, _twice, _end, _flip] * 3),
    _header(b"Host: elsewhere.example"),
    _header(b"Content-Length: -1"),
    _header(b"Content-Length: 99999999999999999999"),
    _header(b"Content-Length: 3\r\nContent-Length: 4"),
    _header(b"Content-Length: 4\r\nTransfer-Encoding: chunked"),
    _header(b"Transfer-Encoding: gzip, chunked"),
    _header(b"X: " + b"x" * 100_000),
    _header(b"\r\n".join(b"X%d: y" % number for number in range(2_000))),
    _header(b"No colon at all"),
    _header(b" folded: value"),
    _header(b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: eHg=\r\nSec-WebSocket-Version: 13"),
    _header(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__"),
    _header(b"Expect: 100-continue"),
    _header(b"Authorization: Bearer \xff\xfe\x00"),
    _header(b"Authorization: Basic " + b"=" * 5_000),
    _header(b'If-Match: "\x80\x81"'),
    _header(b"Idempotency-Key: " + b"k" * 10_000),
    _header(b"Last-Event-ID: 1e999"),
    _word(b"HTTP/1.1", b"HTTP/9.9", b"HTTP/0.9", b"http/1.1", b"HTTP/1.0", b"", b"HTTP/1.1 extra"),
    _word(b"/v1/", b"http://elsewhere.example/v1/", b"//v1/", b"/../../etc/", b"/%00/", b"/" + b"a" * 100_000, b"*", b"\\v1\\"),
    _word(b"demo", b"%ff%fe", b"%", b"%zz", "graph\u00e9".encode(), b"..", b"%2e%2e%2f", b"", b"a" * 5_000),
    _word(b"Host: 127.0.0.1\r\n", b"", b"Host:\r\n", b"Host: [::1\r\n", b"Host: 127.0.0.1\nX: y\r\n", b"Host : 127.0.0.1\r\n"),
    _word(b"\r\n\r\n", b"\n\n", b"\r\r", b"\r\n"),
    _word(b"23\r\n", b"-1\r\n", b"ffffffffffffffffffff\r\n", b"23;" + b"x" * 20_000 + b"\r\n", b"0x23\r\n", b"zz\r\n"),
    _word(b"application/json", b"text/plain", b"application/json; charset=utf-16", b"multipart/form-data", b"\xff", b"/"),
    lambda text, _random: text * 50,
    lambda _text, random: random.randbytes(random.randrange(1, 500)),
    lambda _text, _random: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),  # the beginning of TLS
    lambda _text, _random: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


def damaged(random: Random) -> bytes:
    text = random.choice(_PROPER)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        text = random.choice(DAMAGES)(text, random) or b"\r\n"
    return text


def answers(url: str, sent: bytes) -> list[int]:
    """The status of each answer on one connection, until the server closes it or says no more."""
    at, received = address(url), b""
    with socket.create_connection((at.host, at.port), timeout=_QUIET_S) as opened, suppress(ConnectionError):
        with suppress(OSError):  # it may be refused before all of it is sent
            opened.sendall(sent)
        for end in (False, True):  # it waits for more of some requests: those end here
            with suppress(TimeoutError):
                while part := opened.recv(1 << 16):
                    received += part
                break
            if end:
                raise TimeoutError
            opened.settimeout(30)
            opened.shutdown(socket.SHUT_WR)
    return [int(found) for found in re.findall(rb"(?:^|\r\n|[}\]])HTTP/1\.[01] (\d{3}) ", received)]


def campaign(url: str, requests: int, random: Random) -> tuple[Counter[int], list[str]]:
    """Send damaged requests; returns how often there was which status, 0 being none, and problems."""
    statuses, found = Counter[int](), list[str]()
    for number in range(requests):
        if number % 500 == 0:
            prepare(url)  # also a damaged request may be one that is made
        sent = damaged(random)
        try:
            said = answers(url, sent)
        except TimeoutError:
            found.append(f"no answer and no end of the connection: {sent!r:.300}")
            continue
        statuses.update(said or [0])
        found += [f"status {status}: {sent!r:.300}" for status in said if status >= 500 and status != 503]
    prepare(url)  # proper requests are answered as before
    return statuses, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with new_store("sqlite") as store, running(store) as server:
        statuses, found = campaign(server.url, given.requests, Random(given.seed))
        _, errors = server.stop()
    found += [errors] * ("Traceback" in errors)
    print(f"{given.requests} damaged requests; status {dict(sorted(statuses.items()))} (0: none), {len(found)} problems")
    print(*found[:30], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
