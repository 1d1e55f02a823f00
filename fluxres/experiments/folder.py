"""The results directory: one subdirectory per run, which exists either completely or not at all.

A run is written next to its final place and moved there by one rename, so a campaign can be killed at any moment and is resumed
by the same command.  A directory belongs to one study: the page and the bytes of every file it reads are recorded, and others are
refused, because a table with runs of different studies would compare different things.
"""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson
import yaml

from fluxres import __version__, clock
from fluxres.errors import InputError, StoreBusy, StoreError, UsageError
from fluxres.experiments import parts
from fluxres.experiments.execution import METRICS, Outcome
from fluxres.experiments.study import Run, Study, default_of, load
from fluxres.store.lock import writer_lock
from fluxres.syntax.registry import placed

STUDY: Final = "study.yaml"
IDENTITY: Final = "identity.json"
HISTORY: Final = "history.json"
RUNS: Final = "runs"
FAILED: Final = ".failed"
_PART: Final = ".part"
_LOCK: Final = ".lock"
ERROR: Final = "error.txt"


class ResultsFolder:
    """Results of one study.

    Args:
        path: of the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / RUNS

    @contextmanager
    def writing(self, study: Study) -> Iterator[None]:
        """Claim the directory for this study, and lock out other campaigns within the block.

        Errors: StoreError for a directory that cannot be written; StoreBusy; UsageError for the directory of another study.
        """
        with translated(self.path):
            self._require_own()
            self.runs.mkdir(parents=True, exist_ok=True)
        command = f"fluxres experiment run {study.document.file} --out {self.path}"
        with ExitStack() as held:
            try:
                held.enter_context(writer_lock(self.path / _LOCK, command=command, wait_s=0, clock=clock.system))
            except StoreBusy as error:
                message = error.message.removeprefix("waited 0 s for ").replace(
                    ", which is writing to this store", " is writing results here"
                )
                raise StoreBusy(message, where=str(self.path), hint="wait for it, or give another --out") from None
            self._claim(study)
            yield

    def _claim(self, study: Study) -> None:
        identity = _identity(study)
        path = self.path / IDENTITY
        with translated(self.path):
            if path.exists():
                self._require_same(orjson.loads(path.read_bytes()), identity)
            else:
                _write(path, orjson.dumps(identity, option=orjson.OPT_INDENT_2))
            if not (self.path / STUDY).exists():
                _write(self.path / STUDY, yaml.safe_dump(_plain(study), sort_keys=False, allow_unicode=True, width=120).encode())
            for left in self.runs.glob(f".*{_PART}"):
                shutil.rmtree(left)

    def _require_own(self) -> None:
        """Refuse a directory with files of other programs."""
        known = (RUNS, _LOCK)
        if not self.path.is_dir() or (self.path / IDENTITY).exists():
            return
        if any(child.name not in known and not child.name.endswith(_PART) for child in self.path.iterdir()):
            raise UsageError("contains files other than results", where=str(self.path), hint="give a new or empty directory")

    def _require_same(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        if old["study"] != new["study"]:
            keys = [key for key in {**old["study"], **new["study"]} if old["study"].get(key) != new["study"].get(key)]
            what = f"contains results of another study: {', '.join(keys)} differ{'s' * (len(keys) == 1)}"
        elif old["inputs"] != new["inputs"]:
            files = [file for file in new["inputs"] if old["inputs"].get(file) != new["inputs"][file]]
            what = f"contains results made from other files: {', '.join(files)} changed since"
        else:
            return
        raise UsageError(what, where=str(self.path), hint="give another --out, or remove this one")

    def is_done(self, run: Run) -> bool:
        return (self.runs / run.key / METRICS).exists()

    def begin(self, run: Run) -> Path:
        """A new directory for the files of a run."""
        place = self.runs / f".{run.key}{_PART}"
        with translated(place):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
        return place

    def finish(self, run: Run, place: Path, outcome: Outcome) -> None:
        """Move the written files to their place; those of a failed run go next to it, with the error."""
        good, bad = self.runs / run.key, self.runs / f"{run.key}{FAILED}"
        with translated(place):
            for before in (good, bad):  # a run whose metrics are missing has been made again
                shutil.rmtree(before, ignore_errors=True)
            if outcome.error:
                (place / ERROR).write_text(outcome.error + "\n", encoding="utf-8")
            place.rename(bad if outcome.error else good)

    def read(self, run: Run) -> dict[str, Any] | None:
        """The metrics document of a run; None if it does not exist.

        Errors: InputError for one that cannot be read.
        """
        path = self.runs / run.key / METRICS
        try:
            document: dict[str, Any] = orjson.loads(path.read_bytes())
            document["metrics"]["jobs"], document["over_time"]["used"]
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            hint = "remove its directory and run the study again"
            raise InputError("not the metrics of a run", where=str(path), hint=hint) from None
        return document

    def error(self, run: Run) -> str | None:
        """Why a run failed; None if it did not."""
        path = self.runs / f"{run.key}{FAILED}" / ERROR
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    def history(self) -> list[dict[str, str]]:
        """When, by which version and by which command runs were made; empty for results of earlier versions."""
        path = self.path / HISTORY
        try:
            found: list[dict[str, str]] = msgspec.json.decode(path.read_bytes(), type=list[dict[str, str]])
        except FileNotFoundError:
            return []
        except msgspec.DecodeError as error:
            raise InputError(f"not a history of runs: {error}", where=str(path), hint="remove it") from None
        return found

    @staticmethod
    def moment() -> str:
        """The present, for the history."""
        return datetime.fromtimestamp(clock.system(), UTC).strftime("%Y-%m-%d %H:%M UTC")

    def note(self, command: str, begun: str) -> None:
        """Add a command that has made its first run to the history."""
        entry = {"begun": begun, "fluxres": __version__, "command": command}
        with translated(self.path):
            _write(self.path / HISTORY, orjson.dumps([*self.history(), entry], option=orjson.OPT_INDENT_2))

    def study(self) -> Study:
        """The study whose results these are.

        Errors: InputError if there are none.
        """
        if not (self.path / IDENTITY).exists():
            raise InputError("no results of an experiment", where=str(self.path), hint="`fluxres experiment run` makes some")
        return load(self.path / STUDY)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """A context that turns an OSError about a directory into an error that names it and a remedy."""
    try:
        yield
    except OSError as error:
        raise cannot(path, error) from None


def cannot(path: Path, error: OSError) -> StoreError:
    """The error for a place that cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some disk space and repeat the command: finished runs are kept" if full else "give another --out"
    return StoreError((error.strerror or str(error)).lower(), where=str(error.filename or path), hint=hint)


def _write(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}{_PART}")
    beside.write_bytes(data)
    beside.replace(path)


def _identity(study: Study) -> dict[str, Any]:
    files: dict[str, str] = {}
    for run in study.runs:
        machine, workload = parts.machine_file(run.page.machine, run.folder), parts.workload_file(run.workload, run.folder)
        others: list[tuple[str, Path | None]] = [(str(path), path) for path in parts.class_files(run)]
        others.append((str(run.page.disturbances.events), parts.event_file(run)))
        others.append((str(run.page.accounting), parts.accounting_file(run.page.accounting, run.folder)))
        jobs = str(run.workload.file or run.workload.model), workload
        for name, path in ((str(run.page.machine), machine), jobs, *others):
            if path is not None and name not in files:
                files[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"study": msgspec.to_builtins(study.page), "inputs": files}


def _plain(study: Study) -> Any:
    """The page with its defaults, and with absolute paths, such that it says the same in any folder."""
    values: Any = _written(study.page)
    folder = study.folder
    expected = [each[name] for each in values.get("expect", ()) for name in ("of", "against") if isinstance(each.get(name), dict)]
    settings = [*values.get("cases", {}).values(), values.get("baseline", {}), *expected]
    for each in (values, *settings):
        each.update({path: _placed(path, value, folder) for path, value in each.items() if path not in _OF_SETTINGS})
    vary = values.get("vary", {})
    vary.update({path: [_placed(path, value, folder) for value in given] for path, given in vary.items()})
    return values


_OF_SETTINGS: Final = ("vary", "cases", "baseline", "expect")


def _written(value: Any) -> Any:
    """A part of the page as plain values, without what is empty by default; what the page contains as it is stays so."""
    if isinstance(value, msgspec.Struct):
        named = {field.encode_name: (getattr(value, field.name), default_of(field)) for field in msgspec.structs.fields(value)}
        return {key: _written(own) for key, (own, default) in named.items() if own not in (None, {}, []) or own != default}
    if isinstance(value, dict):
        return {key: _written(each) for key, each in value.items()}
    return [_written(each) for each in value] if isinstance(value, list) else msgspec.to_builtins(value)


def _placed(path: str, value: Any, folder: Path) -> Any:
    """A value at a path of the page, with the paths of files in it resolved."""
    name = ".".join(word for word in path.split(".") if not word.isdecimal())
    if isinstance(value, list):
        return [_placed(name, each, folder) for each in value]
    if isinstance(value, dict):
        return value if name in _FILES else {key: _placed(f"{name}.{key}", each, folder) for key, each in value.items()}
    if name in _FILES and isinstance(value, str):
        return _FILES[name](value, folder)
    return value


def _machine(given: str, folder: Path) -> str:
    path = parts.machine_file(given, folder)
    return given if path is None else str(path.resolve())


def _file(given: str, folder: Path) -> str:
    return str((folder / given).resolve())


_FILES: Final[dict[str, Callable[[str, Path], str]]] = {
    "machine": _machine,
    "workload.file": _file,
    "workload.model": parts.placed_model,
    "hierarchy.queue_policy": placed,
    "prediction.predictor": placed,
    "prediction.corrector": placed,
    "workload.estimates": placed,
    "workload.adaptive.speedup": placed,
    "disturbances.events": _file,
    "accounting": _file,
}
"""What names a file, by its path in the page, and how it is resolved."""
