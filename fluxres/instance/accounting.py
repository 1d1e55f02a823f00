"""Who may use how much, in the terms of Slurm: partitions, QOS, accounts and users with limits, shares and priorities.

This is the description, which never changes; `ledger.Ledger` counts what is used and enforces it in one instance.  The keys are
those of Slurm's `sacctmgr` and `slurm.conf` in small letters, with `size` for a number of units (TRES) of the type in which the
instance measures jobs.  The rules are those of Slurm's pages "Resource Limits" and "Multifactor Priority Plugin"
(specs/accounting.md has them with the differences).

>>> rules = Accounting(qos={"short": Qos(max_wall="1h", priority=10)}, users={"ann": User(max_jobs=2)})
>>> rules.qos["short"].max_wall_s, rules.users["ann"].max_jobs
(3600.0, 2)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta, Struct

from fluxres import limits
from fluxres.documents import source_text, typed, yaml_document
from fluxres.documents.document import NO_TEXT, Document, Key, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.suggestion import suggest_or_choose
from fluxres.errors import InputError, UsageError
from fluxres.syntax import duration

Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_LENGTH_MAX)]
Count = Annotated[int, Meta(ge=0, le=10**12)]
Share = Annotated[int, Meta(ge=0, le=10**9)]
Priority = Annotated[int, Meta(ge=0, le=4_294_967_295)]
Wall = str | Annotated[float, Meta(gt=0, le=1e12)]
"""A duration, such as 30m, or seconds."""
Wait = str | Annotated[float, Meta(ge=0, le=1e9)]
"""The same, and 0."""

OFF: Final = "off"
CANCEL: Final = "cancel"
REQUEUE: Final = "requeue"
ROOT: Final = "root"
"""The account above all others."""
_ARGUMENT: Final = "accounting"
"""The name of the argument that has the rules, which is their place if they are no text."""


class Limits(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Limits of a partition, a QOS, an account or a user; None for no limit.

    Args:
        max_jobs: jobs of one user that run at once.
        max_submit_jobs: jobs of one user that run or wait at once.
        max_size: units that the jobs of one user hold at once.
        max_size_per_job: units of one job.
        max_wall: longest limit of a job.
        grp_jobs, grp_submit_jobs, grp_size: the same as the first three, of all jobs together.
    """

    max_jobs: Count | None = None
    max_submit_jobs: Count | None = None
    max_size: Count | None = None
    max_size_per_job: Count | None = None
    max_wall: Wall | None = None
    grp_jobs: Count | None = None
    grp_submit_jobs: Count | None = None
    grp_size: Count | None = None

    @property
    def max_wall_s(self) -> float:
        """Infinity for no limit."""
        return _seconds(self.max_wall)


class User(Limits, frozen=True):
    """A user, whose own limits and shares apply in each account.

    Args:
        account: of jobs that name none.
        qos: of jobs that name none.
        fairshare: shares among the users of the account.
        priority: the association factor of the priority.
    """

    account: Name | None = None
    qos: Name | None = None
    fairshare: Share = 1
    priority: Priority | None = None


class Account(Limits, frozen=True):
    """An account. Its `max_` limits are those of each of its users that has none; its `grp_` limits include accounts below.

    Args:
        parent: the account above it.
        qos: of jobs that name none, of users without one.
        fairshare: shares among the accounts and users of the parent.
        priority: as of users that have none.
    """

    parent: Name = ROOT
    qos: Name | None = None
    fairshare: Share = 1
    priority: Priority | None = None


class SharedLimits(Limits, frozen=True):
    """Limits of what users of several accounts have in common.

    Args:
        max_jobs_per_account, max_submit_jobs_per_account, max_size_per_account: as those of a user, of one account.
        priority: its factor of the priority of a job is relative to the highest of its kind.
    """

    max_jobs_per_account: Count | None = None
    max_submit_jobs_per_account: Count | None = None
    max_size_per_account: Count | None = None
    priority: Priority = 0


class Qos(SharedLimits, frozen=True):
    """A quality of service.

    Args:
        deny_on_limit: a job that is larger than a limit allows at all is refused; otherwise it waits in vain.
        preempt: the QOS whose jobs its jobs may preempt.
        preempt_mode: what happens to its own jobs when they are preempted; None: as the site says.
        grace_time: how long they run on then.
        preempt_exempt_time: how long they run before they may be preempted; None: as the site says.
    """

    deny_on_limit: bool = False
    preempt: list[Name] = []
    preempt_mode: Literal["off", "cancel", "requeue"] | None = None
    grace_time: Wait = 0.0
    preempt_exempt_time: Wait | None = None

    @property
    def grace_time_s(self) -> float:
        return _seconds(self.grace_time)


class PartitionLimits(SharedLimits, frozen=True):
    """A partition; its limits come before all others, as those of a partition QOS.

    Args:
        default: jobs that name none go there.
        default_time: limit of jobs that state none; that of `max_time` by default.
        max_time: longest limit of a job, whatever its QOS allows.
        min_size, max_size_of_job: units of a job, whatever its QOS allows.
    """

    default: bool = False
    default_time: Wall | None = None
    max_time: Wall | None = None
    min_size: Count = 0
    max_size_of_job: Count | None = None

    @property
    def max_time_s(self) -> float:
        """Infinity for no limit."""
        return _seconds(self.max_time)

    @property
    def time_if_unstated_s(self) -> float:
        """The limit of a job that states none; infinity for none."""
        return _seconds(self.max_time if self.default_time is None else self.default_time)


class Accounting(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """The rules of a site.

    Args:
        partitions, qos, accounts, users: by name.
        partition_of_jobs: what names the partition of a job of a trace: its queue, or its partition.
        aliases: other names of partitions, such as the numbers of queues in a trace.
        enforce_part_limits: whether a job beyond the limits of its partition is refused; otherwise it waits in vain.
        enforce_associations: whether a job of a user or an account that is not listed is refused.
        preempt_type: qos: jobs preempt those of the QOS that their own QOS names in `preempt`; none: no job does.
        preempt_mode, preempt_exempt_time: of QOS that say nothing.
    """

    partitions: dict[Name, PartitionLimits] = {}
    qos: dict[Name, Qos] = {}
    accounts: dict[Name, Account] = {}
    users: dict[Name, User] = {}
    partition_of_jobs: Literal["queue", "partition"] = "queue"
    aliases: dict[Name, Name] = {}
    enforce_part_limits: bool = True
    enforce_associations: bool = False
    preempt_type: Literal["none", "qos"] = "none"
    preempt_mode: Literal["off", "cancel", "requeue"] = "cancel"
    preempt_exempt_time: Wait = 0.0

    @property
    def limits_times(self) -> bool:
        """Whether there is a limit on how long jobs run, or one that a job without a limit gets."""
        entries = chain(self.partitions.values(), self.qos.values(), self.accounts.values(), self.users.values())
        names = ("max_wall", "max_time", "default_time")
        return any(getattr(each, name, None) is not None for each in entries for name in names)

    def preempt_mode_of(self, qos: str) -> str:
        """What happens to the jobs of a QOS when they are preempted."""
        own = self.qos[qos].preempt_mode
        return self.preempt_mode if own is None else own

    def preempt_exempt_time_of(self, qos: str) -> float:
        """How long the jobs of a QOS run before they may be preempted, in seconds."""
        own = self.qos[qos].preempt_exempt_time
        return _seconds(self.preempt_exempt_time if own is None else own)

    @property
    def default_partition(self) -> str | None:
        return next((name for name, each in self.partitions.items() if each.default), None)

    def account_of(self, user: str | None, account: str | None) -> str:
        """The account of a job: the one it names, else that of its user, else the root."""
        if account is None and user is not None and (known := self.users.get(user)) is not None and known.account is not None:
            return known.account
        return ROOT if account is None else account

    def above(self, account: str) -> Iterator[str]:
        """An account and those above it, the root last."""
        while account != ROOT:
            yield account
            known = self.accounts.get(account)
            account = ROOT if known is None else known.parent
        yield ROOT

    def require_valid(self, document: Document = NO_TEXT) -> Accounting:
        """These rules.

        Args:
            document: where they come from.

        Errors: InputError for durations that cannot be read, and for names of what is not listed.
        """
        mistakes = Mistakes()
        _note(mistakes, _problems(self, ()), document)
        mistakes.require_none()
        return self


def load(source: str | Path | bytes) -> Accounting:
    """The rules in a YAML or JSON file.

    Errors: InputError with all that is wrong, each with its line.

    >>> load(b"users: {ann: {max_jobs: 2, qos: long}}")
    Traceback (most recent call last):
      ...
    fluxres.errors.InputError: <text>:1:33: users.ann.qos: no qos 'long' (there is none)
    """
    mistakes = Mistakes()
    data, name, path = source_text.opened(source)
    return _read(yaml_document.parse(data, file=name, path=path, mistakes=mistakes), mistakes)


def of(values: Mapping[str, Any]) -> Accounting:
    """The rules in a mapping, as a file has them. Errors: InputError."""
    return _read(Document(values, _ARGUMENT, "", is_made=True), Mistakes())


def given(rules: object) -> Accounting:
    """The rules that a caller gives: an Accounting, or a mapping as a file has it.

    Errors: UsageError for anything else; InputError for rules that are not valid.

    >>> given({"users": {"ann": {"max_jobs": 2}}}).users["ann"].max_jobs
    2
    """
    if isinstance(rules, Accounting):
        return rules.require_valid(Document(None, _ARGUMENT, "", is_made=True))
    if isinstance(rules, Mapping):
        return of(rules)
    hint = "fluxres.instance.accounting.load() reads a file"
    raise UsageError(f"{_ARGUMENT}: expected an Accounting or a mapping, got {shown(rules)}", hint=hint)


def _read(document: Document, mistakes: Mistakes) -> Accounting:
    """The rules in a document.

    Args:
        mistakes: what is wrong with it already.
    """
    rules, wrong = typed.convert_partly(document, Accounting, mistakes)
    _note(mistakes, _problems(rules, wrong), document)
    mistakes.require_none()
    return rules


class _Problem(NamedTuple):
    """What is wrong, with its place."""

    path: tuple[Key, ...]
    message: str
    hint: str = ""


def _note(mistakes: Mistakes, problems: Iterable[_Problem], document: Document) -> None:
    for path, message, hint in problems:
        mistakes.add(InputError(message, where=document.where(path), hint=hint))


def _problems(rules: Accounting, wrong: Collection[tuple[Key, ...]]) -> Iterator[_Problem]:
    """What is wrong with rules of the right types.

    Args:
        wrong: the places that could not be read and have their defaults; consequences of these are left out.
    """
    listed: dict[str, Mapping[str, Any]] = {key: getattr(rules, key) for key in ("partitions", "qos", "accounts", "users")}
    is_astray = any(len(path) == 1 and path[0] not in Accounting.__struct_fields__ for path in wrong)
    known = {key: each for key, each in listed.items() if (key,) not in wrong and (each or not is_astray)}
    unreadable: set[tuple[Key, ...]] = set()
    for kind, entries in listed.items():
        for name, each in entries.items():
            for problem in _problems_of_times(each, (kind, name)):
                unreadable.add(problem.path)
                yield problem
            for key, there in (("account", "accounts"), ("qos", "qos"), ("parent", "accounts")):
                other = getattr(each, key, None)
                if other is not None and there in known and (there == "qos" or other != ROOT):
                    what = "account" if there == "accounts" else key
                    yield from _problems_of_name(other, known[there], what, (kind, name, key))
    yield from _problems_of_preemption(rules, known, has_type=not is_astray and ("preempt_type",) not in wrong)
    for name, each in rules.partitions.items():
        if each.max_size_of_job is not None and each.min_size > each.max_size_of_job:
            message = "is more than max_size_of_job, so that the partition accepts no job"
            yield _Problem(("partitions", name, "min_size"), message)
        times = ("partitions", name, "max_time"), ("partitions", name, "default_time")
        if unreadable.isdisjoint(times) and each.time_if_unstated_s > each.max_time_s:
            yield _Problem(("partitions", name, "default_time"), "is longer than max_time")
    for alias, partition in rules.aliases.items() if "partitions" in known else ():
        yield from _problems_of_name(partition, known["partitions"], "partition", ("aliases", alias))
    defaults = [name for name, each in rules.partitions.items() if each.default]
    for name in defaults[1:]:
        yield _Problem(("partitions", name, "default"), f"{defaults[0]} is the default partition already")
    for name in _cycles(rules.accounts):
        yield _Problem(("accounts", name, "parent"), "the accounts above it form a cycle")


def _problems_of_name(name: str, known: Mapping[str, object], what: str, path: tuple[Key, ...]) -> Iterator[_Problem]:
    if name not in known:
        yield _Problem(path, f"no {what} {name!r:.80}", suggest_or_choose(name, list(known)))


def _problems_of_times(entry: object, path: tuple[Key, ...]) -> Iterator[_Problem]:
    for key in ("max_wall", "max_time", "default_time", "grace_time", "preempt_exempt_time"):
        try:
            _seconds(getattr(entry, key, None))
        except InputError as error:
            yield _Problem((*path, key), error.message, error.hint)


def _problems_of_preemption(rules: Accounting, known: Mapping[str, object], *, has_type: bool) -> Iterator[_Problem]:
    """What is wrong with the rules of preemption.

    Args:
        known: the entries of each kind that could be read.
        has_type: whether `preempt_type` could be read.
    """
    yield from _problems_of_times(rules, ())
    for name, each in rules.qos.items():
        for at, other in enumerate(each.preempt):
            if "qos" in known:
                yield from _problems_of_name(other, rules.qos, "qos", ("qos", name, "preempt", at))
            if other == name:
                yield _Problem(("qos", name, "preempt", at), "a QOS cannot preempt itself")
        if each.preempt and has_type and rules.preempt_type == "none":
            message = "nothing is preempted with preempt_type none; set preempt_type: qos"
            yield _Problem(("qos", name, "preempt"), message)


def _cycles(accounts: Mapping[str, Account]) -> Iterator[str]:
    """One account of each cycle of accounts."""
    passed: set[str] = set()
    for name in accounts:
        way: dict[str, None] = {}
        above = name
        while above in accounts and above != ROOT and above not in passed and above not in way:
            way[above] = None
            above = accounts[above].parent
        if above in way:
            yield above
        passed.update(way)


def _seconds(time: str | float | None) -> float:
    if time is None:
        return math.inf
    return duration.read(time) if isinstance(time, str) else float(time)
