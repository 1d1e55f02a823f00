"""What each user, account, QOS and partition uses of one instance, and which jobs their limits let in and let start.

Limits are looked for in the order of Slurm: partition, QOS of the job, user, account, the accounts above it.  The first of these
that has a limit decides, and what it counts are the jobs of its own kind: a limit of a QOS counts the jobs of the user in that
QOS.  The `grp_` limits of a user and of all accounts above are exceptions: each of them holds, unless the partition or the QOS
has that limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from fluxres.clock import FOREVER, seconds, ticks
from fluxres.documents.document import plural
from fluxres.documents.suggestion import choose_from, suggest_or_choose
from fluxres.errors import InfeasibleRequest, InsufficientResources, NotInAccounting
from fluxres.instance import accounting
from fluxres.instance.accounting import ROOT, Account, Accounting, Limits, SharedLimits, User
from fluxres.instance.charged import Charged
from fluxres.instance.job import NEVER
from fluxres.instance.preemption import Owner, Preemption
from fluxres.syntax import duration

if TYPE_CHECKING:
    from fluxres.instance.job import Job

_DEFAULT_QOS: Final = "normal"


class Tally:
    """The jobs that count for one limit, or for several of the same jobs."""

    __slots__ = ("jobs", "running", "size")

    def __init__(self) -> None:
        self.jobs = self.running = 0
        self.size = 0
        """Units held."""


class Cap(NamedTuple):
    """A limit and what it limits.

    Args:
        where: whose it is, such as ``qos normal``.
        key: its name.
    """

    tally: Tally
    limit: int
    where: str
    key: str

    def __str__(self) -> str:
        return f"{self.where}: {self.key} is {self.limit}"

    def in_units(self, unit: str) -> str:
        """The same with the unit of a limit on sizes, which is a type of pools."""
        return f"{self.where}: {self.key} is {plural(self.limit, unit)}" if "size" in self.key else str(self)


class Terms(NamedTuple):
    """The limits for the jobs of one user in one account, QOS and partition.

    Args:
        tallies: what these jobs count in.
        submit, running, size: the limits of jobs submitted, jobs that run, and units held.
        wall: the longest time in ticks, and whose limit it is.
        part_wall, part_size: the longest time, and the least and most units, of the partition, whatever the others say.
        unstated: the time of a job that states none.
        denies: whether a job that can never start is refused.
    """

    charged: Charged
    tallies: tuple[Tally, ...]
    submit: tuple[Cap, ...]
    running: tuple[Cap, ...]
    size: tuple[Cap, ...]
    wall: tuple[int, str] | None
    part_wall: int
    part_size: tuple[int, float]
    unstated: int
    denies: bool


class Ledger:
    """The counters of one instance.

    Args:
        rules: the description, which may also be a mapping as a file has it.

    Errors: those of `accounting.given`.
    """

    def __init__(self, rules: Accounting | Mapping[str, Any]) -> None:
        self.rules = accounting.given(rules)
        self._terms: dict[Charged, Terms] = {}
        self._tallies: dict[tuple[str, ...], Tally] = {}
        self._held: dict[int, int] = {}
        """By number of a job that runs, its units when it started."""
        self.lead = 0
        """By how many ticks the limits of jobs exceed their own, such as for a wait until their nodes are on."""
        self.preemption: Preemption | None = None
        """Of the instance, if its rules allow any."""

    def preempt_for(self, owner: Owner) -> Preemption | None:
        """What makes room in an instance for the head of its queue; None if the rules allow none."""
        if self.rules.preempt_type == "qos":
            self.preemption = Preemption(owner, self.rules)
        return self.preemption

    # -- whose a job is ----------------------------------------------------------------------------------------------

    def charged(self, named: Charged) -> Charged:
        """To whom a job is charged, with defaults for what it does not name.

        Errors: NotInAccounting for a partition, QOS or account that is not listed; InfeasibleRequest for a user who is not, and
        for no partition where there is no default one.
        """
        rules = self.rules
        partition = named.partition
        if rules.partitions:
            partition = rules.default_partition if partition is None else self.partition(partition)
            if partition is None:
                hint = choose_from(rules.partitions)
                raise InfeasibleRequest("names no partition, and there is no default one", hint=hint)
        account = rules.account_of(named.user, named.account)
        if rules.enforce_associations:
            if account != ROOT:
                _require(account, rules.accounts, "account")
            if named.user is None or named.user not in rules.users:
                raise InfeasibleRequest(f"no user {named.user or '(none)'} is listed")
        qos = named.qos or self._default_qos(named.user, account)
        if qos is not None and rules.qos:
            _require(qos, rules.qos, "QOS")
        return Charged(named.user, account, qos, partition)

    def partition(self, name: str) -> str:
        """A partition of the rules by its name, or an alias. Errors: NotInAccounting."""
        found = self.rules.aliases.get(name, name)
        _require(found, self.rules.partitions, "partition")
        return found

    def _default_qos(self, user: str | None, account: str) -> str | None:
        known = self.rules.users.get(user or "")
        if known is not None and known.qos is not None:
            return known.qos
        for name in self.rules.above(account):
            above = self.rules.accounts.get(name)
            if above is not None and above.qos is not None:
                return above.qos
        return _DEFAULT_QOS if _DEFAULT_QOS in self.rules.qos else None

    def terms(self, charged: Charged) -> Terms:
        """The limits for jobs that are charged in this way."""
        found = self._terms.get(charged)
        if found is None:
            found = self._terms[charged] = self._find_terms(charged)
        return found

    def _find_terms(self, charged: Charged) -> Terms:
        rules, (_, account, qos, partition) = self.rules, charged
        assert account is not None  # of a job that `charged` has completed
        part, quality = rules.partitions.get(partition or ""), rules.qos.get(qos or "")
        chain = list(self._chain(charged))

        def caps(kind: str) -> tuple[Cap, ...]:
            found = [*self._first(chain, f"max_{kind}", charged), *self._groups(chain, f"grp_{kind}", charged)]
            for where, limits in chain[:2]:
                limit = getattr(limits, f"max_{kind}_per_account", None)
                if limit is not None:
                    found.append(Cap(self._tally(where, "account", account), limit, where, f"max_{kind}_per_account"))
                    break
            return tuple(found)

        wall = next(((limits.max_wall_s, where) for where, limits in chain if limits.max_wall is not None), None)
        of_one = (
            Cap(_NOTHING, limits.max_size_per_job, where, "max_size_per_job")
            for where, limits in chain
            if limits.max_size_per_job is not None
        )
        unstated = FOREVER if part is None else ticks(part.time_if_unstated_s)
        if wall is not None:
            unstated = min(unstated, ticks(wall[0]))
        return Terms(
            charged,
            submit=caps("submit_jobs"),
            running=caps("jobs"),
            size=(*caps("size"), *islice(of_one, 1)),
            tallies=tuple(self._tally(*scope) for scope in _scopes([where for where, _ in chain], charged)),
            wall=None if wall is None else (ticks(wall[0]), wall[1]),
            part_wall=FOREVER if part is None else ticks(part.max_time_s),
            part_size=(0, inf) if part is None else (part.min_size, _or_infinite(part.max_size_of_job)),
            unstated=unstated,
            denies=quality is not None and quality.deny_on_limit,
        )

    def _chain(self, charged: Charged) -> Iterator[tuple[str, Limits]]:
        """Whose limits apply to a job, those that come first first: always a partition and a QOS, empty or not."""
        rules, (user, account, qos, partition) = self.rules, charged
        assert account is not None
        yield f"partition {partition}", rules.partitions.get(partition or "", _NONE)
        yield f"qos {qos}", rules.qos.get(qos or "", _NONE)
        yield f"user {user}", rules.users.get(user or "", _NONE)
        for name in rules.above(account):
            yield f"account {name}", rules.accounts.get(name, _NONE)

    def _first(self, chain: list[tuple[str, Limits]], key: str, charged: Charged) -> Iterator[Cap]:
        """The limit of one user that decides: of a partition or QOS for the jobs there, else for those in the account."""
        for at, (where, limits) in enumerate(chain):
            limit = getattr(limits, key)
            if limit is not None:
                scope = where if at < 2 else f"account {charged.account}"
                yield Cap(self._tally(scope, "user", charged.user or ""), limit, where, key)
                return

    def _groups(self, chain: list[tuple[str, Limits]], key: str, charged: Charged) -> Iterator[Cap]:
        for at, (where, limits) in enumerate(chain):
            limit = getattr(limits, key)
            if limit is not None:
                scope = (f"account {charged.account}", "user", charged.user or "") if where.startswith("user ") else (where,)
                yield Cap(self._tally(*scope), limit, where, key)
                if at < 2:
                    return

    def _tally(self, *scope: str) -> Tally:
        return self._tallies.setdefault(scope, Tally())

    # -- what a job may ----------------------------------------------------------------------------------------------

    def require_account(self, name: str) -> None:
        """Refuse an account that a person names and that is not listed, if any are. Errors: NotInAccounting."""
        if self.rules.accounts and name != ROOT:
            _require(name, self.rules.accounts, "account")

    def admit(self, named: Charged, size: int, length: int, unit: str) -> tuple[Charged, int]:
        """Whether a job may be submitted: to whom it is charged, and its limit in ticks.

        Args:
            unit: the type of pools in which sizes are measured.
            length: in ticks, with `lead`; FOREVER if it states none.

        Errors: InfeasibleRequest if it never may; InsufficientResources if it may once other jobs have ended.
        """
        charged = self.charged(named)
        terms = self.terms(charged)
        length = terms.unstated if length >= FOREVER else length - self.lead
        self._require_time(terms, length, in_partition=self.rules.enforce_part_limits)
        if self.rules.enforce_part_limits:
            self._require_size(terms, size, unit)
        if terms.denies:
            _require_within(terms, size, unit)
        for cap in terms.submit:
            if cap.tally.jobs >= cap.limit:
                raise InsufficientResources(f"more jobs submitted than {cap.key} allows: {cap.limit}", where=cap.where)
        return charged, length if length >= FOREVER else length + self.lead

    def require_time(self, job: Job, length: int) -> None:
        """Refuse another limit of a job, in ticks, that its accounting does not allow.

        That of its partition only keeps a job from starting, unless `enforce_part_limits` refuses it: one that runs stays in it.

        Errors: InfeasibleRequest.
        """
        own = length if length >= FOREVER else length - self.lead
        in_partition = self.rules.enforce_part_limits or job.claim is not None
        self._require_time(self.terms(job.charged), own, in_partition=in_partition)

    def _require_time(self, terms: Terms, length: int, *, in_partition: bool) -> None:
        if terms.wall is not None and length > terms.wall[0]:
            raise _too_long(length, *terms.wall, "max_wall")
        if in_partition and length > terms.part_wall:
            raise _too_long(length, terms.part_wall, f"partition {terms.charged.partition}", "max_time")

    def _require_size(self, terms: Terms, size: int, unit: str) -> None:
        least, most = terms.part_size
        where, hint = f"partition {terms.charged.partition}", f"requested: {plural(size, unit)}"
        if size > most:
            message = f"requests more than max_size_of_job allows: {plural(int(most), unit)}"
            raise InfeasibleRequest(message, where=where, hint=hint)
        if size < least:
            raise InfeasibleRequest(f"requests fewer than min_size allows: {plural(least, unit)}", where=where, hint=hint)

    def reason(self, job: Job) -> str:
        """Why no limit lets a waiting job start now, or ever; empty if all do."""
        found = self.obstacle(job)
        if found is None:
            return ""
        unit = job.instance.inventory.measure
        if job.sizes is None:
            terms = self.terms(job.charged)
            try:
                self._require_time(terms, job.duration - self.lead, in_partition=True)
                self._require_size(terms, job.size, unit)
                _require_within(terms, job.size, unit)
            except InfeasibleRequest as error:
                return f"{NEVER}{error.where}: {error.message}"
        return found.in_units(unit) if isinstance(found, Cap) else found

    def obstacle(self, job: Job) -> Cap | str | None:
        """The limit that does not let a waiting job start now; None if all do."""
        terms, size = self.terms(job.charged), job.size
        if self.preemption is not None and (found := self.preemption.obstacle(job)) is not None:
            return found
        for cap in terms.running:
            if cap.tally.running >= cap.limit:
                return cap
        for cap in terms.size:
            if cap.tally.size + size > cap.limit:
                return cap
        if job.duration - self.lead > terms.part_wall or not terms.part_size[0] <= size <= terms.part_size[1]:
            return f"partition {terms.charged.partition}: it allows no such job"
        return None

    # -- what happened -----------------------------------------------------------------------------------------------

    def submitted(self, job: Job) -> None:
        for tally in self.terms(job.charged).tallies:
            tally.jobs += 1

    def started(self, job: Job) -> None:
        size = self._held[job.number] = job.size
        for tally in self.terms(job.charged).tallies:
            tally.running += 1
            tally.size += size

    def may_grow(self, job: Job, units: int) -> bool:
        """Whether all limits let a running job have more units."""
        terms = self.terms(job.charged)
        size = self._held.get(job.number, 0) + units
        return size <= terms.part_size[1] and all(
            (cap.tally.size + units if cap.tally is not _NOTHING else size) <= cap.limit for cap in terms.size
        )

    def resized(self, job: Job) -> None:
        """A running job has another size."""
        self.freed(job)
        self.started(job)

    def freed(self, job: Job) -> None:
        """A job has freed its resources; nothing for one that never had any."""
        size = self._held.pop(job.number, None)
        if size is not None:
            for tally in self.terms(job.charged).tallies:
                tally.running -= 1
                tally.size -= size

    def left(self, job: Job) -> None:
        """A job has left the instance, or was not accepted after `submitted`."""
        self.freed(job)
        for tally in self.terms(job.charged).tallies:
            tally.jobs -= 1

    # -- factors of a priority ---------------------------------------------------------------------------------------

    def qos_factor(self, charged: Charged) -> float:
        """The priority of the QOS, relative to the highest of all."""
        return _relative(self.rules.qos, charged.qos)

    def partition_factor(self, charged: Charged) -> float:
        """The priority of the partition, relative to the highest of all."""
        return _relative(self.rules.partitions, charged.partition)

    def association_factor(self, charged: Charged) -> float:
        """The priority of the user, else of the accounts above, relative to the highest of all."""
        rules, account = self.rules, charged.account or ROOT
        chain: list[User | Account] = [rules.users[charged.user]] if charged.user in rules.users else []
        chain += [rules.accounts[name] for name in rules.above(account) if name in rules.accounts]
        own = next((each.priority for each in chain if each.priority is not None), 0)
        entries: list[User | Account] = [*rules.users.values(), *rules.accounts.values()]
        most = max((each.priority or 0 for each in entries), default=0)
        return own / most if most else 0.0


_NONE: Final = Limits()
_NOTHING: Final = Tally()
"""What a limit of single jobs counts."""


def _scopes(chain: list[str], charged: Charged) -> Iterator[tuple[str, ...]]:
    """What a job counts in: all jobs of a partition, QOS or account, and those of its user and its account there."""
    user, account = charged.user or "", charged.account or ROOT
    for at, where in enumerate(chain):
        if at < 2:
            yield where, "user", user
            yield where, "account", account
        if not where.startswith("user "):
            yield (where,)
    yield f"account {account}", "user", user


def _require_within(terms: Terms, size: int, unit: str) -> None:
    """Refuse a job that no end of others would let start. Errors: InfeasibleRequest."""
    for cap in terms.size:
        if size > cap.limit:
            message = f"requests more than {cap.key} allows: {plural(cap.limit, unit)}"
            raise InfeasibleRequest(message, where=cap.where, hint=f"requested: {plural(size, unit)}")
    for cap in terms.running:
        if cap.limit <= 0:
            raise InfeasibleRequest(f"{cap.key} allows no jobs", where=cap.where)


def _or_infinite(number: int | None) -> float:
    return inf if number is None else number


def _require(name: str, known: Mapping[str, object], what: str) -> None:
    if name not in known:
        raise NotInAccounting(f"no {what} '{name:.80}'", hint=suggest_or_choose(name, list(known)))


def _relative(entries: Mapping[str, SharedLimits], name: str | None) -> float:
    most = max((each.priority for each in entries.values()), default=0)
    return entries[name].priority / most if most and name is not None and name in entries else 0.0


def _too_long(length: int, most: int, where: str, key: str) -> InfeasibleRequest:
    asked = "no limit" if length >= FOREVER else duration.exact(seconds(length))
    hint = f"requested: {asked}"
    return InfeasibleRequest(f"a longer time than {key} allows: {duration.exact(seconds(most))}", where=where, hint=hint)
