"""Which libhwloc is taken, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fluxres.hwloc import _library, _prototypes
from fluxres.hwloc._library import VARIABLE, candidates, library

_ASK = "import fluxres.hwloc, fluxres.hwloc._library as it; print(it.library().path)"


def _asked(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if key != VARIABLE}
    return subprocess.run([sys.executable, "-c", code], env=known | environment, capture_output=True, text=True, check=False)


def test_the_variable_names_a_file_or_its_folder(tmp_path: Path) -> None:
    real = Path(library().path)
    if not real.is_absolute():
        pytest.skip("the library was found by its name")
    assert _asked(_ASK, **{VARIABLE: str(real)}).stdout.strip() == str(real)
    (tmp_path / "libhwloc.so.15").symlink_to(real)
    assert _asked(_ASK, **{VARIABLE: str(tmp_path)}).stdout.strip() == str(tmp_path / "libhwloc.so.15")


@pytest.mark.parametrize("what", ["missing", "text", "other"])
def test_without_a_library_the_way_out_is_said(tmp_path: Path, what: str) -> None:
    file = tmp_path / "libhwloc.so.15"
    if what == "text":
        file.write_text("no library")
    elif what == "other":
        # Any library that has nothing of hwloc.
        import _ctypes

        file.symlink_to(_ctypes.__file__)
    import_only = _asked("import fluxres.hwloc", **{VARIABLE: str(file)})
    assert import_only.returncode == 0
    code = (
        "from fluxres.hwloc import Topology\n"
        "from fluxres.errors import FluxresError\n"
        "try: Topology()\n"
        "except FluxresError as error: print(error)"
    )
    done = _asked(code, **{VARIABLE: str(file)})
    assert done.stdout.startswith(f"{VARIABLE}: requires libhwloc 2.1 or newer")
    assert str(file) in done.stdout
    assert "pip install 'fluxres[hwloc]'" in done.stdout


def test_the_environment_comes_before_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libhwloc.so.15").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert candidates()[0] == str(tmp_path / "lib" / "libhwloc.so.15")


def test_every_function_that_is_called_is_there() -> None:
    for name in _prototypes.FUNCTIONS:
        assert getattr(_library.C, name).argtypes is not None
    assert set(_prototypes.FUNCTIONS) >= _prototypes.LONG


def test_functions_of_newer_releases_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_prototypes.FUNCTIONS, "of_tomorrow", (None, []))
    with pytest.raises(NotImplementedError, match="has no function hwloc_of_tomorrow; it requires a newer release"):
        _library.C.of_tomorrow()
    with pytest.raises(AttributeError):
        _ = _library.C.nothing
