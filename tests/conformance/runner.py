"""Run the recorded facts of a directory: which cases are tested, which agree, and which are skipped.

A directory may contain cases of unknown forms.  Such a case is *not covered*: it is counted by its form and does not fail.  A
covered case agrees, or differs, or differs in a documented way (`Deviation`).  Any exception of the package on a covered case
other than a `FluxresError` is a difference; an exception of the code in this directory means an unknown form, unless a
module of the package has not what it uses.
"""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import fluxres
from fluxres.errors import FluxresError

Case = dict[str, Any]
FOLDER = Path(__file__).resolve().parent
PACKAGE = Path(fluxres.__file__).resolve().parent
SHOWN = 300
"""Characters of an input or a result in a message."""


class NotCovered(Exception):
    """A case of a form that is not known here, or of a function that does not exist here; the text is the form."""


@dataclass(frozen=True)
class Deviation:
    """Known differences.

    Args:
        where: the page of `specs/` that says so.
        reason: the reason in a few words.
        of: whether a case is one of these.
    """

    where: str
    reason: str
    of: Callable[[Case], bool]


@dataclass(frozen=True)
class Suite:
    """Cases that test the same part of our code.

    Args:
        name: as in the file of minima.
        takes: whether a case is of this suite.
        differs: what differs, a sentence each; raises `NotCovered` for a case that it cannot put.
        deviations: known ones.
    """

    name: str
    takes: Callable[[Case], bool]
    differs: Callable[[Case], Iterable[str]]
    deviations: Sequence[Deviation] = ()


@dataclass
class Tally:
    """The results of the cases of one suite."""

    name: str
    cases: int = 0
    agreeing: int = 0
    differing: list[str] = field(default_factory=list)
    documented: list[str] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    """Cases that are not covered, by form."""

    @property
    def covered(self) -> int:
        """Cases that were tested."""
        return self.agreeing + len(self.differing) + len(self.documented)

    def add(self, case: Case, suite: Suite) -> None:
        """Test one case."""
        self.cases += 1
        try:
            found = list(suite.differs(case))
        except NotCovered as form:
            self.forms[str(form)] += 1
            return
        except FluxresError as error:
            found = [f"refused: {error}"]
        except Exception as error:  # noqa: BLE001 - whatever our code raises is a difference, and ends no run
            if _is_ours(error):
                self.forms[f"{form_of(case)}: {type(error).__name__}: {error}"[:SHOWN]] += 1
                return
            found = [f"crashed with {type(error).__name__}: {error}"]
        if not found:
            self.agreeing += 1
            return
        told = f"{case.get('id', 'a case')}: {'; '.join(found)}"
        known = next((each for each in suite.deviations if _holds(each.of, case)), None)
        if known is None:
            self.differing.append(told)
        else:
            self.documented.append(f"{told} (documented in {known.where}: {known.reason})")

    def pass_over(self, case: Case, form: str | None = None) -> None:
        """Count a case that no suite accepts."""
        self.cases += 1
        self.forms[form_of(case) if form is None else form] += 1

    def plain(self) -> dict[str, Any]:
        """As plain values, for the report of a test."""
        return {
            "name": self.name,
            "cases": self.cases,
            "agreeing": self.agreeing,
            "differing": self.differing,
            "documented": self.documented,
            "forms": dict(self.forms),
        }


def tally(name: str, cases: Iterable[Case], suites: Sequence[Suite]) -> list[Tally]:
    """Run cases: a tally for each suite, and one named `name` for cases that no suite accepts."""
    tallies = {suite.name: Tally(suite.name) for suite in suites}
    rest = Tally(name)
    for case in cases:
        suite = next((suite for suite in suites if _holds(suite.takes, case)), None)
        if suite is None:
            rest.pass_over(case)
        else:
            tallies[suite.name].add(case, suite)
    return [*tallies.values(), *([rest] if rest.cases else [])]


def wrong(tallies: Sequence[Tally], least: Mapping[str, int] | None = None) -> list[str]:
    """Differences, and suites with too few agreeing cases."""
    agreeing = {each.name: each.agreeing for each in tallies}
    return [f"{each.name}: {told}" for each in tallies for told in each.differing] + [
        f"{name}: {agreeing.get(name, 0)} agree, at least {number} must"
        for name, number in (least or {}).items()
        if agreeing.get(name, 0) < number
    ]


def lines(tallies: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The report: a line for each suite, what differs and what is not covered below it, and the sum."""
    total: Counter[str] = Counter()
    for each in tallies:
        known = len(each["differing"]) + len(each["documented"]) + each["agreeing"]
        yield f"{each['name']}: {each['agreeing']} of {known} covered cases agree, {known} of {each['cases']} are covered"
        yield from (f"  differs: {told}" for told in each["differing"])
        yield from (f"  documented: {told}" for told in each["documented"])
        yield from (f"  not covered: {number} × {form}" for form, number in sorted(each["forms"].items()))
        total.update(cases=each["cases"], covered=known, agreeing=each["agreeing"], documented=len(each["documented"]))
    yield (
        f"in all: {total['agreeing']} of {total['covered']} covered cases agree, {total['documented']} differ as documented, "
        f"{total['covered']} of {total['cases']} are covered"
    )


def form_of(case: object) -> str:
    """The form of a case in a few words: kind, operation, and the keys or the type of its input."""
    if not isinstance(case, Mapping):
        return f"a {type(case).__name__}"
    given = case.get("input", case.get("operations"))
    words = [str(case[key]) for key in ("system", "kind") if key in case]
    if "rfc" in case:
        words.insert(0, f"RFC {case['rfc']}")
    if isinstance(given, Mapping):
        words += [str(given["op"])] if "op" in given else []
        words.append("{" + ", ".join(sorted(map(str, given))) + "}")
    elif isinstance(given, list) and given and all(isinstance(each, Mapping) and "op" in each for each in given):
        words.append(", ".join(dict.fromkeys(str(each["op"]) for each in given)))
    elif given is not None:
        words.append(type(given).__name__)
    return " ".join(words)[:SHOWN] or "an empty case"


def load(path: Path) -> list[Case]:
    """The cases of a file. Errors: ValueError for what is no list of cases."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, list):
        raise ValueError(f"{path}: expected a list of cases")
    return found


def differs(expected: Any, got: Any) -> list[str]:
    """A sentence if two values differ."""
    return [] if expected == got else [f"expected {short(expected)}, got {short(got)}"]


def short(value: object) -> str:
    """A value for a message."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _holds(test: Callable[[Case], bool], case: Case) -> bool:
    """Whether a test on the form of a case holds; false if it raises."""
    try:
        return test(case)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return False


def _is_ours(error: Exception) -> bool:
    """Whether the code in this folder raised it, for a form that it does not know, and not the package."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and error.obj.__name__.startswith("fluxres."):
        return False  # the package has changed, and with it these tests must
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        above = Path(frame.filename).resolve().parents
        if PACKAGE in above:
            return False
        if FOLDER in above:
            return True
    return False
