"""The examples in the help of commands.

They work on `data/clusters/demo.yaml`, where j1 holds cores and GPUs in /demo/rack0/node0.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """A command line and what it does."""

    what: str
    command: str


EXAMPLES: Final[dict[str, tuple[Example, ...]]] = {
    "load": (
        Example("Load a machine and give it a name", "fluxres load data/clusters/demo.yaml --name mine"),
        Example("Load the machine that you are on", "fluxres load this-machine"),
        Example("Start over with the machine in the file", "fluxres load data/clusters/demo.yaml --replace"),
    ),
    "graphs": (
        Example("List the graphs of the store", "fluxres graphs"),
        Example("Use another graph from now on", "fluxres graphs use spare"),
        Example("Remove a graph", "fluxres graphs drop spare"),
    ),
    "store": (
        Example("Check the whole store", "fluxres store check"),
        Example("Copy it while others write to it", "fluxres store backup site-backup.db"),
        Example("Write it to one file, for a store of another kind", "fluxres store dump site.jsonl"),
    ),
    "info": (
        Example("Totals of the machine, and how much is free", "fluxres info"),
        Example("What is free in a rack tomorrow, for two hours", "fluxres info /demo/rack0 --start +1d --duration 2h"),
        Example("The supplies of a hierarchy", "fluxres info power:/"),
    ),
    "run": (
        Example("See what a program with a GPU and four cores would get", "fluxres run -c4 -g1 --no-bind --dry-run"),
        Example("Run it, and wait for the GPU if necessary", "fluxres run -c4 -g1 --no-bind --wait -- hostname"),
        Example("In the words of HyperQueue, for ten minutes", "fluxres run --resources 'gpus=1 cpus=2' --no-bind -t 10m -- env"),
    ),
    "shell": (Example("A shell with two cores, until it ends", "fluxres shell -c2 --no-bind -- -c 'echo $FLUXRES_JOB'"),),
    "serve": (
        Example("For the programs of this machine", "fluxres serve"),
        Example("On another port, with a log of the requests in JSON", "fluxres serve --port 7391 --log-requests --json-log"),
    ),
    "ps": (
        Example("What runs, and what waits", "fluxres ps"),
        Example("The same for programs", "fluxres ps --json"),
    ),
    "wait": (Example("Wait until a job has ended", "fluxres wait old"),),
    "cancel": (
        Example("End a job, and free what it holds", "fluxres cancel old"),
        Example("Kill it at once", "fluxres cancel old --grace 0"),
    ),
    "show": (
        Example("Draw the machine", "fluxres show"),
        Example("Everything about a node", "fluxres show /demo/rack0/node0"),
        Example("Draw the power supply", "fluxres show --subsystem power"),
    ),
    "find": (
        Example("Nodes that are up", "fluxres find 'type=node and state=up'"),
        Example(
            "Memory with 32 GiB free, in the second rack", "fluxres find 'type=memory and available>=32 and under=/demo/rack1'"
        ),
        Example(
            "Paths of the cores that are free for an hour", "fluxres find 'type=core and available>0' --duration 1h -o folded"
        ),
    ),
    "when": (
        Example("The earliest start of four nodes for an hour", "fluxres when slot=4/node --duration 1h"),
        Example("Eight exclusive nodes, tomorrow at the earliest", "fluxres when -N8 -x --start +1d --duration 2h"),
    ),
    "why": (
        Example("Why eight exclusive nodes are not free", "fluxres why -N8 -x --duration 1h"),
        Example("Whether this machine can ever run a request", "fluxres why slot=9/node"),
    ),
    "nodes": (
        Example("Nodes by partition and state", "fluxres nodes"),
        Example("Why nodes take no work", "fluxres nodes --reasons"),
        Example("Two nodes", "fluxres nodes 'node[0-1]'"),
    ),
    "timeline": (
        Example("The next day", "fluxres timeline"),
        Example("One rack over the next week, a row for each job", "fluxres timeline /demo/rack0 --duration 7d --by job"),
        Example("A picture", "fluxres timeline --svg timeline.svg"),
    ),
    "diff": (
        Example("What a changed description would change", "fluxres diff data/clusters/demo.yaml"),
        Example("The same for programs", "fluxres diff data/clusters/demo.yaml --json"),
    ),
    "apply": (
        Example("See what would change, without changing it", "fluxres apply data/clusters/demo.yaml --dry-run"),
        Example("Change it; drain what is gone and in use", "fluxres apply data/clusters/demo.yaml --drain"),
    ),
    "undo": (
        Example("Take the last change back", "fluxres undo"),
        Example("Make it again", "fluxres undo --redo"),
    ),
    "reserve": (
        Example("Maintenance of a rack for two hours", "fluxres reserve /demo/rack1 --start +1d --duration 2h --name cooling"),
        Example("Although jobs run there", "fluxres reserve node7 --duration 1h --ignore-running"),
        Example("List the reservations", "fluxres reserve"),
    ),
    "jobs": (
        Example("All jobs", "fluxres jobs"),
        Example("Jobs on a node", "fluxres jobs --on node0"),
        Example("One job as a resource set of Flux", "fluxres jobs j1 -o R"),
    ),
    "log": (
        Example("The last ten events", "fluxres log --limit 10"),
        Example("The history of a job", "fluxres log --job j1"),
    ),
    "allocate": (
        Example("Two whole nodes for two hours", "fluxres allocate '/demo/rack1/node[4-5]' --job j2 --duration 2h"),
        Example("Two slots with four cores and a GPU each", "fluxres allocate 'slot=2/[core=4;gpu=1]' --job j2"),
        Example(
            "With options as in flux run; reserved if it cannot start now",
            "fluxres allocate -N8 -x --job j2 --duration 1h --or-reserve",
        ),
    ),
    "free": (
        Example("All that a job holds", "fluxres free j1"),
        Example("From now on, so that its past is kept", "fluxres free j1 --start now"),
        Example("Purge what has ended", "fluxres free --ended"),
    ),
    "grow": (
        Example("Another node, until the job ends", "fluxres grow j1 slot/node"),
        Example("Eight units of a pool", "fluxres grow j1 /demo/rack0/node1/socket0/memory=8"),
    ),
    "shrink": (
        Example("Two of its cores", "fluxres shrink j1 slot=2/core"),
        Example("A pool by name", "fluxres shrink j1 /demo/rack0/node0/socket0/core0"),
    ),
    "extend": (
        Example("Half an hour more", "fluxres extend j1 +30m"),
        Example("End two hours from now", "fluxres extend j1 --end +2h"),
    ),
    "state": (
        Example("No new work on a node; its jobs go on", "fluxres state /demo/rack0/node0 drain"),
        Example("Everything below a rack up again", "fluxres state --find 'under=/demo/rack0' up"),
    ),
    "tag": (
        Example("Mark two nodes", "fluxres tag '/demo/rack0/node[0-1]' reason=fan"),
        Example("Find them", "fluxres find tag=reason"),
        Example("Remove a tag", "fluxres tag --find tag=reason reason --remove"),
    ),
    "merge": (
        Example("A new rack from a file", "fluxres merge rack.yaml --as /demo/rack7"),
        Example("A graph of the store, such as a copy of what was unlinked", "fluxres merge part"),
    ),
    "unlink": (
        Example("A rack with all its nodes", "fluxres unlink /demo/rack1"),
        Example("Only from the power supply", "fluxres unlink power:/pdu1/rack1"),
    ),
    "move": (
        Example("A node to the other rack", "fluxres move /demo/rack1/node4 /demo/rack0"),
        Example("To another supply", "fluxres move power:/pdu1/rack1 power:/pdu0"),
    ),
    "edge": (
        Example("Another cable", "fluxres edge add network:/leaf0 network:/leaf1 --subsystem network"),
        Example("A new graph with its first edge", "fluxres edge add /demo/rack0 /demo/rack1 --subsystem cooling --new graph"),
        Example("Remove an edge", "fluxres edge remove network:/spine network:/leaf0 --subsystem network"),
    ),
    "copy": (
        Example("What is free in a rack, as a graph", "fluxres copy /demo/rack0 --as rack0"),
        Example("What a job holds, as a file", "fluxres copy --job j1 --as j1.yaml"),
    ),
    "child": (
        Example("Another node of the parent", "fluxres child grow part -N1 -x"),
        Example("A node back to the parent", "fluxres child shrink part /demo/rack0/node1"),
        Example("End it", "fluxres child end part"),
    ),
    "check": (
        Example("The graph in use", "fluxres check"),
        Example("A file, without loading it", "fluxres check data/clusters/demo.yaml"),
    ),
    "simulate": (
        Example("A model, planned with predictions", "fluxres simulate lublin:jobs=200,size=32 --machine 32 --predict tsafrir"),
        Example(
            "Two instances below one, that balance", "fluxres simulate ensemble:jobs=50 --machine core=8 -T 2 --balance steal"
        ),
        Example("A workflow, whose stages are instances", "fluxres simulate data/examples/workflow.yaml --machine core=8"),
    ),
    "workload": (
        Example("A trace as a list of jobs", "fluxres workload trace.swf jobs.yaml --unit core"),
        Example("A month out of the users of a trace", "fluxres workload resample:file=trace.swf,weeks=4,by=user month.swf"),
        Example("The jobs of a model", "fluxres workload lublin:jobs=4,size=8 -"),
    ),
    "experiment": (
        Example("The runs of a study", "fluxres experiment show data/experiments/levels.yaml"),
        Example("Run them, or what is left of them", "fluxres experiment run study.yaml --out results"),
        Example("Write the report again", "fluxres experiment report results"),
    ),
    "instance": (
        Example("Begin a scheduler on the graph in use", "fluxres instance create main --queue-policy fairshare"),
        Example("List the schedulers of the graph", "fluxres instance list"),
        Example("Jobs of a model, in real time", "fluxres instance run ensemble:jobs=4,run=0.1s --machine 2"),
    ),
    "hierarchy": (
        Example("The instances of two topologies, without running them", "fluxres hierarchy -N 16 -c 8 -T 2 -T 2x2 --dry-run"),
        Example("Compare one instance with two below it", "fluxres hierarchy -N 4 -c 4 -T 2 -J 64 --job sleep:0.01"),
    ),
    "stage": (
        Example("Lock two nodes for five minutes", "fluxres stage slot=2/node --job j2 --ttl 5m"),
        Example("Allocate what is locked", "fluxres stage --commit s0"),
        Example("List the locks", "fluxres stage"),
    ),
    "save": (
        Example("The graph with its allocations as a file", "fluxres save backup.yaml.gz"),
        Example("A rack as JSON graph format", "fluxres save rack0.json --path /demo/rack0 --format jgf"),
    ),
    "convert": (
        Example("A machine as a resource set", "fluxres convert data/clusters/demo.yaml R.json --to R"),
        Example("A drawing for Graphviz", "fluxres convert data/clusters/demo.yaml demo.dot"),
    ),
    "formats": (
        Example("All formats", "fluxres formats"),
        Example("What one of them carries", "fluxres formats jgf -o wide"),
    ),
    "completion": (
        Example("In this shell", 'eval "$(fluxres completion bash)"'),
        Example("For fish, in every shell", "fluxres completion fish > fluxres.fish"),
    ),
    "help": (
        Example("A command", "fluxres help allocate"),
        Example("The language of find", "fluxres help criteria"),
    ),
}

OF_SUBCOMMANDS: Final[dict[str, tuple[Example, ...]]] = {
    "instance submit": (
        Example("Two nodes for an hour", "fluxres instance submit -N2 -x -t 1h"),
        Example("After another job, if that completes", "fluxres instance submit slot=8/core --dependency afterok:ƒA"),
    ),
    "instance reserve": (
        Example("Two nodes tomorrow", "fluxres instance reserve -N2 -x --start +1d --duration 2h"),
        Example("A rack by name", "fluxres instance reserve /demo/rack1 --start +2d --duration 4h --name demo"),
    ),
    "instance update": (
        Example("An hour more for a job", "fluxres instance update ƒA --duration +1h"),
        Example("A limit of two hours from its start", "fluxres instance update ƒA --duration 2h"),
        Example("Release a held job", "fluxres instance update ƒB --urgency 16"),
    ),
    "instance cancel": (Example("End a job", 'fluxres instance cancel ƒA --note "wrong input"'),),
    "instance spawn": (Example("A scheduler on what a job holds", "fluxres instance spawn ƒA --name stage --queue-policy fcfs"),),
    "instance grow": (
        Example("Another node for a nested instance", "fluxres instance grow main/ƒA -N1 -x"),
        Example("A node by name", "fluxres instance grow main/ƒA /demo/rack1/node7"),
    ),
    "instance shrink": (Example("A node back to the parent", "fluxres instance shrink main/ƒA /demo/rack0/node1"),),
}
"""Those of single subcommands: in the instance main of the demo, ƒA runs on two nodes, and ƒB is held.  Any other subcommand has
those of its group in which it is used."""
