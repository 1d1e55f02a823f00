"""The options of `resource-query`, under its own names.

They are deliberately separate from the options of other commands, because scripts pass them to either program.
"""

from __future__ import annotations

import getopt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fluxres.errors import UsageError
from fluxres.fluxion import policies, pruning
from fluxres.fluxion.drawing import FORMS
from fluxres.fluxion.loading import FORMATS
from fluxres.fluxion.writers import WRITERS

RESERVE_MAX: Final = 2_000_000
"""Largest accepted value of `--reserve-vtx-vec`."""
SUBSYSTEMS: Final[dict[str, tuple[str, ...]]] = {
    "CA": ("containment",),
    "IBA": ("ibnet",),
    "IBBA": ("ibnetbw",),
    "PA": ("power",),
    "PFS1BA": ("pfs1bw",),
    "C+IBA": ("containment", "ibnet"),
    "C+IBBA": ("containment", "ibnetbw"),
    "C+PA": ("containment", "power"),
    "C+PFS1BA": ("containment", "pfs1bw"),
    "IB+IBBA": ("ibnet", "ibnetbw"),
    "C+P+IBA": ("containment", "power", "ibnet"),
    "V+PFS1BA": ("virtual1", "pfs1bw"),
    "VA": ("virtual1",),
    "ALL": ("containment", "ibnet", "ibnetbw", "pfs1bw", "power"),
}
"""Subsystems by name of matcher; the first one is walked, and jobs hold nothing in the others."""
TRAVERSERS: Final = ("simple", "flexible")
_SHORT = "hdeL:f:W:S:P:F:T:g:o:p:t:r:"
LONG: Final = {
    "help": "h",
    "disable-prompt": "d",
    "elapse-time": "e",
    "load-file=": "L",
    "load-format=": "f",
    "load-allowlist=": "W",
    "match-subsystems=": "S",
    "match-policy=": "P",
    "match-format=": "F",
    "traverser-policy=": "T",
    "graph-format=": "g",
    "graph-output=": "o",
    "prune-filters=": "p",
    "test-output=": "t",
    "reserve-vtx-vec=": "r",
}

USAGE: Final = f"""usage: fluxres query [OPTIONS]

Match resource requests typed on standard input on a graph, as Fluxion's resource-query does.

  -h, --help                    print this
  -L, --load-file=FILE          the graph (default: conf/default)
  -f, --load-format=FORMAT      {"|".join(FORMATS)} (default: grug)
  -W, --load-allowlist=TYPES    types to keep, separated by commas (hwloc only)
  -S, --match-subsystems=NAME   {"|".join(SUBSYSTEMS)} (default: CA)
  -P, --match-policy=POLICY     {"|".join(policies.POLICIES)},
                                or "policy=high|low node_centric=true node_exclusive=true stop_on_1_matches=true"
                                (default: first)
  -F, --match-format=FORMAT     {"|".join(WRITERS)} (default: simple)
  -T, --traverser-policy=NAME   {"|".join(TRAVERSERS)} (default: simple)
  -p, --prune-filters=LIST      HIGH:LOW[,HIGH:LOW...]: at HIGH, count LOW (default: {pruning.DEFAULT})
  -r, --reserve-vtx-vec=N       0 to {RESERVE_MAX}; accepted for compatibility, without effect
  -g, --graph-format=FORMAT     {"|".join(FORMS)} (default: dot), for -o
  -o, --graph-output=BASENAME   write the loaded graph to BASENAME.FORMAT, for drawing programs
  -e, --elapse-time             print how long each match took
  -d, --disable-prompt          no prompt
  -t, --test-output=FILE        results go to this file instead of standard output

Each line of standard input is a command; help lists them. The end of the input ends the program.
"""


@dataclass
class Options:
    load_file: str = "conf/default"
    load_format: str = "grug"
    allowlist: frozenset[str] = frozenset()
    subsystem: str = "containment"
    policy: policies.Policy = policies.POLICIES["first"]
    match_format: str = "simple"
    is_flexible: bool = False
    prune_filters: str | None = None
    elapse_time: bool = False
    prompt: bool = True
    test_output: str | None = None
    graph_format: str = "dot"
    graph_output: str | None = None
    wants_help: bool = False


def parse(words: Sequence[str]) -> Options:
    """Parse the options of a command line.

    Errors: UsageError for unknown options and invalid values.

    >>> parse(["-L", "a.graphml", "--match-policy=low", "-d"]).prompt
    False
    """
    try:
        found, rest = getopt.gnu_getopt(list(words), _SHORT, list(LONG))
    except getopt.GetoptError as error:
        raise UsageError(str(error), hint="fluxres query --help") from None
    if rest:
        raise UsageError(f"expected options only, got {rest[0]!r}", hint="fluxres query --help")
    options = Options()
    for name, value in found:
        letter = name[1:] if not name.startswith("--") else LONG.get(name[2:] + "=") or LONG[name[2:]]
        _set(options, letter, value)
    return options


def _set(options: Options, letter: str, value: str) -> None:
    if letter == "h":
        options.wants_help = True
    elif letter == "d":
        options.prompt = False
    elif letter == "e":
        options.elapse_time = True
    elif letter == "L":
        options.load_file = value
    elif letter == "f":
        options.load_format = _one_of(value, "load format", tuple(FORMATS))
    elif letter == "W":
        options.allowlist = frozenset(word for word in value.split(",") if word)
    elif letter == "S":
        options.subsystem = SUBSYSTEMS[_one_of(value.upper(), "matcher", tuple(SUBSYSTEMS))][0]
    elif letter == "P":
        options.policy = policies.parse(value)
    elif letter == "F":
        options.match_format = _one_of(value, "match format", tuple(WRITERS))
    elif letter == "T":
        options.is_flexible = _one_of(value, "traverser policy", TRAVERSERS) == "flexible"
    elif letter == "p":
        pruning.parse(value)
        options.prune_filters = ",".join(text for text in (options.prune_filters, value) if text)
    elif letter == "t":
        options.test_output = value
    elif letter == "r":
        if not (value.isascii() and value.isdecimal()) or len(value) > len(str(RESERVE_MAX)) or int(value) > RESERVE_MAX:
            raise UsageError(f"--reserve-vtx-vec: expected 0 to {RESERVE_MAX}, got {value!r}")
    elif letter == "g":
        options.graph_format = _one_of(value, "graph format", tuple(FORMS))
    else:
        options.graph_output = value


def _one_of(value: str, what: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UsageError(f"no {what} {value!r}", hint=f"one of {', '.join(known)}")
    return value
