"""The machine itself as the source of commands: what they print, and where."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fluxres.formats.machine import this_machine
from tests.cli.conftest import Invoke

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the machine has no /proc")


def test_load_says_what_was_seen_on_standard_error(fluxres: Invoke) -> None:
    done = fluxres("load", "this-machine", "--json")
    assert done.stderr.splitlines() == [f"fluxres: {line}" for line in (*this_machine().seen, *this_machine().notes)]
    assert json.loads(done.stdout)["graph"] == this_machine().name
    assert {each["type"] for each in json.loads(done.stdout)["types"]} >= {"cluster", "node", "socket", "core"}


def test_loading_it_again_changes_nothing(fluxres: Invoke) -> None:
    fluxres("load", "this-machine")
    assert json.loads(fluxres("load", "this-machine", "--json").stdout)["unchanged"] is True


def test_name_of_the_cluster(fluxres: Invoke) -> None:
    fluxres("load", "this-machine", "--cluster", "lab")
    assert fluxres("find", "type=node", "-o", "paths").stdout == f"/lab/{this_machine().name}\n"


def test_convert_keeps_standard_output_for_the_file(fluxres: Invoke) -> None:
    done = fluxres("convert", "this-machine:detect=cpus", "-", "--to", "cluster")
    assert done.stdout.startswith("fluxres: 1\n")
    assert done.stderr.startswith("fluxres: this-machine: CPUs ")


def test_merge_and_diff(fluxres: Invoke) -> None:
    fluxres("load", "this-machine:detect=cpus")
    assert fluxres("diff", "this-machine:detect=cpus").stderr.startswith("fluxres: this-machine: CPUs ")
    Path("other.yaml").write_text(
        "fluxres: 1\nname: cluster\nroot: {type: cluster, name: cluster, with: [{type: node, name: other}]}\n"
    )
    fluxres("load", "other.yaml", "--name", "both", "--use")
    fluxres("merge", "this-machine:detect=cpus")
    assert sorted(fluxres("find", "type=node", "-o", "paths").stdout.split()) == sorted(
        ["/cluster/other", f"/cluster/{this_machine().name}"]
    )


def test_variables_of_the_shell_count(fluxres: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.path.exists("/proc/driver/nvidia"):
        pytest.skip("this machine has a driver of NVIDIA, which the variable is about")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    told = "fluxres: CUDA_VISIBLE_DEVICES=0 is ignored, since there is no driver of NVIDIA (/proc/driver/nvidia)\n"
    assert told in fluxres("load", "this-machine").stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["this-machine:cores"], "this-machine: unknown option 'cores' (such as this-machine:detect=cpus,gpus/nvidia)"),
        (["this-machine:detect=core"], "this-machine:detect: unknown part 'core' (known: cpus, mem, gpus"),
        (["this-machine", "--keep", "core"], "format 'this-machine' has no option 'keep' (it has cluster)"),
        (["this-machine", "--cluster", "a/b"], "expected a name for the cluster, got 'a/b' (a name has no '/')"),
        (["hyperqueue:detect=gpu"], "hyperqueue:detect: unknown part 'gpu' (known: cpus, mem, gpus/nvidia, gpus/amd, all)"),
    ],
)
def test_what_cannot_be_detected_is_refused(fluxres: Invoke, words: list[str], message: str) -> None:
    done = fluxres("load", *words, status=2)
    assert f"fluxres: ERROR {message}" in done.stderr
