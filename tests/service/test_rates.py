"""Requests a second of a token."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from random import Random

import pytest

import fluxres
from fluxres.clock import stopwatch
from fluxres.errors import InputError, RateExceeded
from fluxres.service.access import Access, Caller, Role
from fluxres.service.rates import Rates
from tests.service.conftest import demo_store, running
from tests.service.test_api import send


class Moving:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize("rate", [0.5, 1, 3, 40])
def test_a_token_gets_its_rate_and_no_more(rate: float) -> None:
    """At most the rate over any time, and a second's worth at once; who waits as told is admitted; others do not count."""
    random, clock = Random(4), Moving()
    rates, caller = Rates(clock), Caller("slow", Role.SCHEDULER, rate=rate)
    admitted: list[float] = []
    for _ in range(400):
        clock.now_s += random.choice((0, 0, 0.01, 0.3 / rate, 2 / rate))
        rates.admit(Caller("fast", Role.SCHEDULER))
        try:
            rates.admit(caller)
        except RateExceeded as error:  # whole seconds, at least one
            if random.random() < 0.2:
                clock.now_s += error.retry_after_s
                rates.admit(caller)
                admitted.append(clock.now_s)
        else:
            admitted.append(clock.now_s)
    for i, first in enumerate(admitted):
        for j in range(i, len(admitted)):
            assert j - i + 1 <= max(rate, 1) + (admitted[j] - first) * rate + 1e-6
    assert len(admitted) >= 0.5 * rate * (clock.now_s - 100)


def test_a_server_refuses_more_with_429(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(
        '[tokens.slow]\nrole = "admin"\ntoken = "slow-0123456789abcdef"\nrate = 0.01\n'
        '[tokens.fast]\nrole = "admin"\ntoken = "fast-0123456789abcdef"\n'
    )
    with running(demo_store(tmp_path), "--tokens", str(tokens)) as server:
        body = {"wanted": "slot/core", "job": "a"}
        slow, fast = ({"authorization": f"Bearer {name}-0123456789abcdef"} for name in ("slow", "fast"))
        assert send(server, "POST", "/v1/graphs/demo/allocate", body, headers=slow)[0] == 200
        status, problem, headers = send(server, "POST", "/v1/graphs/demo/free", {"job": "a"}, headers=slow)
        assert (status, problem["error"]) == (429, "rate")
        assert problem["message"] == "token 'slow' may send 0.01 requests a second"
        assert 90 <= int(headers["retry-after"]) <= 100
        assert send(server, "GET", "/health")[0] == 200
        assert send(server, "POST", "/v1/graphs/demo/free", {"job": "a"}, headers=fast)[0] == 200


def test_a_client_waits_for_the_rate_of_its_token_within_its_time(tmp_path: Path) -> None:
    token, tokens = "slow-0123456789abcdef", tmp_path / "tokens.toml"
    tokens.write_text(f'[tokens.slow]\nrole = "admin"\ntoken = "{token}"\nrate = 1\n')
    with running(demo_store(tmp_path), "--tokens", str(tokens)) as server:
        with fluxres.connect(server.url, token=token, timeout_s=5.0) as graph:
            assert [len(graph.find("type=node")) for _ in range(2)] == [8, 8]

        async def asynchronously() -> int:
            async with fluxres.aconnect(server.url, token=token, timeout_s=5.0) as found:
                return len(await found.find("type=node"))

        assert asyncio.run(asynchronously()) == 8
        with pytest.raises(RateExceeded), fluxres.connect(server.url, graph="demo", token=token, timeout_s=0.1) as hasty:
            hasty.find("type=node")


def test_a_stream_waits_for_the_rate_of_its_token_within_its_time(tmp_path: Path) -> None:
    """It is asked for as any other request is."""
    token, tokens = "slow-0123456789abcdef", tmp_path / "tokens.toml"
    tokens.write_text(f'[tokens.slow]\nrole = "admin"\ntoken = "{token}"\nrate = 1\n')
    with running(demo_store(tmp_path), "--tokens", str(tokens)) as server:
        with fluxres.connect(server.url, graph="demo", token=token, timeout_s=5.0) as graph:
            graph.find("type=node")
            assert [next(graph.events(after=0))["number"] for _ in range(2)] == [1, 1]

        async def asynchronously() -> list[int]:
            numbers = []
            async with fluxres.aconnect(server.url, graph="demo", token=token, timeout_s=5.0) as found:
                for _ in range(2):
                    async with aclosing(found.events(after=0)) as events:
                        numbers.append(int((await anext(events))["number"]))
            return numbers

        assert asyncio.run(asynchronously()) == [1, 1]


def test_a_stream_does_not_wait_for_longer_than_its_time(tmp_path: Path) -> None:
    names, tokens = ("hasty", "tasks", "until"), tmp_path / "tokens.toml"
    tokens.write_text(
        "".join(f'[tokens.{name}]\nrole = "admin"\ntoken = "{name}-0123456789abcdef"\nrate = 0.01\n' for name in names)
    )
    hasty, tasks, until = (f"{name}-0123456789abcdef" for name in names)
    with running(demo_store(tmp_path), "--tokens", str(tokens)) as server:
        with fluxres.connect(server.url, token=hasty, timeout_s=5.0) as graph, pytest.raises(RateExceeded):
            next(graph.events())

        async def asynchronously() -> None:
            async with fluxres.aconnect(server.url, token=tasks, timeout_s=5.0) as found:
                with pytest.raises(RateExceeded):
                    await anext(found.events())

        asyncio.run(asynchronously())
        with fluxres.connect(server.url, token=until, timeout_s=101.0) as patient:
            begun_s = stopwatch()
            assert list(patient.news(until_s=begun_s + 0.3)) == []
            assert stopwatch() - begun_s < 60


@pytest.mark.parametrize("rate", ["0", "-1", "inf", "nan"])
def test_a_rate_is_above_nothing(tmp_path: Path, rate: str) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(f'[tokens.slow]\nrole = "admin"\ntoken = "slow-0123456789abcdef"\nrate = {rate}\n')
    expected = "expected finite numbers" if rate in ("inf", "nan") else r"4:8: tokens\.slow\.rate: expected a number above 0"
    with pytest.raises(InputError, match=expected):
        Access.open(str(tokens), None, "0.0.0.0")
