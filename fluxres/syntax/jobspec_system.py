"""The attributes of a jobspec that have a meaning: `attributes.system`, and the environment of a task (Flux RFC 14).

Unknown words are kept and not refused, as the RFC wants it; known ones must have their type, since whoever acts
on them later (a shell, a dependency plugin) would fail inside the job instead of at its submission.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fluxres.syntax.jobspec_dialects import Rules
from fluxres.syntax.place import Place


def check_attributes(attributes: Mapping[str, Any], place: Place, rules: Rules) -> None:
    """Check the types of the known attributes. Errors: InputError with the place."""
    place.mapping(attributes, ("system", "user"), ("system",) if rules.duration_required else ())
    for key in attributes:
        place.at(key).mapping(attributes[key])
    system = attributes.get("system", {})
    place = place.at("system")
    if rules.duration_required:
        place.mapping(system, required=("duration",))
    for key, check in _KNOWN.items():
        if key in system:
            check(system[key], place.at(key))


def _environment(value: object, place: Place) -> None:
    for name, text in place.mapping(value).items():
        if text is not None:
            place.at(name).text(text, empty=True, length=1 << 20)


def _cwd(value: object, place: Place) -> None:
    if not place.text(value).startswith("/"):
        raise place.expected("an absolute path", value)


def _dependencies(value: object, place: Place) -> None:
    for number, dependency in enumerate(place.sequence(value, "a list of dependencies")):
        given = place.at(number).mapping(dependency, required=("scheme", "value"))
        for key in ("scheme", "value"):
            place.at(number, key).text(given[key])


def _job(value: object, place: Place) -> None:
    for name, text in place.mapping(value).items():
        place.at(name).text(text, empty=True)


def _shell(value: object, place: Place) -> None:
    given = place.mapping(value)
    if "options" in given:
        place.at("options").mapping(given["options"])


def _mapping(value: object, place: Place) -> None:
    place.mapping(value)


def _text(value: object, place: Place) -> None:
    place.text(value)


def _seconds(value: object, place: Place) -> None:
    place.seconds(value)


_KNOWN: Final[dict[str, Callable[[object, Place], None]]] = {
    "duration": _seconds,
    "preemptible-after": _seconds,
    "environment": _environment,
    "cwd": _cwd,
    "queue": _text,
    "bank": _text,
    "project": _text,
    "dependencies": _dependencies,
    "constraints": _mapping,
    "job": _job,
    "shell": _shell,
    "files": _mapping,
}
