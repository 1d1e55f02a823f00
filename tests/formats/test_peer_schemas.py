"""The JSON Schemas of HyperQueue, canary, CTest and JQM: stored in specs, and satisfied by what we write and by the samples."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import jsonschema
import pytest

from fluxres.documents.source import Source
from fluxres.formats import registry
from tests.traceability import ROOT

MODULES = {"hyperqueue": "read", "canary": "resource_pool", "ctest": "resource_spec", "jqm": "resource_managers"}
NAMES = list(MODULES)
SCHEMAS = ROOT / "specs" / "schemas"


def schema(name: str) -> dict[str, Any]:
    made: dict[str, Any] = import_module(f"fluxres.formats.peers.{name}.{MODULES[name]}").json_schema()
    return made


@pytest.mark.parametrize("name", NAMES)
def test_schema_in_specs_equals_that_of_the_code(name: str) -> None:
    path = SCHEMAS / f"{name}.schema.json"
    text = json.dumps(schema(name), indent=2) + "\n"
    assert path.read_text(encoding="utf-8") == text, f"write the schema of the format {name} to {path.name}"


@pytest.mark.parametrize("name", NAMES)
def test_written_files_satisfy_the_schemas(name: str) -> None:
    options = {"json": True} if name == "hyperqueue" else {}
    for path in (ROOT / "data" / "fuzz" / name).iterdir():
        structure = registry.read(path).structure
        jsonschema.validate(json.loads(registry.write(structure, format=name, **options).data), schema(name))


@pytest.mark.parametrize("name", ["hyperqueue", "canary", "jqm"])
def test_samples_satisfy_the_schemas(name: str) -> None:
    for path in (ROOT / "data" / "fuzz" / name).glob("*.[jy]*"):
        jsonschema.validate(Source.open(path).document.values, schema(name))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("hyperqueue", {"resources": [{"name": "a", "kind": "heap"}]}),
        ("canary", {"resource_pool": {"cpus": -1}}),
        ("ctest", {"version": {"major": 1, "minor": 0}, "local": [{"GPUS": []}]}),
        ("ctest", {"version": {"major": 1, "minor": 1}, "local": []}),
        ("jqm", {"managers": [{"type": "quantity"}]}),
    ],
)
def test_schemas_refuse_invalid_files(name: str, values: Any) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(values, schema(name))
