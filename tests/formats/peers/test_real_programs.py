"""The real ctest and the real canary inside an allocation, and canary's own checkouts beside ours.

ctest is that of the system; canary is installed from PyPI into an environment of its own.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
from pathlib import Path
from shutil import which
from typing import Any

import pytest

import fluxres
from fluxres.errors import InfeasibleRequest, InsufficientResources
from fluxres.formats.peers.canary.allocator import checkin, free_slots
from fluxres.formats.peers.canary.environment import checked_out, pool_file
from fluxres.formats.peers.ctest.environment import spec_file, with_spec_file
from fluxres.model import ResourceGraph
from fluxres.syntax.jobspec import Request
from tests.launch.runs import workstation

needs_ctest = pytest.mark.skipif(not (which("ctest") and which("cmake")), reason="needs ctest and cmake (apt-get install cmake)")

_CHECK = """
import fcntl, os, pathlib, sys, time
locks, allowed = pathlib.Path(sys.argv[1]), sys.argv[2].split(",")
count = int(os.environ["CTEST_RESOURCE_GROUP_COUNT"])
held = []
for number in range(count):
    for word in filter(None, os.environ[f"CTEST_RESOURCE_GROUP_{number}"].split(",")):
        for entry in os.environ[f"CTEST_RESOURCE_GROUP_{number}_{word.upper()}"].split(";"):
            name, slots = entry.removeprefix("id:").split(",slots:")
            if f"{word}{name}" not in allowed:
                sys.exit(f"{word}{name} is not of this allocation")
            for slot in range(int(slots)):  # as many locks as slots: one more holder finds none
                for at in range(2):
                    file = open(locks / f"{word}{name}.{at}", "w")
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        held.append(file)
                        break
                    except BlockingIOError:
                        file.close()
                else:
                    sys.exit(f"{word}{name} is held more often than it has slots")
time.sleep(0.05)
(locks / f"done{os.getpid()}").write_text(str(len(held)))
"""


@needs_ctest
def test_ctest_shares_a_machine_with_others(tmp_path: Path) -> None:
    graph = fluxres.load("canary:gpus=4 cpus=8 slots_per_gpu=2")
    graph.allocate([("/cluster/node0/gpu0", 2), ("/cluster/node0/gpu1", 1)], job="others")
    held = graph.allocate("slot=1/[gpu=4;core=2]", job="tests")
    (tmp_path / "spec.json").write_text(spec_file(held))
    (tmp_path / "check.py").write_text(_CHECK)
    (tmp_path / "locks").mkdir()
    allowed = "gpus1,gpus2,gpus3,cpus0,cpus1"
    tests = "\n".join(
        f"add_test(NAME t{n} COMMAND {sys.executable} ${{CMAKE_SOURCE_DIR}}/check.py {tmp_path}/locks {allowed})\n"
        f'set_tests_properties(t{n} PROPERTIES RESOURCE_GROUPS "{groups}")'
        for n, groups in enumerate(["gpus:1", "gpus:2", "2,gpus:1", "gpus:1,cpus:1", "2,cpus:1;gpus:2"] * 3)
    )
    text = f"cmake_minimum_required(VERSION 3.18)\nproject(held NONE)\nenable_testing()\n{tests}\n"
    (tmp_path / "CMakeLists.txt").write_text(text)
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build"], check=True, capture_output=True)
    command = with_spec_file(["ctest", "-j8", "--output-on-failure"], str(tmp_path / "spec.json"))
    ran = subprocess.run(command, cwd=tmp_path / "build", capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert "100% tests passed, 0 tests failed out of 15" in ran.stdout
    assert len(list((tmp_path / "locks").glob("done*"))) == 15
    graph.free("tests")
    assert not graph.check()


@needs_ctest
def test_ctest_does_not_run_what_the_allocation_never_has(tmp_path: Path) -> None:
    graph = fluxres.load("canary:gpus=4 cpus=8 slots_per_gpu=2")
    held = graph.allocate("slot=1/[gpu=2;core=1]", job="tests")
    (tmp_path / "spec.json").write_text(spec_file(held))
    text = """
        cmake_minimum_required(VERSION 3.18)
        project(held NONE)
        enable_testing()
        add_test(NAME large COMMAND true)
        set_tests_properties(large PROPERTIES RESOURCE_GROUPS "gpus:3")
    """
    (tmp_path / "CMakeLists.txt").write_text(textwrap.dedent(text))
    subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "build"], check=True, capture_output=True)
    command = with_spec_file(["ctest"], str(tmp_path / "spec.json"))
    ran = subprocess.run(command, cwd=tmp_path / "build", capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "Not Run" in ran.stdout
    with pytest.raises(InfeasibleRequest):
        graph.copy(job="tests").allocate(Request.parse("gpus:3", format="ctest"), job="t")


# -- canary ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def canary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of an environment with canary."""
    folder = tmp_path_factory.mktemp("canary")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    made = subprocess.run([folder / "bin/pip", "install", "-q", "canary-wm"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"canary-wm cannot be installed from the package registry: {made.stderr.strip()[-200:]}")
    return folder / "bin"


_TEST = """
import os, pathlib, sys, time
import canary
canary.directives.parameterize("gpus,cpus,n", [(1, 1, k) for k in range(5)] + [(2, 1, 9)])
def test():
    ids = os.environ["CANARY_GPU_IDS"].split(",")
    for each in ids:
        os.mkdir(f"{FOLDER}/gpu{each}")  # fails if another test has it
    time.sleep(0.05)
    with open(f"{FOLDER}/out", "a") as out:
        print(os.environ["CANARY_GPU_IDS"], os.environ["CANARY_CPU_IDS"], file=out)
    for each in ids:
        os.rmdir(f"{FOLDER}/gpu{each}")
if __name__ == "__main__":
    sys.exit(test())
"""


@pytest.mark.slow
def test_canary_runs_its_tests_in_an_allocation(canary: Path, tmp_path: Path) -> None:
    graph = fluxres.load("canary:gpus=4 cpus=8")
    graph.allocate("slot=1/[gpu=2;core=2]", job="others")
    held = graph.allocate("slot=1/[gpu=2;core=3]", job="tests")
    (tmp_path / "pool.json").write_text(pool_file(held))
    (tmp_path / "gpu.pyt").write_text(f"FOLDER = {str(tmp_path)!r}\n{_TEST}")
    command = [canary / "canary", "--resource-pool-file", "pool.json", "run", "."]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
    assert len(lines) == 6
    assert {name for gpus, _ in lines for name in gpus.split(",")} == {"2", "3"}
    assert {cpu for _, cpu in lines} <= {"2", "3", "4"}


@pytest.mark.slow
def test_canary_shares_a_machine_by_run(canary: Path, tmp_path: Path) -> None:
    place = workstation(tmp_path)
    try:
        place.program("-g1", "-c2")
        (tmp_path / "gpu.pyt").write_text(f"FOLDER = {str(tmp_path)!r}\n{_TEST.replace(' + [(2, 1, 9)]', '')}")
        place.command("run", "-g1", "-c3", "--no-bind", "--canary", "--", str(canary / "canary"), "run", ".")
    finally:
        place.end()
    lines = [line.split() for line in (tmp_path / "out").read_text().splitlines()]
    assert [gpus for gpus, _ in lines] == ["1"] * 5
    assert {cpu for _, cpu in lines} <= {"2", "3", "4"}


_THEIRS = """
import json, sys
from _canary.resource_pool.rpool import NodeRequest, ResourcePool, ResourceUnavailable
answers = []
for pool, steps in json.load(sys.stdin):
    made, out, found = ResourcePool(pool), {}, []
    for name, wanted in steps:
        if wanted is None:
            if name in out:
                made.checkin(out.pop(name))
            found.append(None)
            continue
        requests = []
        for each in wanted:
            request = NodeRequest()
            request.resources, request.exclusive = each["items"], each["exclusive"]
            requests.append(request)
        try:
            out[name] = made.checkout(requests)
            listed = out[name]["resources"]
            found.append({word: [[one["node"], one["id"], one["slots"]] for one in some] for word, some in listed.items()})
        except ResourceUnavailable:
            found.append("refused")
    answers.append(found)
json.dump(answers, sys.stdout)
"""


def campaign(seed: int, number: int) -> list[tuple[dict[str, Any], list[tuple[str, Any]]]]:
    """Pools, and checkouts and checkins on each, at random."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        types = [("cpus", draw.randint(1, 4)), ("gpus", draw.randint(1, 3))]
        nodes = [
            {
                "id": f"n{at}",
                "resources": {word: [{"id": str(i), "slots": draw.randint(1, 4)} for i in range(count)] for word, count in types},
            }
            for at in range(draw.randint(1, 3))
        ]
        steps: list[tuple[str, Any]] = []
        for at in range(14):
            if draw.random() < 0.35 and at:
                steps.append((f"t{draw.randrange(at)}", None))
                continue
            wanted = [
                {
                    "items": [
                        {"type": draw.choice(["cpus", "gpus"]), "slots": draw.randint(1, 3)} for _ in range(draw.randint(1, 3))
                    ],
                    "exclusive": draw.random() < 0.15,
                }
                for _ in range(1 if draw.random() < 0.7 else 2)
            ]
            steps.append((f"t{at}", wanted))
        found.append(({"allow_multinode": True, "nodes": nodes}, steps))
    return found


@pytest.mark.slow
def test_checkouts_are_those_of_canary(canary: Path, tmp_path: Path) -> None:
    cases = campaign(7, 150)
    script = tmp_path / "theirs.py"
    script.write_text(_THEIRS)
    ran = subprocess.run([canary / "python", script], input=json.dumps(cases), capture_output=True, text=True, check=True)
    theirs = json.loads(ran.stdout)
    for (pool, steps), expected in zip(cases, theirs, strict=True):
        graph = fluxres.load(json.dumps(pool).encode())
        out: dict[str, dict[str, list[Any]]] = {}
        for (name, wanted), answer in zip(steps, expected, strict=True):
            assert ours(graph, out, name, wanted) == answer, (pool, steps, name, free_slots(graph))
        assert not graph.check()


def ours(graph: ResourceGraph, out: dict[str, dict[str, list[Any]]], name: str, wanted: Any) -> Any:
    if wanted is None:
        if name in out:
            checkin(graph, out.pop(name), name)
        return None
    request = Request.parse(json.dumps(wanted), format="canary")
    try:
        out[name] = checked_out(request, graph.allocate(request, job=name))
    except (InsufficientResources, InfeasibleRequest):
        return "refused"
    return {word: [[each["node"], each["id"], each["slots"]] for each in some] for word, some in out[name].items()}
