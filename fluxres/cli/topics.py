"""What `fluxres help TOPIC` shows: the documents in specs/ or parts of them, which a wheel contains.

Every message that points to a document names a topic.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

from fluxres.errors import UsageError


class Topic(NamedTuple):
    """A document, or parts of it.

    Args:
        summary: a line.
        file: the document.
        parts: sections (`## Exit status`), or paragraphs from a bold word on (`**Times**`); all of it without any.
    """

    summary: str
    file: str
    parts: tuple[str, ...] = ()


_COMMANDS: Final = "cli.md"
TOPICS: Final = {
    "tasks": Topic("twenty tasks of a site's day, with their output", "tasks.md"),
    "habits": Topic("what you type in Slurm, Flux, lstopo, kubectl or HyperQueue, and here", "habits.md"),
    "options": Topic("the options of every command", _COMMANDS, ("## Everywhere",)),
    "pools": Topic("how to name pools and amounts", _COMMANDS, ("**Pools**",)),
    "requests": Topic("shapes, short options, jobspecs", _COMMANDS, ("**Requests**", "## Options of a request")),
    "times": Topic("times, durations, windows", _COMMANDS, ("**Times**", "**Durations**")),
    "output": Topic("tables, CSV, JSON, resource sets", _COMMANDS, ("**Tables**", "**CSV**", "**JSON**", "**Resource sets**")),
    "status": Topic("exit statuses and errors", _COMMANDS, ("## Exit status",)),
    "criteria": Topic("the language of find and --find", "criteria.md"),
    "cluster": Topic("how to describe a machine in YAML", "cluster-yaml.md"),
    "file-formats": Topic("all file formats, and what each can express", "formats.md"),
    "this-machine": Topic("how the local machine is detected", "this-machine.md"),
    "hwloc": Topic("files of lstopo, and the local machine by libhwloc", "hwloc.md"),
    "matching": Topic("how requests are matched, and the match policies", "matching.md"),
    "stores": Topic("files, PostgreSQL and etcd, and how to back them up", "store.md"),
    "service": Topic("the HTTP API, its clients, tokens and limits", "service.md"),
    "programs": Topic("programs in allocations: environment, queue, what happens if one is killed", "run.md"),
    "rules": Topic("the invariants that check tests", "rules.md"),
    "peer-systems": Topic("HyperQueue, canary, CTest and JQM: their requests and variables", "seed-systems.md"),
    "instances": Topic("schedulers and queue policies", "instances.md"),
    "running": Topic("which of simulate, experiment, instance run and hierarchy is for what", "studies.md"),
    "simulation": Topic("input formats, metrics and costs of simulations", "simulation.md"),
    "studies": Topic("the files that experiment reads", "experiments.md"),
    "accounting": Topic(
        "partitions, QOS, accounts and users of a simulation or an instance: limits and priorities", "accounting.md"
    ),
    "processes": Topic("nested instances as processes", "hierarchy.md"),
    "resource-query": Topic("fluxres-query, the replacement for Fluxion's resource-query", "fluxion-conformance.md"),
    "glossary": Topic("the terms", "glossary.md"),
}
ALSO: Final = {
    "experiments": "studies",
    "study": "studies",
    "simulations": "simulation",
    "workloads": "simulation",
    "metrics": "simulation",
    "costs": "simulation",
    "policies": "instances",
    "queue-policies": "instances",
    "match-policies": "matching",
    "nesting": "instances",
    "hierarchies": "processes",
    "shapes": "requests",
    "jobspec": "requests",
    "durations": "times",
    "api": "service",
    "http": "service",
    "errors": "status",
    "invariants": "rules",
    "limits": "accounting",
    "words": "glossary",
}
"""Other names of topics, which people try as well."""
_FOLDERS: Final = (Path(__file__).parents[1] / "topics", Path(__file__).parents[2] / "specs")
"""Where the documents are: in an installed package, in a clone."""
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)#\s]*)(?:#[^)\s]*)?\)")
_NAMED: Final = re.compile(r"`specs/([\w-]+\.md)`")
_ASIDE: Final = re.compile(rf"\s\({_LINK.pattern}\)")


def text(name: str) -> str:
    """The Markdown of a topic, whose links name topics.

    Errors: UsageError if the document is not installed.
    """
    topic = TOPICS[name]
    found = next((folder / topic.file for folder in _FOLDERS if (folder / topic.file).is_file()), None)
    if found is None:
        raise UsageError("the text of this topic is not installed", where=name, hint="install fluxres again from its wheel")
    document = found.read_text(encoding="utf-8")
    whole = document if not topic.parts else "\n\n".join(filter(None, (_part(document, part) for part in topic.parts)))
    whole = _ASIDE.sub(_installed, re.sub(r"<!--.*?-->\n?", "", whole, flags=re.DOTALL))
    return _LINK.sub(_pointing, _NAMED.sub(r"[\1](\1)", whole)).strip() + "\n"


def _part(document: str, part: str) -> str:
    """A section without the paragraphs that are topics of their own, or a paragraph and those up to the next bold word."""
    if part.startswith("**"):
        found = re.search(rf"^{re.escape(part)}.*?(?=^\*\*[A-Z]|^## |\Z)", document, re.MULTILINE | re.DOTALL)
    else:
        found = re.search(rf"^{re.escape(part)}\n.*?(?=^\*\*[A-Z]|^## |\Z)", document, re.MULTILINE | re.DOTALL)
    return "" if found is None else found[0].strip()


def _topic_of(file: str) -> str | None:
    last = file.rpartition("/")[2]
    return next((name for name, topic in TOPICS.items() if topic.file == last and not topic.parts), None)


def _installed(aside: re.Match[str]) -> str:
    """A link in parentheses, unless it is to a document that is not installed."""
    return aside[0] if _topic_of(aside[2]) is not None or "://" in aside[2] or not aside[2] else ""


def _pointing(link: re.Match[str]) -> str:
    """The words of a link, and the command that shows what it points to."""
    words, name = link[1], _topic_of(link[2])
    if name is None:
        if "://" in link[2]:
            return f"{words} ({link[2]})"
        return f"{words} of the sources" if words.endswith(".md") else words
    shown = f"`fluxres help {name}`"
    return shown if words.endswith(".md") else f"{words} ({shown})"
