"""Nested instances by hand: a machine, a scheduler over it, and schedulers over parts of it.

Run it with ``python data/examples/nested.py``.  Nothing really runs: the script sets the clock and says which jobs have
finished.  ``fluxres hierarchy`` does the same with processes.
"""

from pathlib import Path

import fluxres
from fluxres.instance import State
from fluxres.render import listings

now = 0.0
machine = fluxres.load(Path(__file__).parents[1] / "clusters" / "demo.yaml")
top = fluxres.Instance(machine, queue_policy="easy", match_policy="low", clock=lambda: now, name="site")


def show(what: str) -> None:
    """Print the present state, and verify that the rules hold."""
    print(f"-- {what}")
    print("\n".join(listings.instances(top)))
    assert top.check() == []


# Two jobs get nodes, and each becomes a scheduler over what it got (RFC 4 Copy): one for many short jobs, one for a workflow.
ensemble = top.submit("slot=4/node{x}", duration_s=3600, name="ensemble")
workflow = top.submit("slot=2/node{x}", duration_s=7200, name="workflow")
many = top.spawn(ensemble.id, queue_policy="fcfs", inventory="auto")
steps = top.spawn(workflow.id, queue_policy="hybrid:depth=8", match_policy="high")
for _ in range(200):
    many.submit("slot=1/core", duration_s=60)
first = steps.submit("slot=1/node", duration_s=600, name="prepare")
second = steps.submit("slot=2/node", duration_s=600, name="solve", dependencies=[f"afterok:{first.id}"])
show(f"two children; {second.name} waits for {first.name}")

# A child may have children of its own, to any depth.
inner = steps.spawn(first.id, queue_policy="conservative")
inner.submit("slot=2/core", duration_s=30)
show(f"{inner.address} has a part of {steps.address}")

# While it runs, it may request more from its parent (Merge), and return what it does not need (Unlink).
added = many.grow("slot=1/node{x}")
show(f"{many.address} has grown by {', '.join(added)}")
now = 60.0
while many.jobs(State.RUN):
    for job in many.jobs(State.RUN):
        many.finish(job)
many.shrink(added)
show(f"its {sum(job.result == 'completed' for job in many.jobs())} jobs are done, and it has given that back")

# However a child ends, its parent gets everything back (rule N1).
inner.fail("it lost its way")
show(f"{first.name} {first.result}; {second.name}, which waited for it, {second.result}")
top.cancel(workflow.id)
many.close()
show(f"{workflow.name} {workflow.result}, {ensemble.name} {ensemble.result}")
assert top.graph.jobs() == []
