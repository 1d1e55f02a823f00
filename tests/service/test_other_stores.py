"""The suites of the newest routes, with servers on PostgreSQL and on etcd instead of files.

pytest tests/service/test_shape.py tests/service/test_instances.py tests/service/test_remote_child.py --service-store etcd
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.servers import etcd_program, has_postgresql
from tests.traceability import ROOT

SUITES = ("shape", "instances", "remote_child", "api")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgresql", "etcd"])
def test_suites_agree_on_stores_of_other_kinds(kind: str, tmp_path: Path) -> None:
    if kind == "etcd":
        etcd_program("etcd")
    elif not has_postgresql():
        pytest.skip("there is no PostgreSQL here")
    files = [f"tests/service/test_{suite}.py" for suite in SUITES]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", f"--basetemp={tmp_path / 'tests'}", f"--service-store={kind}"]
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stdout[-10_000:]
