"""The machine that this is: its nodes, cores and memory, as far as this process may use them."""

from __future__ import annotations

import os

from fluxres.formats.format import Loaded
from fluxres.graph import uuids
from fluxres.graph.recipe import Recipe, expand


def this_machine() -> Loaded:
    """The machine that this process runs on."""
    host, cpus = os.uname().nodename, sorted(os.sched_getaffinity(0))
    cores = tuple(Recipe("core", ids=number, properties={"cpus": str(number)}) for number in cpus)
    page, pages = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    memory = Recipe("memory", size=(page * pages) >> 20, unit="MiB")
    node = Recipe("node", names=[host], children=(*cores, memory))
    return Loaded(expand(Recipe("cluster", name=host, children=(node,)), origin=uuids.new_origin()), [], host)
