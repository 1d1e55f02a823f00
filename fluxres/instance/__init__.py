"""Scheduler instances: a queue, a policy and children over one resource graph (specs/instances.md)."""

from fluxres.instance.instance import Instance
from fluxres.instance.job import Job, JobId
from fluxres.instance.queue import Queue, QueuePolicy
from fluxres.instance.runner import Runner
from fluxres.instance.states import State

__all__ = ["Instance", "Job", "JobId", "Queue", "QueuePolicy", "Runner", "State"]
