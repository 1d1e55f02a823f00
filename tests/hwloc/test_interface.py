"""The public interface is that of pyhwloc 3: names, parameters, and the values of enumerations.

`interface.json` was read from that package; it leaves out what requires libhwloc 3.
"""

from __future__ import annotations

import enum
import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

EXPECTED: dict[str, Any] = json.loads((Path(__file__).parent / "interface.json").read_text())


def _parameters(function: Any) -> str:
    shown, starred = [], False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        shown.append(f"{mark}{parameter.name}{'=' if parameter.default is not parameter.empty else ''}")
    return f"({', '.join(shown)})"


def _shown(owner: type, name: str) -> str:
    found = inspect.getattr_static(owner, name)
    if isinstance(found, property):
        return "property"
    if isinstance(found, classmethod):
        return f"classmethod {_parameters(found.__func__)}"
    return _parameters(found) if inspect.isfunction(found) else type(found).__name__


@pytest.mark.parametrize("key", EXPECTED, ids=lambda key: f"pyhwloc.{key.removeprefix('.')}")
def test_interface_matches_pyhwloc(key: str) -> None:
    module, _, name = key.partition(".")
    found = getattr(import_module(f"fluxres.hwloc.{module}".rstrip(".")), name)
    expected = EXPECTED[key]
    if isinstance(expected, list):
        assert sorted(found.__members__) == expected
    elif inspect.isclass(found) and issubclass(found, enum.Enum):
        assert {member: value.value for member, value in found.__members__.items()} == expected
    elif isinstance(expected, dict):
        assert {member: _shown(found, member) for member in expected} == expected
    elif expected.startswith("("):
        assert _parameters(found) == expected
    else:
        assert isinstance(found, str)


def test_errors_types_and_version_in_core_and_lib() -> None:
    from fluxres.hwloc import _enums, _library
    from fluxres.hwloc.hwloc import core, lib

    assert core.HwLocError is lib.HwLocError is _library.HwLocError
    assert issubclass(lib.HwLocError, RuntimeError)
    assert core.ObjType is _enums.ObjType
    assert core.get_api_version() == lib.get_api_version() >= (2, 1, 0)
    assert Path(lib.libinfo()["hwloc"]).name.startswith("libhwloc")
    error = lib.HwLocError(-1, 18, b"why")
    assert (error.status, error.errno, error.msg, str(error)) == (-1, 18, "why", "status: -1, errno: 18, error: why")
