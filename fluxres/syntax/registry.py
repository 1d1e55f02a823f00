"""Objects by name and parameters, such as ``average:last=5,by=user``: built-in, of other packages, or in a file."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, Generic, TypeVar

from fluxres.documents.document import shown
from fluxres.documents.suggestion import choose_from, suggest
from fluxres.errors import FluxresError, UsageError
from fluxres.syntax import parameters

T = TypeVar("T")
Factory = Callable[..., T]

IN_FILE: Final = re.compile(r"(?P<file>.+?\.py):(?P<class>[A-Za-z_]\w*)(?::(?P<parameters>.*))?", re.DOTALL)
"""A class in a Python file, with parameters."""


class Registry(Generic[T]):
    """Classes by name.

    A class that has a classmethod `from_parameters` gets the parameters as they are written, by name; of any other one the
    signature says what it has.

    Args:
        what: is made, for messages.
        built_in: the classes of this package, or where they are, as ``module:class``, for those that load much.
        group: the entry point group of those of other packages.
        methods: what each object must have.
        base: the class of which each object must be an instance.
        without: parameters that people do not write.

    >>> Registry("number", {"real": float, "whole": int}, "fluxres.no_such_group").names()
    ['real', 'whole']
    """

    def __init__(
        self,
        what: str,
        built_in: Mapping[str, Factory[T] | str],
        group: str,
        methods: tuple[str, ...] = (),
        without: tuple[str, ...] = (),
        base: type | None = None,
    ) -> None:
        self.what, self.built_in, self.group = what, built_in, group
        self.methods, self.without, self.base = methods, without, base

    def where(self, name: str) -> str:
        """What is named in messages, of one that there is."""
        return f"{self.what} {name}"

    def names(self) -> list[str]:
        """The names of all; those of other packages come last."""
        return [*self.built_in, *sorted(entry.name for entry in others(self.group))]

    def has(self, name: str) -> bool:
        """Whether there is one of this name, or it is one in a file."""
        return name in self.built_in or IN_FILE.fullmatch(name) is not None or name in self.names()

    def make(self, given: str | Mapping[str, Any], **more: Any) -> T:
        """An object by its name and parameters, as text or as a mapping with one name.

        Args:
            given: parameters are ``name=value,…`` or a JSON object of anything.
            more: parameters that are not part of the text.

        Errors: UsageError for a name or a parameter that does not exist, and for a wrong value.
        """
        name, text = self._split_mapping(given) if isinstance(given, Mapping) else split(given)
        factory, where = self.find(name), self.where(name)
        written = self.written(name, text)
        if hasattr(factory, "from_parameters"):
            return self.call(name, factory.from_parameters, {"values": written})
        given_as = text if isinstance(text, str) else ""
        takes_any = parameters.takes_any(factory)
        made = parameters.values(written, self.known(factory, more), where, given_as, takes_any=takes_any)
        return self.call(name, factory, {**more, **made})

    def known(self, factory: Factory[T], more: Mapping[str, Any] | None = None) -> parameters.Known:
        """The parameters of a class that people write."""
        return _known(factory, (*self.without, *(more or ())))

    def written(self, name: str, text: str | Mapping[str, Any]) -> dict[str, Any]:
        """Parameters by name, as they are given: texts of ``name=value,…``, values of a JSON object or a mapping."""
        where = self.where(name)
        if isinstance(text, Mapping):
            return {str(key): value for key, value in text.items()}
        if not text.startswith("{"):
            return dict(parameters.pairs(text, where))
        try:
            found: dict[str, Any] = json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, where))
        except (ValueError, RecursionError) as error:
            raise UsageError(f"not a JSON object: {error}", where=where) from None
        return found

    def call(self, name: str, factory: Factory[T], given: Mapping[str, Any]) -> T:
        """An object with these parameters.

        Errors: UsageError for anything that goes wrong, and for an object without the methods that it must have.
        """
        where = self.where(name)
        self._require(getattr(factory, "__abstractmethods__", ()), factory, where)
        try:
            made = factory(**given)
        except FluxresError:
            raise
        except Exception as error:  # it may be that of another package
            raise UsageError(f"{error}" or type(error).__name__, where=where) from error
        if self.base is not None and not isinstance(made, self.base):
            raise UsageError(f"expected a {self.base.__name__}, got an object of the class {type(made).__name__}", where=where)
        self._require({each for each in self.methods if not callable(getattr(made, each, None))}, type(made), where)
        return made

    def _require(self, missing: Collection[str], kind: Any, where: str) -> None:
        if missing:
            methods = " and ".join(f"{each}()" for each in sorted(missing))
            said = f"the class {kind.__name__} does not define {methods}, which every {self.what} has"
            raise UsageError(said, where=where, hint=f"add {'it' if len(missing) == 1 else 'them'} to the class")

    def find(self, name: str) -> Any:
        """The class of this name, imported if it is that of another package or in a file.

        Errors: UsageError if there is none, or it cannot be imported.
        """
        found = self.built_in.get(name)
        if found is not None:
            return _loaded(found) if isinstance(found, str) else found
        in_file = IN_FILE.fullmatch(name)
        if in_file is not None:
            return self._in_file(in_file["file"], in_file["class"])
        for entry in others(self.group):
            if entry.name == name:
                try:
                    return entry.load()
                except Exception as error:
                    hint = f"its package has the entry point {entry.value!r}: repair or uninstall it"
                    said = f"cannot be imported: {type(error).__name__}: {error}"
                    raise UsageError(said, where=self.where(name), hint=hint) from error
        if name.endswith(".py"):
            raise UsageError("expected a file and a class of it", where=self.where(name), hint=f"such as {name}:Mine")
        names = self.names()
        raise UsageError(f"no {self.what} {name!r:.80}", hint=suggest(name, names) or choose_from(names))

    def _in_file(self, file: str, name: str) -> Any:
        where, path = f"{self.what} {file:.400}", Path(file).resolve()
        try:
            changed = path.stat().st_mtime_ns
        except OSError as error:
            raise UsageError(f"cannot be read: {(error.strerror or str(error)).lower()}", where=where) from None
        try:
            module = _imported(str(path), changed)
        except (Exception, SystemExit) as error:
            raise UsageError(f"cannot be imported: {type(error).__name__}: {error}", where=where) from error
        found, values = getattr(module, name, None), vars(module).items()
        own = [key for key, kind in values if getattr(kind, "__module__", "") == module.__name__ and self._may_make(kind)]
        has = f"it has {', '.join(own)}" if own else f"it has no {self.what}"
        if found is None:
            raise UsageError(f"no class {name!r:.80}", where=where, hint=suggest(name, own) or has)
        if not callable(found) or not (self.base is None or self._may_make(found)):
            base = f" derived from {self.base.__name__}" if self.base is not None else ""
            kind = "class" if isinstance(found, type) else "function" if isinstance(found, FunctionType) else ""
            got = f"the {kind} {name}" if kind else f"{found!r:.80}"
            raise UsageError(f"expected a class{base}, got {got}", where=f"{where}:{name}", hint=has)
        return found

    def _may_make(self, kind: object) -> bool:
        """Whether a value of a file looks like what is made: any class or function, or one of the base."""
        return callable(kind) if self.base is None else isinstance(kind, type) and issubclass(kind, self.base)

    def _split_mapping(self, given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        if len(given) != 1:
            raise UsageError(f"expected a mapping with one name, got {shown(given)}", where=self.what)
        ((name, values),) = given.items()
        if values is not None and not isinstance(values, Mapping):
            raise UsageError(f"expected parameters by name, got {shown(values)}", where=f"{self.what} {name!s:.80}")
        return str(name), values or {}


def others(group: str) -> Iterable[EntryPoint]:
    """The entry points of a group that installed packages have.

    Cost: 10 ms once; the packages are read again only if `sys.path` has changed.
    """
    return _installed(group, tuple(sys.path))


@lru_cache(maxsize=16)
def _installed(group: str, _path: tuple[str, ...]) -> EntryPoints:
    return entry_points(group=group)


class Reported:
    """Reports what code of other packages raises as a UsageError that names it.

    >>> with Reported("estimate model Mine"):
    ...     1 / 0
    Traceback (most recent call last):
        ...
    fluxres.errors.UsageError: estimate model Mine: ZeroDivisionError: division by zero
    """

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, FluxresError):
            raise UsageError(f"{type(error).__name__}: {error}", where=self.where) from error


def split(text: str) -> tuple[str, str]:
    """The name, or the file and the class, and the text of the parameters.

    >>> split("average:last=5"), split("mine.py:Mine:depth=4")
    (('average', 'last=5'), ('mine.py:Mine', 'depth=4'))
    """
    in_file = IN_FILE.fullmatch(text)
    if in_file is not None:
        return f"{in_file['file']}:{in_file['class']}", in_file["parameters"] or ""
    name, _, rest = text.partition(":")
    return name, rest


def file_of(text: str, folder: Path) -> Path | None:
    """The file of a class, relative to a folder; None for one that has a name."""
    found = IN_FILE.fullmatch(text)
    return None if found is None else folder / found["file"]


def placed(text: str, folder: Path) -> str:
    """A text with the path of the file resolved, relative to a folder; a name stays as it is."""
    found = IN_FILE.fullmatch(text)
    return text if found is None else f"{(folder / found['file']).resolve()}{text[found.end('file') :]}"


@lru_cache(maxsize=256)
def _known(factory: Factory[Any], without: tuple[str, ...]) -> parameters.Known:
    try:
        return parameters.of(factory, without=without)
    except (TypeError, ValueError):  # a class of C that does not say what it has
        return {}


def _once(pairs: list[tuple[str, Any]], where: str) -> dict[str, Any]:
    """An object of JSON, whose keys must differ."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise UsageError(f"{key:.80} is given twice", where=where)
        found[key] = value
    return found


def _loaded(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


@lru_cache(maxsize=32)
def _imported(path: str, changed: int) -> ModuleType:
    """A Python file as a module, once as long as it does not change."""
    name = f"fluxres_in_file_{Path(path).stem}_{changed:x}"
    spec = spec_from_file_location(name, path)
    assert spec is not None  # as for any file that ends in .py
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
