"""fluxres as an operator installs it, in a root of its own: an overlay over this system, which goes with the test.

The steps of the container file make it. A systemd of its own runs the unit in it, in namespaces.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from tests.forks import IMPORTED
from tests.traceability import ROOT

FILES: Final = ROOT / "data" / "service"
_PLACE: Final = "/opt/fluxres"
_MOUNT: Final = """\
set -eu
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --bind /dev "$1/root/dev"
mkdir -p "$1/root/shared"
mount --bind "$1/shared" "$1/root/shared"
root="$1/root"; shift
"""


@dataclass(frozen=True, slots=True)
class Containerfile:
    """The instructions of a container file.

    Attributes:
        steps: instructions and their arguments, in order.
    """

    steps: list[tuple[str, str]]

    @classmethod
    def read(cls) -> Containerfile:
        text = (FILES / "Containerfile").read_text(encoding="utf-8")
        text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ")
        return cls([(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines()) if word])

    def of(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.steps if word == instruction]


@dataclass(frozen=True, slots=True)
class Installed:
    """A root in which fluxres is installed in /opt/fluxres.

    Args:
        folder: with the parts of the overlay, and `shared`, which is /shared inside.
    """

    folder: Path

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    def run(self, script: str, *, timeout_s: float = 300.0, apart: str = "") -> subprocess.CompletedProcess[str]:
        """Run a shell script as root within.

        Args:
            apart: options of unshare(1) for further namespaces.
        """
        enter = f'{_MOUNT}exec unshare {apart} chroot "$root" /bin/bash -euc "$1"'
        return self._apart(enter, script, timeout_s=timeout_s)

    def boot(self, script: str, *, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        """Boot a systemd, run a shell script as a unit of it, and shut down; its output is in `shared/output`."""
        units = self.folder / "upper" / "etc" / "systemd" / "system"
        units.mkdir(parents=True, exist_ok=True)
        (self.shared / "script").write_text(script, encoding="utf-8")
        (units / "drill.service").write_text(_DRILL, encoding="utf-8")
        (units / "drill.target").write_text(_TARGET, encoding="utf-8")
        words = "--quiet --register=no --keep-unit --private-network --machine=fluxres-drill"
        enter = f'{_MOUNT}umount "$root/proc" "$root/dev" "$root/shared"\nexport SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1\n'
        enter += f'exec systemd-nspawn {words} --directory="$root" --bind="$1:/shared" --boot systemd.unit=drill.target'
        return self._apart(enter, str(self.shared), timeout_s=timeout_s)

    def _apart(self, script: str, *given: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Run a script in a mount namespace of its own, which ends with it."""
        command = ["unshare", "--mount", "--propagation", "private", "--fork", "--pid", "--mount-proc", "--kill-child"]
        command += ["/bin/bash", "-c", script, "bash", str(self.folder), *given]
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "FLUXRES", "VIRTUAL_ENV"))
        }
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=environment,
        )


_DRILL: Final = """\
[Unit]
After=basic.target
SuccessAction=exit
FailureAction=exit
[Service]
Type=oneshot
Environment=HOME=/root
ExecStart=/bin/bash -eux /shared/script
StandardOutput=file:/shared/output
StandardError=file:/shared/errors
"""
_TARGET: Final = """\
[Unit]
Requires=basic.target drill.service dbus.socket
After=basic.target
AllowIsolate=yes
"""


def require_root() -> None:
    """Skip a test where no root of its own can be made."""
    if os.geteuid() != 0:
        pytest.skip("a root of its own needs root")
    missing = [name for name in ("unshare", "chroot", "useradd") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {', '.join(missing)} here")
    said = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"],
        capture_output=True,
        check=False,
    )
    if said.returncode:
        pytest.skip("/usr/bin/python3 is older than 3.11, or has no venv: a service sees no Python of a home directory")


def require_systemd() -> None:
    """Skip a test where no systemd can be booted."""
    missing = [name for name in ("systemd-nspawn", "systemctl", "curl") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {', '.join(missing)} here: install the packages systemd-container and curl")


def install(folder: Path) -> Installed:
    """Do the steps of the container file in a root of its own, with the Python of this system."""
    for name in ("upper", "work", "root", "shared"):
        (folder / name).mkdir()
    made = Installed(folder)
    probe = made.run("true")
    if probe.returncode:
        pytest.skip(f"no overlay can be mounted here: {probe.stderr.strip()}")
    file = Containerfile.read()
    for sources, target in (_copied(one) for one in file.of("COPY")):
        _copy(sources, folder / "upper" / target.lstrip("/"))
    steps = [re.sub(r"--mount=\S+", "", step) for step in file.of("RUN")]
    script = "\n".join(
        [
            f"rm -rf {_PLACE}",
            *_venv(),
            # Of thousands of modules, a service imports hundreds. For pip, a 0 stands for the option that says no.
            f"export PATH={_PLACE}/bin:$PATH PIP_NO_COMPILE=0",
            *steps,
            f"python -c 'import {', '.join(IMPORTED)}'",
            "rm -rf /src /wheels",
        ]
    )
    done = made.run(script, timeout_s=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def _venv() -> list[str]:
    """Steps to a venv with the pip of these tests, which is newer than that of the system and several times as fast."""
    found = find_spec("pip")
    if found is None or not found.submodule_search_locations:
        return [f"/usr/bin/python3 -m venv {_PLACE}"]
    pip = shlex.quote(f"{found.submodule_search_locations[0]}/__pip-runner__.py")  # without what is installed beside it
    program = f"{_PLACE}/bin/pip"
    return [
        f"/usr/bin/python3 -m venv --without-pip {_PLACE}",
        f"printf '#!/bin/sh\\nexec {_PLACE}/bin/python %s \"$@\"\\n' {pip} > {program}",
        f"chmod +x {program}",
    ]


def _copied(step: str) -> tuple[list[str], str]:
    *sources, target = shlex.split(step)
    return sources, target


def _copy(sources: list[str], target: Path) -> None:
    for source in sources:
        found = ROOT / source
        if found.is_dir():
            shutil.copytree(found, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, target)
