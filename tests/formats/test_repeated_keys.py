"""Duplicate keys in a JSON mapping: the last one counts, whatever the first value is."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluxres.errors import FluxresError
from fluxres.formats import registry
from fluxres.formats.format import Loaded
from fluxres.graph.compare import equal
from tests.formats.round_trip import ORIGIN
from tests.fuzz.formats import CORPUS, readable, samples


def documents(name: str) -> list[Any]:
    """The samples of a format that are JSON."""
    found = []
    for text in samples(name):
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


JSON = {name: found for name in sorted(known.name for known in readable()) if (found := documents(name))}


def read(name: str, text: str) -> Loaded | str:
    try:
        return registry.read(text.encode(), format=name, file="f", origin=ORIGIN)
    except FluxresError as error:
        return error.message


def mappings(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] * (isinstance(value, dict) and bool(value)) + [found for each in inner for found in mappings(each)]


def repeated(value: Any, twice: dict[str, Any], key: str, first: Any) -> str:
    """A document as JSON in which one of its mappings has a key twice."""
    if isinstance(value, list):
        return f"[{', '.join(repeated(each, twice, key, first) for each in value)}]"
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = []
    for name, each in value.items():
        pairs += [f"{json.dumps(name)}: {json.dumps(first)}"] * (value is twice and name == key)
        pairs.append(f"{json.dumps(name)}: {repeated(each, twice, key, first)}")
    return f"{{{', '.join(pairs)}}}"


def test_samples_exist() -> None:
    assert JSON.keys() >= {"jgf", "R", "treepool", "node-link", "canary", "ctest", "jqm", "hyperqueue", "slurm-json"}, CORPUS


@pytest.mark.parametrize("name", JSON)
@settings(max_examples=40, deadline=None)
@given(random=st.randoms(use_true_random=False), other=st.sampled_from([None, 0, "x", [], {}, {"a": {"b": 1}}]))
def test_last_of_two_equal_keys_counts(name: str, random: Random, other: Any) -> None:
    document = random.choice(JSON[name])
    twice = random.choice(mappings(document))
    key = random.choice(list(twice))
    plain = read(name, json.dumps(document))
    for first in (twice[key], other):
        found = read(name, repeated(document, twice, key, first))
        if isinstance(found, str):
            # A typed decoder checks the first value too, before the second one replaces it.
            assert found == plain or first is other
        else:
            assert isinstance(plain, Loaded)
            assert equal(found.structure, plain.structure) == []
            assert found.allocations == plain.allocations
