"""Objects by name and parameters: the same forms and messages for every kind (`registry.py`, `parameters.py`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fluxres import UsageError
from fluxres.instance.policy import POLICIES, policy
from fluxres.simulation.adaptive import speedup
from fluxres.simulation.disturbances import attempts, failures
from fluxres.simulation.energy import node_power, power_cap, power_saving
from fluxres.simulation.prediction.prediction import CORRECTORS, PREDICTORS
from fluxres.simulation.workload import adapted, feedback, reading
from fluxres.simulation.workload.estimates import ESTIMATES
from fluxres.syntax import parameters
from fluxres.syntax.registry import Registry, file_of, placed, split

KINDS: list[Registry[Any]] = [POLICIES, PREDICTORS, CORRECTORS, ESTIMATES, speedup.MODELS, reading.MODELS]
NO_POLICY = "expected a class derived from QueuePolicy, got the class Any"
OWN = """\
from fluxres import QueuePolicy

class Mine(QueuePolicy):
    def __init__(self, depth: int = 1, wait_s: float = 60.0, word: str = "a", is_new: bool = False, share=0.5):
        self.given = depth, wait_s, word, is_new, share

    def schedule(self, queue): ...
    def predict(self, job): ...
    def ended(self, job, ran): ...
    def correct(self, planned, requested, number): ...
    def estimates(self, jobs, drawn): ...
    def of(self, size): ...
    def __iter__(self): return iter(())

class Any:
    def __init__(self, depth: int, **others):
        self.given = depth, others
"""


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.py"
    path.write_text(OWN, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what.replace(" ", "-"))
class TestEveryKind:
    def test_finds_classes_in_files(self, kind: Registry[Any], own: str) -> None:
        made = kind.make(f"{own}:Mine:depth=3,wait=2m,word=b,is-new=true,share=0.25")
        assert made.given == (3, 120.0, "b", True, 0.25)
        assert kind.make(f'{own}:Mine:{{"depth": 3, "word": "c"}}').given == (3, 60.0, "c", False, 0.5)
        assert kind.make({f"{own}:Mine": {"wait_s": 5.0}}).given[1] == 5.0

    def test_suggests_what_is_meant(self, kind: Registry[Any], own: str) -> None:
        known = kind.names()[-1]
        with pytest.raises(UsageError, match=rf"^no {kind.what} '{known}x' \(did you mean {known}\?\)$"):
            kind.make(f"{known}x")
        with pytest.raises(UsageError, match=rf"^no {kind.what} '0' \(choose from {kind.names()[0]}, "):
            kind.make("0")
        with pytest.raises(UsageError, match=rf"{kind.what} .*own.py: no class 'Mne' \(did you mean Mine\?\)"):
            kind.make(f"{own}:Mne")
        with pytest.raises(UsageError, match=rf"{kind.what} .*: no parameter 'dept' \(did you mean depth\?\)"):
            kind.make(f"{own}:Mine:dept=3")

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("depth", "expected name=value, got 'depth'"),
            ("depth=1,depth=2", "depth is given twice"),
            ("depth=1.5", "depth: expected a whole number, got '1.5'"),
            ("depth=inf", "depth: expected a whole number, got 'inf'"),
            ("share=nan", "share: expected a number, got 'nan'"),
            ("wait=soon", "wait: expected a duration, got 'soon'"),
            ("is_new=perhaps", "is_new: expected true or false, got 'perhaps'"),
            ('{"depth": 1', "not a JSON object"),
        ],
    )
    def test_refuses_wrong_parameters(self, kind: Registry[Any], own: str, given: str, message: str) -> None:
        with pytest.raises(UsageError) as caught:
            kind.make(f"{own}:Mine:{given}")
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{kind.what} ")

    def test_says_which_method_is_missing(self, kind: Registry[Any], own: str) -> None:
        with pytest.raises(UsageError, match=rf"{kind.what} .*: (the class Any does not define|{NO_POLICY})"):
            kind.make(f"{own}:Any:depth=1")
        with pytest.raises(UsageError, match="expected depth as well" if kind.base is None else NO_POLICY):
            kind.make(f"{own}:Any")

    def test_names_a_file_that_cannot_be_used(self, kind: Registry[Any], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=rf"^{kind.what} .*none.py: cannot be read: no such file or directory$"):
            kind.make(f"{tmp_path}/none.py:Mine")
        (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
        with pytest.raises(UsageError, match="cannot be imported: ZeroDivisionError"):
            kind.make(f"{tmp_path}/broken.py:Mine")
        (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
        with pytest.raises(UsageError, match="cannot be imported: SystemExit: 3"):
            kind.make(f"{tmp_path}/leaves.py:Mine")

    def test_says_what_a_file_has_in_place_of_a_class(self, kind: Registry[Any], tmp_path: Path) -> None:
        path = tmp_path / "mine.py"
        path.write_text("x = 5\nclass Other: pass\n", encoding="utf-8")
        with pytest.raises(
            UsageError, match=rf"^{kind.what} .*mine.py:x: expected a class.*, got 5 \(it has (Other|no {kind.what})\)$"
        ):
            kind.make(f"{path}:x")
        for name in (str(path), f"{path}:", f"{path}:5"):
            with pytest.raises(
                UsageError, match=rf"^{kind.what} .*mine.py: expected a file and a class of it \(such as .*mine.py:Mine"
            ):
                kind.make(name)

    def test_refuses_a_key_of_json_that_is_given_twice(self, kind: Registry[Any], own: str) -> None:
        with pytest.raises(UsageError, match=rf"^{kind.what} .*: depth is given twice$"):
            kind.make(f'{own}:Mine:{{"depth": 1, "depth": 2}}')

    def test_a_mapping_has_one_name(self, kind: Registry[Any]) -> None:
        with pytest.raises(UsageError, match="expected a mapping with one name"):
            kind.make({"a": None, "b": None})
        with pytest.raises(UsageError, match="expected parameters by name, got 3"):
            kind.make({kind.names()[0]: 3})


OPTIONS: dict[str, Callable[[str], Any]] = {
    "checkpoint": attempts.parse,
    "failures": failures.parse,
    "energy": node_power.parse,
    "power saving": power_saving.parse,
    "adaptive": lambda text: adapted.parse(f"moldable:{text}", "linear"),
    "feedback": lambda text: feedback.require_kind(f"sessions:{text}"),
    "workload model lublin": lambda text: reading.read(f"lublin:{text}"),
    "queue policy easy": lambda text: policy(f"easy:{text}"),
    "power cap": power_cap.parse,
}


@pytest.mark.parametrize("where", OPTIONS)
def test_every_option_reads_pairs_in_one_way(where: str) -> None:
    read = OPTIONS[where]
    with pytest.raises(UsageError, match=rf"^{where}: expected name=value, got 'x'"):
        read("a=1,x")
    with pytest.raises(UsageError, match=rf"^{where}: a is given twice$"):
        read("a=1, a=2")
    if where != "power cap":  # there, times are the names
        with pytest.raises(UsageError, match=rf"^{where}[a-z ]*: no parameter 'zzz' \(it has .*\)$"):
            read("zzz=1")


def test_what_takes_any_name_gets_numbers_and_text(own: str) -> None:
    kind: Registry[Any] = Registry("thing", {}, "fluxres.no_such_group")
    assert kind.make(f"{own}:Any:depth=2,more=0.5,word=b").given == (2, {"more": 0.5, "word": "b"})


def test_large_numbers_stay_exact() -> None:
    assert parameters.number("123456789012345678") == 123456789012345678
    assert parameters.number("1e3") == 1000
    with pytest.raises(ValueError, match="1e999"):
        parameters.number("1e999")


def test_files_are_relative_to_a_folder(tmp_path: Path) -> None:
    assert split("a/b.py:C:d=1") == ("a/b.py:C", "d=1")
    assert placed("b.py:C:d=1", tmp_path) == f"{tmp_path.resolve()}/b.py:C:d=1"
    assert placed("average:last=5", tmp_path) == "average:last=5"
    assert (file_of("b.py:C", tmp_path), file_of("easy", tmp_path)) == (tmp_path / "b.py", None)
