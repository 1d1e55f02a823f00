"""Instances: schedulers with a queue on a graph, which the server keeps with the jobs in them.

Each route is a method of :class:`fluxres.Instance`. Questions are asked in the thread that changes the graph, too: an instance
first does what was due, so that an answer is never older than the question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final

from litestar import Response, get, post
from litestar.params import JSONBody, QueryParameter
from msgspec.json import encode

from fluxres.errors import UnknownJob
from fluxres.instance import Instance, accounting
from fluxres.instance.saved import require_policy
from fluxres.model import ResourceGraph, targets
from fluxres.render import documents
from fluxres.service import answers, requests
from fluxres.service.access import Role
from fluxres.service.kept import Keep
from fluxres.service.replies import CHILD, Asked, T, caller_of, json, keys_of, site_of
from fluxres.service.routes.changes import ADMIN, SCHEDULER
from fluxres.service.routes.questions import PAGE, After, Limit, OfGraph
from fluxres.service.served import Served
from fluxres.store.child import gone
from fluxres.syntax import fluid

READ: Final = {"role": Role.READ_ONLY}
Address = Annotated[str, QueryParameter(name="instance", description="Its address: a name, or a name and ids of jobs.")]


async def _made(
    request: Asked, graph: str, operation: Callable[[Served, ResourceGraph], bytes], keep: Keep | None
) -> tuple[bytes, str]:
    """Do something with the instances of a graph."""
    caller, site = caller_of(request), site_of(request)
    caller.require_whole("an instance")
    site.leadership.require()
    said, expected, mark = f"{request.method} {request.url.path}", request.headers.get("if-match"), request.headers.get(CHILD)
    with gone(graph, mark):
        return await site.change(graph, caller, said, expected, lambda g: operation(site.served_as(g), g), keep, mark)


async def _ask(request: Asked, graph: str, kind: type[T], address: str, question: Callable[[Instance], object]) -> Response[T]:
    """Answer a question about an instance. Errors: UnknownJob, also if the outermost one ends with it."""
    has_ended = False

    def ask(one: Instance) -> object:
        nonlocal has_ended
        has_ended = one.outermost.is_closed
        return None if has_ended else question(one)

    def operation(served: Served, g: ResourceGraph) -> bytes:
        return encode(served.instances.operate(g, address, "", ask))

    made = await _made(request, graph, operation, None)
    if has_ended:  # its end is in the store: an error within the change would undo that
        raise UnknownJob(f"no instance '{address:.80}'", where=f"graph '{graph}'", hint="it has just ended")
    return json(kind, *made)


async def _change(
    request: Asked, graph: str, kind: type[T], data: requests.InInstance, operation: Callable[[Instance], object]
) -> Response[T]:
    """Change an instance once, and answer with the document that the operation returns."""
    what = request.url.path.rpartition("/")[2]

    def make(served: Served, g: ResourceGraph) -> bytes:
        return encode(served.instances.operate(g, data.instance, what, operation))

    return json(kind, *await keys_of(request).once(request, lambda keep: _made(request, graph, make, keep)))


async def _of_job(
    request: Asked, graph: str, data: requests.OfJob, operation: Callable[[Instance], object]
) -> Response[answers.InstanceJob]:
    """Change a job, and answer with what it is then."""

    def change(one: Instance) -> dict[str, Any]:
        operation(one)
        return documents.instance_job(one.job(data.job))

    return await _change(request, graph, answers.InstanceJob, data, change)


def _note(text: str) -> str:
    """A reason, which may be empty. Errors: UsageError."""
    return targets.label(text or None, "note") or ""


@get("/instances", opt=READ, operation_id="instances")
async def instances(request: Asked, graph: OfGraph) -> Response[answers.Instances]:
    """The instances of the graph, each with all below it."""

    def operation(served: Served, g: ResourceGraph) -> bytes:
        found = []
        for name in served.instances.names():
            found += served.instances.operate(g, name, "", lambda top: [documents.instance(one) for one in top.walk()])
        return encode({"instances": found})

    return json(answers.Instances, *await _made(request, graph, operation, None))


@post("/instances", opt=SCHEDULER, status_code=201, operation_id="createInstance")
async def create(request: Asked, graph: OfGraph, data: JSONBody[requests.CreateInstance]) -> Response[answers.Instance]:
    """Begin an instance on the graph. Its jobs are run by other programs, which report their end with `finish`."""

    def operation(served: Served, g: ResourceGraph) -> bytes:
        rules = None if data.accounting is None else accounting.of(data.accounting)
        made = served.instances.create(g, data.name, data.queue_policy, data.match_policy, rules, data.unit)
        return encode(documents.instance(made))

    made = await keys_of(request).once(request, lambda keep: _made(request, graph, operation, keep))
    return json(answers.Instance, *made, status=201)


@get("/instance", opt=READ, operation_id="instance")
async def instance(request: Asked, graph: OfGraph, address: Address) -> Response[answers.Instance]:
    """An instance."""
    return await _ask(request, graph, answers.Instance, address, documents.instance)


@get("/instance/jobs", opt=READ, operation_id="instanceJobs")
async def jobs(
    request: Asked,
    graph: OfGraph,
    address: Address,
    in_state: Annotated[str | None, QueryParameter(name="state", description="Only jobs in this state: RUN, pending, ….")] = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Response[answers.InstanceJobs]:
    """The jobs of an instance that have not ended, and the latest that have."""

    def question(one: Instance) -> dict[str, Any]:
        found = one.jobs(*([] if in_state is None else [in_state]))
        begun = -1 if after is None else fluid.decode(after)
        page = [job for job in found if job.number > begun][: limit + 1]
        more = str(page[limit - 1].id) if len(page) > limit else None
        return {"count": len(found), "jobs": [documents.instance_job(job) for job in page[:limit]], "next": more}

    return await _ask(request, graph, answers.InstanceJobs, address, question)


@get("/instance/job", opt=READ, operation_id="instanceJob")
async def job(
    request: Asked, graph: OfGraph, address: Address, job: Annotated[str, QueryParameter(description="Its id.")]
) -> Response[answers.InstanceJob]:
    """A job of an instance."""
    return await _ask(request, graph, answers.InstanceJob, address, lambda one: documents.instance_job(one.job(job)))


@get("/instance/check", opt=READ, operation_id="checkInstance")
async def check(request: Asked, graph: OfGraph, address: Address) -> Response[answers.Problems]:
    """Problems of an instance and those below it, by the rules."""
    return await _ask(
        request, graph, answers.Problems, address, lambda one: {"problems": [documents.problem(each) for each in one.check()]}
    )


@post("/instance/submit", opt=SCHEDULER, status_code=200, operation_id="submit")
async def submit(request: Asked, graph: OfGraph, data: JSONBody[requests.Submit]) -> Response[answers.InstanceJob]:
    """Submit a job; it may have started with the answer."""
    caller = caller_of(request)

    def operation(one: Instance) -> dict[str, Any]:
        given: dict[str, Any] = {"duration_s": data.duration_s, "urgency": data.urgency, "dependencies": data.dependencies}
        given |= {"account": data.account, "qos": data.qos, "partition": data.partition, "payload": data.payload}
        who = caller.name if data.user is None else data.user
        return documents.instance_job(one.submit(data.wanted, **given, name=data.name, user=who))

    return await _change(request, graph, answers.InstanceJob, data, operation)


@post("/instance/reserve", opt=SCHEDULER, status_code=200, operation_id="reserveAhead")
async def reserve(request: Asked, graph: OfGraph, data: JSONBody[requests.ReserveAhead]) -> Response[answers.InstanceJob]:
    """Reserve ahead: a job that starts at a given time, on what no other job gets until its end."""
    caller = caller_of(request)

    def operation(one: Instance) -> dict[str, Any]:
        who = caller.name if data.user is None else data.user
        given: dict[str, Any] = {"start_s": data.start_s, "duration_s": data.duration_s, "pools": data.pools}
        return documents.instance_job(one.reserve(data.wanted, **given, name=data.name, user=who, payload=data.payload))

    return await _change(request, graph, answers.InstanceJob, data, operation)


@post("/instance/cancel", opt=SCHEDULER, status_code=200, operation_id="cancelJob")
async def cancel(request: Asked, graph: OfGraph, data: JSONBody[requests.CancelJob]) -> Response[answers.InstanceJob]:
    """End a job that waits or runs, with all jobs in its child."""
    note = _note(data.note)
    return await _of_job(request, graph, data, lambda one: one.cancel(data.job, note))


@post("/instance/finish", opt=SCHEDULER, status_code=200, operation_id="finishJob")
async def finish(request: Asked, graph: OfGraph, data: JSONBody[requests.FinishJob]) -> Response[answers.InstanceJob]:
    """Report the end of a job: what it holds is free from now on."""
    return await _of_job(request, graph, data, lambda one: one.finish(data.job, data.status))


@post("/instance/exception", opt=SCHEDULER, status_code=200, operation_id="raiseException")
async def exception(request: Asked, graph: OfGraph, data: JSONBody[requests.Raise]) -> Response[answers.InstanceJob]:
    """Raise an exception on a job (RFC 21)."""
    kind, note = targets.label(data.kind, "kind") or "", _note(data.note)
    return await _of_job(request, graph, data, lambda one: one.exception(data.job, kind, data.severity, note))


@post("/instance/requeue", opt=SCHEDULER, status_code=200, operation_id="requeueJob")
async def requeue(request: Asked, graph: OfGraph, data: JSONBody[requests.CancelJob]) -> Response[answers.InstanceJob]:
    """Stop a running job, which waits again."""
    note = _note(data.note)
    return await _of_job(request, graph, data, lambda one: one.requeue(data.job, note))


@post("/instance/set_urgency", opt=SCHEDULER, status_code=200, operation_id="setUrgency")
async def set_urgency(request: Asked, graph: OfGraph, data: JSONBody[requests.SetUrgency]) -> Response[answers.InstanceJob]:
    """Change the urgency of a job that waits, and so its place in the queue."""
    return await _of_job(request, graph, data, lambda one: one.set_urgency(data.job, data.urgency))


@post("/instance/set_duration", opt=SCHEDULER, status_code=200, operation_id="setDuration")
async def set_duration(request: Asked, graph: OfGraph, data: JSONBody[requests.SetDuration]) -> Response[answers.InstanceJob]:
    """Change the limit of a job."""
    return await _of_job(request, graph, data, lambda one: one.set_duration(data.job, data.duration_s, data.urgency))


@post("/instance/add_dependency", opt=SCHEDULER, status_code=200, operation_id="addDependency")
async def add_dependency(request: Asked, graph: OfGraph, data: JSONBody[requests.AddDependency]) -> Response[answers.InstanceJob]:
    """Let a job that waits wait for something more."""
    return await _of_job(request, graph, data, lambda one: one.add_dependency(data.job, data.dependency))


@post("/instance/spawn", opt=SCHEDULER, status_code=200, operation_id="spawn")
async def spawn(request: Asked, graph: OfGraph, data: JSONBody[requests.Spawn]) -> Response[answers.Instance]:
    """Begin a child on what a running job holds; it ends with the job, and the job with it."""

    def operation(one: Instance) -> dict[str, Any]:
        policy = None if data.queue_policy is None else require_policy(data.queue_policy)
        made = one.spawn(data.job, queue_policy=policy, match_policy=data.match_policy, name=data.name)
        return documents.instance(made)

    return await _change(request, graph, answers.Instance, data, operation)


@post("/instance/grow", opt=SCHEDULER, status_code=200, operation_id="growInstance")
async def grow(request: Asked, graph: OfGraph, data: JSONBody[requests.GrowInstance]) -> Response[answers.Paths]:
    """Get more for a child from its parent."""
    return await _change(request, graph, answers.Paths, data, lambda one: {"paths": one.grow(data.wanted)})


@post("/instance/shrink", opt=SCHEDULER, status_code=200, operation_id="shrinkInstance")
async def shrink(request: Asked, graph: OfGraph, data: JSONBody[requests.ShrinkInstance]) -> Response[answers.Paths]:
    """Return pools of a child to its parent."""
    return await _change(request, graph, answers.Paths, data, lambda one: {"paths": one.shrink(data.wanted)})


@post("/instance/set_state", opt=ADMIN, status_code=200, operation_id="setStateInInstance")
async def set_state(request: Asked, graph: OfGraph, data: JSONBody[requests.SetPoolState]) -> Response[answers.Instance]:
    """Set the state of pools of an instance, here and in the children that have them."""

    def operation(one: Instance) -> dict[str, Any]:
        one.set_state(data.where, data.state, requeue=data.requeue)
        return documents.instance(one)

    return await _change(request, graph, answers.Instance, data, operation)


@post("/instance/set_expiration", opt=SCHEDULER, status_code=200, operation_id="setExpiration")
async def set_expiration(request: Asked, graph: OfGraph, data: JSONBody[requests.SetExpiration]) -> Response[answers.Instance]:
    """Set when an instance ends with all its jobs."""

    def operation(one: Instance) -> dict[str, Any]:
        one.set_expiration(data.at_s)
        return documents.instance(one)

    return await _change(request, graph, answers.Instance, data, operation)


@post("/instance/measure_in", opt=SCHEDULER, status_code=200, operation_id="measureIn")
async def measure_in(request: Asked, graph: OfGraph, data: JSONBody[requests.MeasureIn]) -> Response[answers.Instance]:
    """Measure the size of jobs, which limits and priorities count, in units of a type."""

    def operation(one: Instance) -> dict[str, Any]:
        one.measure_in(data.type_name)
        return documents.instance(one)

    return await _change(request, graph, answers.Instance, data, operation)


@post("/instance/fail", opt=SCHEDULER, status_code=200, operation_id="failInstance")
async def fail(request: Asked, graph: OfGraph, data: JSONBody[requests.FailInstance]) -> Response[answers.Closed]:
    """End a child and its job in the parent as failed."""
    note = _note(data.note)

    def operation(one: Instance) -> dict[str, Any]:
        address = one.address
        one.fail(note)
        return {"closed": address}

    return await _change(request, graph, answers.Closed, data, operation)


@post("/instance/close", opt=SCHEDULER, status_code=200, operation_id="closeInstance")
async def close(request: Asked, graph: OfGraph, data: JSONBody[requests.CloseInstance]) -> Response[answers.Closed]:
    """End an instance: its jobs are canceled, and a child gives back what it has."""

    def operation(one: Instance) -> dict[str, Any]:
        address = one.address
        one.close(data.status, if_idle=data.if_idle)
        return {"closed": address}

    return await _change(request, graph, answers.Closed, data, operation)


ROUTES: Final = (
    instances,
    create,
    instance,
    jobs,
    job,
    check,
    submit,
    reserve,
    cancel,
    finish,
    exception,
    requeue,
    set_urgency,
    set_duration,
    add_dependency,
    spawn,
    grow,
    shrink,
    set_state,
    set_expiration,
    measure_in,
    fail,
    close,
)
