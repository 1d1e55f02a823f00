"""What an instance on a server is asked, and what is made of the answers: the methods of :class:`fluxres.Instance` as calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any

from fluxres import limits
from fluxres.clock import Length, Time
from fluxres.documents import arguments
from fluxres.errors import UsageError
from fluxres.instance.tree import Branch
from fluxres.service.client.calls import length_of, moment_of
from fluxres.service.client.job import RemoteJob
from fluxres.service.client.requests import Call, get, of_graph, post
from fluxres.service.client.values import names_of
from fluxres.syntax import fluid

AnyJob = RemoteJob | str
"""A job, or its id."""


class InstanceCalls:
    """What can be asked of one instance. The changes have an `idempotency_key`, as those of a graph.

    Args:
        graph: its name.
        address: of the instance: its name, and the ids of the jobs that lead to one below it.
    """

    def __init__(self, graph: str, address: str) -> None:
        self.graph, self.address = graph, address

    def summary(self) -> Call[dict[str, Any]]:
        """Policies, numbers of jobs, and children."""
        found: dict[str, Any] = (yield get(of_graph(self.graph, "instance"), instance=self.address)).document()
        return found

    def job(self, job: AnyJob) -> Call[RemoteJob]:
        """A job as it is now. Errors: UnknownJob."""
        return RemoteJob((yield get(self._place("job"), instance=self.address, job=_id_of(job))).document())

    def jobs(self, state: str | None = None) -> Call[list[RemoteJob]]:
        """The jobs that have not ended, and the latest that have, in the order of their submission; or those in a state."""
        found, after, is_first = list[RemoteJob](), None, True
        while is_first or after is not None:
            query = {"instance": self.address, "state": state, "after": after, "limit": limits.SERVICE_PAGE_MAX}
            page = (yield get(self._place("jobs"), **query)).document()
            found += [RemoteJob(one) for one in page["jobs"]]
            after, is_first = page["next"], False
        return found

    def check(self) -> Call[list[dict[str, Any]]]:
        """Problems of the instance and those below it; empty if all rules hold."""
        found: list[dict[str, Any]] = (yield get(self._place("check"), instance=self.address)).document()["problems"]
        return found

    def submit(  # noqa: PLR0913 - one option each
        self,
        wanted: str | Mapping[str, Any],
        *,
        duration_s: Length | None = None,
        urgency: int = 16,
        name: str | None = None,
        user: str | None = None,
        dependencies: str | Iterable[str] = (),
        payload: Any = None,
        account: str | None = None,
        qos: str | None = None,
        partition: str | None = None,
        sizes: Mapping[int, Length | None] | None = None,
        is_malleable: bool = False,
        idempotency_key: str | None = None,
    ) -> Call[RemoteJob]:
        """Submit a job; it may have started when this returns.

        Errors: InfeasibleRequest, InsufficientResources, UsageError (also for a job of several sizes), InputError.
        """
        if sizes is not None or is_malleable:
            hint = "submit one size (`graph.earliest` says when each could start), or use a local Instance"
            raise UsageError("a server does not keep jobs of several sizes", where="sizes", hint=hint)
        given = {"wanted": names_of(wanted), "duration_s": length_of(duration_s), "urgency": urgency, "name": name, "user": user}
        after = [dependencies] if isinstance(dependencies, str) else list(arguments.items(dependencies, "dependencies", "texts"))
        more = {"dependencies": after, "payload": payload, "account": account, "qos": qos, "partition": partition}
        return RemoteJob((yield from self._post("submit", {**given, **more}, idempotency_key)))

    def reserve(
        self,
        wanted: str | Mapping[str, Any] | None = None,
        *,
        start_s: Time,
        duration_s: Length,
        pools: Any = None,
        name: str | None = None,
        user: str | None = None,
        payload: Any = None,
        idempotency_key: str | None = None,
    ) -> Call[RemoteJob]:
        """Reserve ahead: a job that starts at a given time, on what no other job gets until its end.

        Errors: InsufficientResources; UsageError for a start in the past; those of `submit`.
        """
        given = {
            "wanted": None if wanted is None else names_of(wanted),
            "pools": None if pools is None else names_of(pools),
            "start_s": moment_of(start_s),
            "duration_s": length_of(duration_s),
        }
        more = {"name": name, "user": user, "payload": payload}
        return RemoteJob((yield from self._post("reserve", {**given, **more}, idempotency_key)))

    def cancel(self, job: AnyJob, note: str = "", *, idempotency_key: str | None = None) -> Call[RemoteJob]:
        """End a job that waits or runs. Errors: UnknownJob; UsageError for one that has ended."""
        return (yield from self._of_job("cancel", job, {"note": note}, idempotency_key))

    def finish(self, job: AnyJob, status: int = 0, *, idempotency_key: str | None = None) -> Call[RemoteJob]:
        """Report the end of a job. Errors: UnknownJob; UsageError for one that does not run."""
        return (yield from self._of_job("finish", job, {"status": status}, idempotency_key))

    def exception(
        self, job: AnyJob, kind: str, severity: int = 0, note: str = "", *, idempotency_key: str | None = None
    ) -> Call[RemoteJob]:
        """Raise an exception on a job (RFC 21); severity 0 ends it."""
        return (yield from self._of_job("exception", job, {"kind": kind, "severity": severity, "note": note}, idempotency_key))

    def requeue(self, job: AnyJob, note: str = "", *, idempotency_key: str | None = None) -> Call[RemoteJob]:
        """Stop a running job, which waits again."""
        return (yield from self._of_job("requeue", job, {"note": note}, idempotency_key))

    def set_urgency(self, job: AnyJob, urgency: int, *, idempotency_key: str | None = None) -> Call[RemoteJob]:
        """Change the urgency of a job that waits."""
        return (yield from self._of_job("set_urgency", job, {"urgency": urgency}, idempotency_key))

    def set_duration(
        self, job: AnyJob, duration_s: Length | None, urgency: int | None = None, *, idempotency_key: str | None = None
    ) -> Call[RemoteJob]:
        """Change the limit of a job, None for none, and in the same change the urgency of one that waits."""
        given: dict[str, Any] = {"duration_s": length_of(duration_s)}
        if urgency is not None:
            given["urgency"] = urgency
        return (yield from self._of_job("set_duration", job, given, idempotency_key))

    def add_dependency(self, job: AnyJob, dependency: str, *, idempotency_key: str | None = None) -> Call[RemoteJob]:
        """Let a job that waits wait for something more."""
        return (yield from self._of_job("add_dependency", job, {"dependency": dependency}, idempotency_key))

    def spawn(
        self,
        job: AnyJob,
        *,
        queue_policy: str | None = None,
        match_policy: str | None = None,
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> Call[str]:
        """Begin a child on what a running job holds; returns its address."""
        given = {"job": _id_of(job), "queue_policy": queue_policy, "match_policy": match_policy, "name": name}
        return str((yield from self._post("spawn", given, idempotency_key))["address"])

    def grow(self, wanted: Any, *, idempotency_key: str | None = None) -> Call[list[str]]:
        """Get more for a child from its parent; returns the paths of the pools."""
        return list((yield from self._post("grow", {"wanted": names_of(wanted)}, idempotency_key))["paths"])

    def shrink(self, wanted: Any, *, idempotency_key: str | None = None) -> Call[list[str]]:
        """Return pools of a child to its parent; returns their paths."""
        return list((yield from self._post("shrink", {"wanted": names_of(wanted)}, idempotency_key))["paths"])

    def set_state(self, where: Any, state: str, *, requeue: bool = False, idempotency_key: str | None = None) -> Call[None]:
        """Set the state of pools, here and in the children that have them; down ends the jobs on them."""
        yield from self._post("set_state", {"where": names_of(where), "state": state, "requeue": requeue}, idempotency_key)

    def drain(self, where: Any, *, idempotency_key: str | None = None) -> Call[None]:
        """Start no new jobs on pools; running jobs continue."""
        yield from self.set_state(where, "drain", idempotency_key=idempotency_key)

    def down(self, where: Any, *, requeue: bool = False, idempotency_key: str | None = None) -> Call[None]:
        """Mark pools as failed; jobs that run on them fail, or wait again."""
        yield from self.set_state(where, "down", requeue=requeue, idempotency_key=idempotency_key)

    def up(self, where: Any, *, idempotency_key: str | None = None) -> Call[None]:
        """Put pools back in service."""
        yield from self.set_state(where, "up", idempotency_key=idempotency_key)

    def set_expiration(self, at_s: Time | None, *, idempotency_key: str | None = None) -> Call[None]:
        """Set when the instance ends with its jobs; None for when its job ends."""
        yield from self._post("set_expiration", {"at_s": moment_of(at_s)}, idempotency_key)

    def measure_in(self, type_name: str | None, *, idempotency_key: str | None = None) -> Call[None]:
        """Measure the size of jobs in units of a type; None for the default."""
        yield from self._post("measure_in", {"type_name": type_name}, idempotency_key)

    def find(self, address: str) -> Call[str]:
        """The complete address of an instance below this one; its own may be in front. Errors: UnknownJob."""
        own, words = self.address.split("/"), [word for word in address.split("/") if word]
        whole = "/".join(words if words[: len(own)] == own else [*own, *words])
        return str((yield get(of_graph(self.graph, "instance"), instance=whole)).document()["address"])

    def tree(self) -> Call[list[Branch]]:
        """The values of this instance and all below it, depth first."""
        listed = (yield get(of_graph(self.graph, "instances"))).document()["instances"]
        top, own = self.address.count("/"), (self.address + "/")
        return [
            Branch(
                one["address"],
                one["address"].count("/") - top,
                one["name"],
                one["queue_policy"].partition(":")[0],
                one["match_policy"],
                one["pools"],
                one["pending"],
                one["running"],
            )
            for one in listed
            if (one["address"] + "/").startswith(own)
        ]

    def fail(self, note: str = "", *, idempotency_key: str | None = None) -> Call[None]:
        """End a child and its job in the parent as failed."""
        yield from self._post("fail", {"note": note}, idempotency_key)

    def close(self, status: int = 0, *, if_idle: bool = False, idempotency_key: str | None = None) -> Call[None]:
        """End the instance with its jobs; if only idle, refuse with StillHeld if some run or wait."""
        yield from self._post("close", {"status": status, "if_idle": if_idle}, idempotency_key)

    def _place(self, operation: str) -> str:
        return of_graph(self.graph, f"instance/{operation}")

    def _post(self, operation: str, body: Mapping[str, Any], key: str | None) -> Call[Any]:
        given = {"instance": self.address, **body}
        return (yield post(self._place(operation), given, key=key or token_hex(16))).document()

    def _of_job(self, operation: str, job: AnyJob, body: Mapping[str, Any], key: str | None) -> Call[RemoteJob]:
        return RemoteJob((yield from self._post(operation, {"job": _id_of(job), **body}, key)))


def _id_of(job: AnyJob) -> str:
    return job.id if isinstance(job, RemoteJob) else str(job)


def concerns(event: Mapping[str, Any] | None, job: AnyJob) -> bool:
    """Whether an event may be about the end of a job; also None, with which a stream begins, and a gap in it."""
    if event is None or event["name"] != "instance":
        return event is None or event["name"] == "gap"
    wanted = fluid.decode(_id_of(job))
    return any(part["name"] == "clean" and fluid.decode(part["job"]) == wanted for part in event["context"]["parts"])
