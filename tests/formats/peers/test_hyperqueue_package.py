"""The real HyperQueue, from the package registry, beside a graph: tasks see the same variables on the same pools."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fluxres.formats import registry
from fluxres.formats.peers import requests as peer_requests
from fluxres.formats.peers.hyperqueue import request as hyperqueue_request
from fluxres.formats.peers.hyperqueue.environment import environment
from fluxres.model import ResourceGraph

VERSION = "0.27.0"
"""Its wheel has a server and workers as a library, which runs them in this process; there is no `hq` in it."""

DRIVER = """
import json
import sys
from pathlib import Path

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
from hyperqueue.ffi.protocol import ResourceRequest

PROGRAM = '''
import json, os, sys, time
from pathlib import Path
found = {key: value for key, value in os.environ.items() if key.startswith(("HQ_", "OMP_", "CUDA_", "ROCR_"))}
Path(sys.argv[1] + ".part").write_text(json.dumps(found))
os.rename(sys.argv[1] + ".part", sys.argv[1])
while len(sys.argv) > 2 and not Path(sys.argv[2]).exists():
    time.sleep(0.05)
'''


def main(folder: Path, tasks: list[dict]) -> None:
    last = folder / f"{len(tasks) - 1}.json"
    with LocalCluster(worker_config=WorkerConfig(cores=4)) as cluster:
        client = cluster.client()
        open_jobs = []
        for number, task in enumerate(tasks):
            job, mine = Job(), folder / f"{number}.json"
            variants = [ResourceRequest(cpus=each.pop("cpus", 1), resources=each) for each in task["request"]]
            words = [sys.executable, "-c", PROGRAM, str(mine), *([str(last)] if task.get("hold") else [])]
            job.program(words, resources=variants, cwd=str(folder))
            submitted = client.submit(job)
            if not task.get("hold"):
                client.wait_for_jobs([submitted])
                continue
            open_jobs.append(submitted)
            while not mine.exists():
                pass
        client.wait_for_jobs(open_jobs)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
"""

TASKS: list[dict[str, Any]] = [
    {"request": [{"cpus": "2"}]},
    {"request": [{"cpus": "3 compact!"}]},
    {"request": [{"cpus": "8"}, {"cpus": "all"}]},
    {"request": [{"cpus": 0.5}], "hold": True},
    {"request": [{"cpus": "1.25 tight"}], "hold": True},
    {"request": [{"cpus": 0.25}], "hold": True},
    {"request": [{"cpus": "1 scatter"}]},
]


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter with the package hyperqueue."""
    place = tmp_path / "hyperqueue"
    made = subprocess.run([sys.executable, "-m", "venv", str(place)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"needs a virtual environment for hyperqueue {VERSION}: {made.stderr.strip()[-200:]}")
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "-q", f"hyperqueue=={VERSION}"]
    got = subprocess.run(pip, capture_output=True, text=True, check=False)
    if got.returncode:
        pytest.skip(f"needs hyperqueue {VERSION} from the package registry: {got.stderr.strip()[-200:]}")
    return place / "bin" / "python"


@pytest.mark.slow
def test_tasks_of_hyperqueue_and_of_a_graph_see_the_same_variables(python: Path, tmp_path: Path) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    (tmp_path / "out").mkdir()
    command = [str(python), str(driver), str(tmp_path / "out"), json.dumps(TASKS)]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=tmp_path)
    graph = ResourceGraph(registry.read(b"cpus=range(0-3)\n", fractions=True).structure)
    for number, task in enumerate(TASKS):
        variants = [
            hyperqueue_request.variant(hyperqueue_request.of_value(name, value) for name, value in each.items())
            for each in task["request"]
        ]
        request = peer_requests.hyperqueue(variants)
        ours = environment(request, graph.allocate(request, job=str(number)), policy=True)
        if not task.get("hold"):
            graph.free(str(number))
        theirs = json.loads((tmp_path / "out" / f"{number}.json").read_text(encoding="utf-8"))
        about = (
            "HQ_ACCESS_KEY",
            "HQ_SUBMIT_DIR",
            "HQ_JOB_ID",
            "HQ_TASK_ID",
            "HQ_INSTANCE_ID",
        )  # of the job, not of its resources
        assert {key: value for key, value in theirs.items() if key not in about} == ours, task
