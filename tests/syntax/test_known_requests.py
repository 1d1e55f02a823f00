"""Requests with equal content are read once, and different contents are distinguished."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fluxres
from fluxres.errors import InputError
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand
from fluxres.syntax import jobspec as jobspecs
from fluxres.syntax.jobspec import as_request


def jobspec(cores: Any = 2, duration: Any = 60) -> dict[str, Any]:
    slot = {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": cores}]}
    task = {"command": ["app"], "slot": "task", "count": {"per_slot": 1}}
    return {"version": 999, "resources": [slot], "tasks": [task], "attributes": {"system": {"duration": duration}}}


def test_equal_contents_are_one_request() -> None:
    assert as_request(jobspec()) is as_request(copy.deepcopy(jobspec()))
    assert as_request("slot=2/core") is as_request("".join(["slot=", "2/core"]))
    text = "version: 999\n" + "\n".join(f"{key}: {value!r}" for key, value in jobspec().items() if key != "version")
    assert fluxres.Request.parse(text) is fluxres.Request.parse(text.encode())


def test_null_attributes_are_empty_in_every_form_of_a_jobspec() -> None:
    values = jobspec() | {"attributes": None}
    text = json.dumps(values)
    for made in (
        as_request(values),
        as_request(OrderedDict(values)),
        as_request(text),
        fluxres.Request.parse(f"# jobspec\n{text}"),
    ):
        assert made.attributes == {}
        assert made.resources == as_request(jobspec()).resources


def test_different_contents_are_different_requests() -> None:
    assert as_request(jobspec(3)).resources != as_request(jobspec(4)).resources
    assert as_request(jobspec(duration=1.5)).duration_s == 1.5
    assert as_request(jobspec(duration=1)).duration_s == 1
    as_request(jobspec(1))
    with pytest.raises(InputError, match=r"with\[0\].count"):
        as_request(jobspec(True))
    with pytest.raises(InputError, match="duration"):
        as_request(jobspec(duration=float("nan")))


def test_later_changes_by_the_caller_do_not_affect_a_request() -> None:
    values = jobspec()
    first = as_request(values)
    values["resources"][0]["with"][0]["count"] = 5
    values["attributes"]["system"]["duration"] = 7
    assert (as_request(values).duration_s, first.duration_s) == (7, 60)
    assert as_request(jobspec()) is first


def test_values_that_are_not_plain_are_read_each_time() -> None:
    for duration in (np.float64(60), np.float64(61)):
        assert as_request(jobspec(duration=duration)).duration_s == float(duration)
    ordered = OrderedDict(jobspec())
    assert as_request(ordered).duration_s == 60
    with pytest.raises(InputError, match="duration"):
        as_request(jobspec(duration=np.float64(62).tobytes()))


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobspecs, "KEPT", 3)
    kept: dict[str | bytes, Any] = {}
    monkeypatch.setattr(jobspecs, "_known", kept)
    for cores in range(1, 9):
        assert as_request(jobspec(cores)).resources[0].children[0].count.min == cores
    assert len(kept) == 3
    monkeypatch.setattr(jobspecs, "LENGTH_MAX", 10)
    kept.clear()
    assert as_request(jobspec()) is not as_request(jobspec())
    assert as_request("slot=2/[core=1]") is not as_request("slot=2/[core=1]")
    assert not kept


def test_a_changed_file_is_a_different_request(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    for cores in (1, 2, 1):
        file.write_text(str(jobspec(cores)).replace("'", '"'))
        assert fluxres.Request.parse(file).resources[0].children[0].count.min == cores
    file.write_text("{")
    with pytest.raises(InputError, match=r"job\.json"):
        fluxres.Request.parse(file)


def test_json_is_a_request_whatever_it_contains() -> None:
    g = fluxres.ResourceGraph(expand(Recipe("cluster", children=(Recipe("core", count=4),)), origin=uuids.new_origin()))
    text = str(jobspec()).replace("'", '"').replace("app", "https://site/data")
    assert len(g.allocate("\n " + text, job="a")) == 2


def test_text_of_several_lines_is_a_shape_options_or_a_document() -> None:
    assert as_request("slot=2/\n core=3").resources == as_request("slot=2/core=3").resources
    assert as_request("-N2\n-c4").resources == as_request("-N2 -c4").resources
    text = json.dumps(jobspec(), indent=1)
    for written in (text, f"\n# a comment\n---\n{text}", text.replace("{\n", '{\n "version": 1,\n', 1)):
        assert as_request(written) == as_request(jobspec())
    with pytest.raises(
        InputError,
        match=r"<text>:1:1: the keys 'version', .* are missing \(it has cores, nodes: is this another kind of file\?\)",
    ):
        as_request("cores: 4\nnodes: 2\n")
