"""Where libhwloc is searched, and the errors if it is missing or too old."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fluxres.hwloc import _library, _prototypes
from fluxres.hwloc._library import VARIABLE, candidates, library

_PRINT_PATH = "import fluxres.hwloc, fluxres.hwloc._library as it; print(it.library().path)"


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    known = {key: value for key, value in os.environ.items() if key != VARIABLE}
    return subprocess.run([sys.executable, "-c", code], env=known | environment, capture_output=True, text=True, check=False)


def test_variable_is_the_path_of_the_library_or_its_directory(tmp_path: Path) -> None:
    real = Path(library().path)
    if not real.is_absolute():
        pytest.skip("the system loader found the library, so its path is unknown")
    assert _run(_PRINT_PATH, **{VARIABLE: str(real)}).stdout.strip() == str(real)
    (tmp_path / "libhwloc.so.15").symlink_to(real)
    assert _run(_PRINT_PATH, **{VARIABLE: str(tmp_path)}).stdout.strip() == str(tmp_path / "libhwloc.so.15")


@pytest.mark.parametrize("file_is", ["missing", "not a library", "another library"])
def test_unusable_library_is_an_error_with_a_hint(tmp_path: Path, file_is: str) -> None:
    file = tmp_path / "libhwloc.so.15"
    if file_is == "not a library":
        file.write_text("not a library")
    elif file_is == "another library":
        # Any library without the functions of hwloc.
        import _ctypes

        file.symlink_to(_ctypes.__file__)
    import_only = _run("import fluxres.hwloc", **{VARIABLE: str(file)})
    assert import_only.returncode == 0
    code = (
        "from fluxres.hwloc import Topology\n"
        "from fluxres.errors import FluxresError\n"
        "try: Topology()\n"
        "except FluxresError as error: print(error)"
    )
    done = _run(code, **{VARIABLE: str(file)})
    assert done.stdout.startswith(f"{VARIABLE}: requires libhwloc 2.1 or newer")
    assert str(file) in done.stdout
    assert "pip install tcmlib" in done.stdout


def test_python_environment_is_searched_before_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libhwloc.so.15").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert candidates()[0] == str(tmp_path / "lib" / "libhwloc.so.15")


def test_every_declared_function_exists() -> None:
    for name in _prototypes.FUNCTIONS:
        assert getattr(_library.C, name).argtypes is not None
    assert set(_prototypes.FUNCTIONS) >= _prototypes.LONG


def test_error_for_a_function_of_a_newer_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_prototypes.FUNCTIONS, "of_tomorrow", (None, []))
    with pytest.raises(NotImplementedError, match="has no function hwloc_of_tomorrow; it requires a newer release"):
        _library.C.of_tomorrow()
    with pytest.raises(AttributeError):
        _ = _library.C.nothing
