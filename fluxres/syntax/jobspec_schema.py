"""A jobspec document (Flux RFC 14) as msgspec types.

Only fields with a single form in all dialects are checked here. Counts have four forms and their own language
(:mod:`fluxres.syntax.count`), and so do constraints; dialects add rules (:mod:`fluxres.syntax.jobspec`).
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from fluxres import limits

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Text = Annotated[str, Meta(min_length=1, max_length=limits.VALUE_LENGTH_MAX)]
LongText = Annotated[str, Meta(min_length=1, max_length=limits.REQUEST_TEXT_MAX)]
Word = Annotated[str, Meta(max_length=1 << 20)]
"""A word of a command line or a value in its environment."""
Positive = Annotated[int, Meta(ge=1, le=limits.COUNT_MAX)]
Seconds = Annotated[float, Meta(ge=0, le=limits.TIME_MAX_S)]


class Resource(Struct, gc=False, forbid_unknown_fields=True, rename={"ids": "id", "children": "with"}):
    type: Name
    count: Any
    unit: Name | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    label: Name | UnsetType = UNSET
    ids: LongText | UnsetType = UNSET
    to: LongText | UnsetType = UNSET
    between: Name | UnsetType = UNSET
    properties: Annotated[list[Name], Meta(min_length=1)] | UnsetType = UNSET
    children: Annotated[list[Resource], Meta(min_length=1)] | UnsetType = UNSET


class PerResource(Struct, forbid_unknown_fields=True):
    type: Text
    count: Positive


class TaskCount(Struct, forbid_unknown_fields=True):
    per_slot: Positive | UnsetType = UNSET
    per_resource: PerResource | UnsetType = UNSET
    total: Positive | UnsetType = UNSET


class Task(Struct):
    """A task; sites may add keys."""

    command: Annotated[list[Word], Meta(min_length=1)]
    slot: Text
    count: TaskCount
    attributes: dict[str, Any] | UnsetType = UNSET
    distribution: Text | UnsetType = UNSET


class Dependency(Struct):
    """A dependency (RFC 26); schemes may have more keys."""

    scheme: Text
    value: Text


class Shell(Struct):
    options: dict[str, Any] | UnsetType = UNSET


class System(Struct, rename={"preemptible_after": "preemptible-after"}):
    """The system attributes that have a meaning. The RFC requires that others are kept.

    The attributes that it defines must have the right type: otherwise a shell or a dependency plugin would fail inside the job
    instead of at submission.
    """

    duration: Seconds | UnsetType = UNSET
    preemptible_after: Seconds | UnsetType = UNSET
    environment: dict[str, Word | None] | UnsetType = UNSET
    cwd: Text | UnsetType = UNSET
    queue: Text | UnsetType = UNSET
    bank: Text | UnsetType = UNSET
    project: Text | UnsetType = UNSET
    dependencies: Annotated[list[Dependency], Meta(min_length=1)] | UnsetType = UNSET
    constraints: dict[str, Any] | UnsetType = UNSET
    job: dict[str, Annotated[str, Meta(max_length=limits.VALUE_LENGTH_MAX)]] | UnsetType = UNSET
    shell: Shell | UnsetType = UNSET
    files: dict[str, Any] | UnsetType = UNSET


class Attributes(Struct, forbid_unknown_fields=True):
    system: System | UnsetType = UNSET
    user: dict[str, Any] | UnsetType = UNSET


class Jobspec(Struct, forbid_unknown_fields=True):
    version: Positive
    resources: Annotated[list[Resource], Meta(min_length=1)]
    tasks: Annotated[list[Task], Meta(min_length=1)]
    attributes: Attributes | None


class Rest(Struct, forbid_unknown_fields=True):
    """A jobspec whose resources were read before."""

    version: Positive
    resources: Any
    tasks: Annotated[list[Task], Meta(min_length=1)]
    attributes: Attributes | None


class Resources(Struct, forbid_unknown_fields=True):
    """The resources of a jobspec alone."""

    resources: Annotated[list[Resource], Meta(min_length=1)]
