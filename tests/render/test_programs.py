"""The table of programs that run or wait fits into 80 columns in the usual case."""

from __future__ import annotations

import math

from fluxres.render.programs import ProgramView, lines
from fluxres.render.text import Style

NOW_S = 1_800_000_000.0


def view(job: str, state: str, since_s: float, **more: object) -> ProgramView:
    given = {"user": "ada", "name": None, "place": 0, "until_s": None, "expected_s": None, "hosts": "", "holds": ""}
    given |= {"machine": "ws", "processes": (1, 2, 3), "command": ("python", "train.py"), **more}
    return ProgramView(job=job, state=state, since_s=NOW_S - since_s, **given)


FOUND = [
    view("r1", "running", 4000, until_s=math.inf, hosts="ws", holds="8 cores, 1 gpu"),
    view("r12", "running", 31.4, user="barbara", until_s=NOW_S + 5395.2, hosts="ws", holds="1 core, 1 gpu, 512 MiB"),
    view("r7", "freed", 90000),
    view("r13", "waiting", 59, place=1, expected_s=NOW_S + 5395.2, command=("sh", "-c", "echo $CUDA_VISIBLE_DEVICES >> log")),
    view("r14", "waiting", 0.2, place=2, expected_s=math.inf),
    view("r15", "waiting", 0.2, place=3, expected_s=NOW_S - 1),
]


def test_a_table_of_a_workstation_has_80_columns() -> None:
    assert lines(FOUND, NOW_S) == [
        "JOB  USER     STATE     FOR    LEFT  RESOURCES                COMMAND",
        "r1   ada      running  1h6m  no end  8 cores, 1 gpu           python train.py",
        "r12  barbara  running   31s   1h29m  1 core, 1 gpu, 512 MiB   python train.py",
        "r7   ada      freed    1d1h                                   python train.py",
        "r13  ada      waiting   59s          place 1, start in 1h29m  sh -c 'echo $CUDA_VISIBLE_DEVICES >> log'",
        "r14  ada      waiting    0s          place 2, start unknown   python train.py",
        "r15  ada      waiting    0s          place 3, start now       python train.py",
    ]


def test_hosts_are_shown_if_there_are_several() -> None:
    several = [*FOUND, view("r2", "running", 5, until_s=math.inf, hosts="node[1-2]", holds="2 nodes")]
    assert lines(several, NOW_S)[0].split() == ["JOB", "USER", "STATE", "FOR", "LEFT", "HOSTS", "RESOURCES", "COMMAND"]


def test_where_there_is_less_room_the_command_becomes_narrow_first() -> None:
    wide, narrow = lines(FOUND, NOW_S), lines(FOUND, NOW_S, style=Style(columns=80))
    cut = "r13  ada      waiting   59s          place 1, start in 1h29m  sh -c 'echo $CUDA…"
    assert narrow == [line if len(line) <= 80 else cut for line in wide]
