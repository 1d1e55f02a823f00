"""Every bound of fluxres, each with its reason.

A bound is there so that no input, however it was made, costs more than a refusal.  They stand far above
the largest machines of today; a site that meets one changes it here, and nowhere else.  Each has a test
that hits it.
"""

from __future__ import annotations

from typing import Final

POOLS_MAX: Final = 64_000_000
"""Pools in one graph: vertex numbers are int32, and 64 M pools already take 3 GB of columns."""

DEPTH_MAX: Final = 64
"""Levels of has-a: real machines have about ten; recursion over levels stays far below Python's own limit."""

KINDS_MAX: Final = 4_000_000
"""Different (type, basename, unit, name, properties) combinations in one graph."""

TYPES_MAX: Final = 65_535
"""Resource types of one graph: their numbers are a column of uint16, and requests name a few dozen."""

ORIGINS_MAX: Final = 65_535
"""Different uuid bases in one graph: the column is uint16, and its last value marks explicit uuids in comparisons."""

SIZE_MAX: Final = 2**62 - 1
"""Units of one pool: sums over windows stay in int64. 4 EiB when the unit is a byte."""

CAPACITY_MAX: Final = 2**53
"""Units that an edge with a limit carries: a capacity is a float, which has every whole number up to here, and not all beyond."""

ID_MAX: Final = 2**62 - 1
"""Largest numeric id of a pool (int64 column)."""

NAME_LENGTH_MAX: Final = 255
"""Characters of a name, type, basename, unit, property or tag key: what a host name may have."""

INSTANCE_NAME_LENGTH_MAX: Final = 64
"""Characters of the name of an instance: addresses of instances are made of up to `INSTANCE_DEPTH_MAX` of them."""

VALUE_LENGTH_MAX: Final = 4096
"""Characters of a property or tag value."""

NUMBER_MAX: Final = 10**300
"""Above every whole number that is a value: Python takes quadratic time for the digits of longer ones, and then refuses."""

JOB_ID_LENGTH_MAX: Final = 255
"""Characters of a job id."""

WATCH_SECONDS_MIN: Final = 0.5
WATCH_SECONDS_MAX: Final = 86_400.0
"""Between two pictures of `--watch`: each reads the store."""

INTERRUPT_GRACE_SECONDS: Final = 3.0
"""After Ctrl-C, so that another one does not interrupt what the first one has a command clean up."""

CHART_ROWS_MAX: Final = 1_000
"""Rows of a picture: browsers and people give up beyond."""

CHART_JOBS_MAX: Final = 1_000
"""Rows of a chart of jobs that changed their size: as many as it has pixels, and more."""

CHART_STEPS_MAX: Final = 2_000
"""Points of a curve of starts: more than it has pixels."""

CHART_LEGEND_MAX: Final = 24
"""Colours in the legend of a picture."""

CHART_WIDTH_MAX: Final = 20_000
"""Columns or pixels of a picture."""

RESERVATIONS_MAX: Final = 1_000
"""Maintenance reservations of one graph: each change that gives something back looks at all of them."""

RESERVATION_WINDOWS_MAX: Final = 1_000
"""Windows of a reservation that repeats: every week for 19 years."""

RESERVATION_SPANS_MAX: Final = 50_000
"""Windows of a reservation times its pools: each is a record that every command reads, about 50 ms for a thousand of them."""

EDGES_MAX: Final = 64_000_000
"""Edges of one auxiliary graph."""

EDGE_ATTRIBUTES_MAX: Final = 256
"""Attributes that edges of one auxiliary graph have: each is a column with a cell for every edge, be it empty."""

RELATIONS_MAX: Final = 65_536
"""Different relations in one auxiliary graph: the column is uint16."""

SUBSYSTEMS_MAX: Final = 256
"""Auxiliary graphs of one resource graph."""

DOCUMENT_BYTES_MAX: Final = 1 << 30
"""Bytes of one input document: JGF of the largest machines is 250 MB."""

UNCOMPRESSED_BYTES_FREE: Final = 64 << 20
"""Bytes that any compressed document may become, however small it is."""

UNCOMPRESSED_RATIO_MAX: Final = 200
"""Times a larger compressed document may grow: text of the most regular machines shrinks to a hundredth, bombs to less."""

DOCUMENT_DEPTH_MAX: Final = 200
"""Nesting of YAML and JSON values: has-a levels take two each."""

DOCUMENT_VALUES_MAX: Final = 20_000_000
"""YAML values after aliases are followed: an alias bomb ends here."""

YAML_BYTES_MAX: Final = 64 << 20
"""Bytes of one YAML document: its parser takes seconds for a megabyte, where JSON's takes milliseconds."""

TOML_BYTES_MAX: Final = 1 << 19
"""Bytes of one TOML document: Python's parser takes up to two seconds for a megabyte, and configurations have a few kilobytes."""

ALIASED_VALUES_MAX: Final = 1_000_000
"""Values that the aliases of one YAML document stand for: they cost nothing to write and everything to check."""

RECIPES_MAX: Final = 1_000_000
"""Entries of a cluster file after its parts are followed: parts that use parts twice double at every level."""

PARTITIONS_MAX: Final = 4096
"""Partitions of a cluster file: sites have a few dozen, and each is a mask of the nodes where it is asked for."""

SELECTED_MAX: Final = 4_000_000
"""Pools that one selector of an edge or allocation names, repeats counted: each is met in Python."""

INCLUDE_DEPTH_MAX: Final = 16
"""Files that include files: deeper is a mistake."""

IDSET_COUNT_MAX: Final = 16_777_216
"""Members of one idset or hostlist written in text: `[0-999999999]` is refused instead of expanded."""

BITMAP_INDEX_MAX: Final = (1 << 24) - 1
"""Largest index set in a bitmap of hwloc: its memory grows with the index, not with what is in it (2 MB here)."""

RANKS_MAX: Final = 262_144
"""Ranks of one resource set: the largest machine of today has 158,976 nodes, and a few bytes of text could name any number."""

CONFIG_HOSTS_MAX: Final = 524_288
"""Hosts that all `[[resource.config]]` tables name together: the ranks there can be, twice; half a second's work."""

SLURM_NODES_MAX: Final = 131_072
"""Nodes of one Slurm site: twice what Slurm itself manages, and each is an object while the site is read."""

SLURM_NAMES_MAX: Final = 524_288
"""Names in all lines of a Slurm site, when expanded: hosts, also of ALL and of sets, features, settings of partitions.
Defaults and ranges multiply them; ten thousand nodes in fifty partitions are as many, and half a second's work."""

SLURM_ENTRIES_MAX: Final = 262_144
"""Sorts of Slurm nodes times what distinguishes them, properties and generic resources: sites have a few dozen sorts."""

GRES_LINES_MAX: Final = 512
"""Lines of gres.conf about one node: a few for each device; all of them are looked through for each node."""

CPUS_MAX: Final = 16_384
"""CPU and NUMA numbers of the local machine are below it: Linux is built for at most 8,192 CPUs; a mask is a set in memory."""

DETECTED_FILE_BYTES_MAX: Final = 4 << 20
"""Bytes of one file in /proc or /sys, and of the output of a program, while the local machine is detected: /proc/cpuinfo of 512
CPUs has one megabyte."""

DETECTED_ENTRIES_MAX: Final = 4_096
"""Names of one directory in /proc or /sys that are read while the local machine is detected: it has some dozens of GPUs."""

DETECTION_PROGRAM_S: Final = 5.0
"""Seconds that nvidia-smi may take to list the GPUs: one or two with a driver that sleeps, no end with one that is broken."""

HOSTLIST_RANGE_MAX: Final = 1_048_576
"""Hosts of one bracket range, as flux-core's own hostlist has it."""

CRITERIA_LENGTH_MAX: Final = 65_536
"""Characters of a find criteria text."""

CRITERIA_DEPTH_MAX: Final = 64
"""Nesting of parentheses and `not` in criteria: the parser recurses over it."""

BREAKPOINTS_MAX: Final = 2_000_000
"""Moments at which a timeline changes: one block of rows is kept for each."""

PENDING_EVENTS_MAX: Final = 1_000_000
"""Events kept for `save --changed-only`; past it the next save has to be a full one, and says so."""

PATH_CACHE_MAX: Final = 65_536
"""Parent paths remembered by a graph (about 10 MB at most)."""

NEAREST_MAX: Final = 100_000
"""Names that an unknown one is compared with."""

STAGE_SECONDS_DEFAULT: Final = 60.0
"""Life of a stage that is not committed: a scheduler that dies must not lock pools forever."""

SAVED_PLACES_MAX: Final = 64
"""Places a graph was saved to that are remembered: what happened since the earliest of these saves is kept for it."""

LOG_EVENTS_MAX: Final = 100_000
"""Events of one graph that a store keeps for `log`; older ones are in the snapshot and are dropped with the next one."""

LOG_BYTES_MAX: Final = 256 << 20
"""Bytes of those events: a job of a million cores is an event of megabytes."""

MISTAKES_MAX: Final = 20
"""Mistakes of a document that are listed; the others are counted. A screen has twenty messages at most."""

PIPE_WAIT_S: Final = 5.0
"""How long to wait for the first byte of a pipe with a name: a program that nobody started never writes."""

ETCD_LEASE_SECONDS: Final = 6
"""How long the lock of a store in etcd outlives a process that died or is paused, while others wait for it."""

ETCD_CONNECT_SECONDS: Final = 3.0
"""How long to wait for a connection to a server of an etcd before the next one is tried."""

ETCD_REQUEST_SECONDS: Final = 10.0
"""How long to wait for an answer of etcd, which itself gives up a commit after seven seconds."""

ETCD_DEFRAGMENT_SECONDS: Final = 300.0
"""How long to wait until a server of an etcd is defragmented: it rewrites its file, of up to 8 GB."""

POSTGRESQL_CONNECTIONS_MAX: Final = 8
"""Connections to PostgreSQL that all graphs of a process share, and as many for its places in the queue of writers. A server of
PostgreSQL allows 100 by default."""

POSTGRESQL_DEAD_SECONDS: Final = 20
"""How long a connection to PostgreSQL may get no sign of life from the host of its server; then it ends."""

ETCD_VALUE_BYTES_MAX: Final = 1 << 20
"""Bytes of one value; what is larger is cut. By default etcd refuses requests above 1.5 MiB."""

ETCD_REQUEST_BYTES_MAX: Final = 5 << 18
"""Bytes of one request to etcd: 1.25 MiB."""

ETCD_OPERATIONS_MAX: Final = 100
"""Operations of one request to etcd, which by default refuses more than 128."""

LOCK_WAIT_SECONDS_DEFAULT: Final = 30.0
"""How long a command waits for another one that writes to the same store."""

TIME_MAX_S: Final = 4_000_000_000_000.0
"""Largest time in seconds (126,000 years): in microseconds it stays below 2**62."""

COUNT_MAX: Final = 2**62 - 1
"""Largest count, bound or operand in a request: no pool has more units (`SIZE_MAX`), and sums of two stay in int64."""

REQUEST_DEPTH_MAX: Final = 80
"""Levels of `with` in a request: `DEPTH_MAX` levels of has-a and some slots between; the reader recurses once a level."""

REQUEST_VERTICES_MAX: Final = 100_000
"""Resource vertices of one request: YAML aliases and generated files could name more than any matcher would look at."""

REQUEST_VALUES_MAX: Final = 1_000_000
"""Values in the attributes of one request, as often as aliases repeat them: a copy is kept with the request."""

REQUEST_TEXT_MAX: Final = 65_536
"""Characters of a shape or a constraint query: both are typed on command lines."""

CONSTRAINT_DEPTH_MAX: Final = 64
"""Nesting of and, or and not in a constraint: readers and evaluators recurse over it."""

MATCH_STEPS_MAX: Final = 100_000
"""Choices a match may take back (seconds): parts of a request that compete for the same pools are a hard problem in general."""

WHY_STEPS_MAX: Final = 50_000
"""Choices that all searches which explain one refusal may take back (seconds): each smaller count that is tried is a search."""

ASSIGNMENT_STEPS_MAX: Final = 20_000
"""Numbers of tasks that one pass of the queue policy `hyperqueue` tries (half a second): packing workers is a hard problem."""

ROUTE_HOPS_MAX: Final = 1_000_000
"""Hops that stay known of routes to pools that requests named (some hundred MB); past that they are found again."""

TOGETHER_MAX: Final = 10_000
"""Requests at once: each is matched with what the others got out of reach, and again for every start that is tried."""

TYPED_LINE_MAX: Final = 1 << 20
"""Characters of one line typed into `fluxres query`: `multi-match` takes thousands of files, and no more is kept."""

VARIANTS_MAX: Final = 1_000
"""Ways to write out the `xor_slot`s of one request: each is searched for in turn (Fluxion has the same bound)."""

SLOTS_MIXED_MAX: Final = 200
"""Slots of several alternatives made below one vertex: choosing the mix takes a round for each."""

MIXES_MAX: Final = 10_000
"""Mixes of alternative slots looked at in one round; beyond, those that use the alternatives written first."""

WHY_POOLS_MAX: Final = 256
"""Pools examined one by one for each reason of a refusal: their jobs, what is missing in them. Numbers count all pools."""

WHY_NAMES_MAX: Final = 4
"""Jobs and pools that a sentence about a refusal names; the values have all that were found."""

COMPARED_MAX: Final = 1000
"""Known values that a wrong one is compared with: with more of them a hint takes too long."""

CHOICES_MAX: Final = 50
"""Names that a hint lists for one that does not exist: a store may have thousands of graphs."""

OUTCOMES_KEPT: Final = 100_000
"""Jobs that are over whose success an instance remembers, for dependencies on them."""

FINISHED_KEPT: Final = 10_000
"""Finished jobs that an instance without a sink keeps to be looked at; older ones are forgotten."""

PASS_ACTIONS_MAX: Final = 64
"""Starts and reservations per waiting job in one pass of a queue policy: one that needs more does not come to an end."""

PASS_IDLE_ROUNDS_MAX: Final = 1_000
"""Rounds in a row, besides one for each job that waits, in which a queue policy starts nothing and changes the queue: such a pass
does not come to an end."""

PASS_GROWTH_MAX: Final = 10_000
"""Jobs that a queue policy may submit in one pass, besides one for each job that waits: with more, it does not come to an end."""

INSTANCE_DEPTH_MAX: Final = 32
"""Instances within instances: no machine has as many levels, and a child costs a copy of its part."""

PASS_SECONDS_MAX: Final = 60.0
"""Seconds that one call of somebody else's queue policy may take in programs that run jobs, really or in simulated time; the
longest of ours take milliseconds."""

OFFER_WAVES_MAX: Final = 1_000
"""Times that one call offers a tree of instances what its passes have left of common suppliers: policies that always reserve
something else would never end. What is left is offered by the next call."""

JOBS_LISTED_MAX: Final = 2_000_000
"""Jobs of one list, `count` expanded: each is an object that is kept until its turn comes. Generators have no bound."""

JOB_SIZES_MAX: Final = 1024
"""Sizes that one moldable job may have: a size policy may try all of them in each pass."""

BLOCKED_MAX: Final = 10_000
"""Times of units out of service and of reservations that a simulation keeps for charts."""

RUNS_MAX: Final = 100_000
"""Runs of one study: each has a folder of files; lists that vary multiply quickly."""

INSTANCE_PROCESSES_MAX: Final = 1_024
"""Instances of one hierarchy of processes: each is an interpreter of 60 MB that takes a third of a second to begin."""

MESSAGE_BYTES_MAX: Final = 32_768
"""Bytes of one message between instances: two fit into a pipe, so that a writer never waits for a reader that is busy."""

SIGN_OF_LIFE_S: Final = 0.5
"""Seconds between two words of a child instance."""

SILENCE_SECONDS_DEFAULT: Final = 120.0
"""Seconds without a word after which a child instance is given up: a pass over a hundred thousand jobs may take as long."""

GRACE_SECONDS_DEFAULT: Final = 3.0
"""Seconds between SIGTERM and SIGKILL for a job that has to end."""

RUN_GRACE_SECONDS_DEFAULT: Final = 10.0
"""Seconds between SIGTERM and SIGKILL for a program of `fluxres run`: it may have to write what it has computed."""

RUN_LEASE_SECONDS_DEFAULT: Final = 60.0
"""Life of the lease of a program started through a server: so long after its host has gone, what it holds is free."""

RUN_LEASE_SECONDS_MIN: Final = 1.0
"""Shortest lease of a program: it is renewed after a third of it, and a busy machine must manage that."""

RUN_RELEASE_SECONDS: Final = 10.0
"""Seconds for which a run tries to give back what it held to a server that does not answer: one that restarts is there again."""

PRIORITY_MAX: Final = 2**31 - 1
"""Greatest priority in the queue of `fluxres run`."""

QUEUE_PLACED_MAX: Final = 64
"""Waiting requests that a pass of the queue places one by one (milliseconds each); past them, none overtakes another."""

QUEUE_WATCHERS: Final = 3
"""Waiting processes that watch those who hold something: one is enough, unless it is stopped or killed."""

QUEUE_LOOK_SECONDS: Final = 60.0
"""Seconds after which a waiting process looks by itself, in case nothing has woken it."""

QUEUE_ASK_SECONDS: Final = 5.0
"""Seconds after which a waiting process asks a store in a database server how it stands: processes of other users and machines
cannot wake it."""

CORRECTIONS_MAX: Final = 100_000
"""Corrections of the predicted run time of one job: a corrector that gives it hardly more time each time would take for ever."""

ATTEMPTS_MAX: Final = 10_000
"""Interrupted attempts of one simulated job: one that is requeued sooner than it can run would take for ever."""

IDLE_EVENTS_MAX: Final = 10_000
"""External events, such as failures of a model without end, in a row that leave nothing to wait for but the next one."""

IDLE_WAKEUPS_MAX: Final = 100_000
"""Passes in a row that a queue policy asks for in a simulation, and that start nothing, while nothing else is to come."""

NODE_WATTS_MAX: Final = 1_000_000
"""Draw of a simulated node: a megawatt, more than a rack.  In microwatts, a million of them fit into 64 bits."""

POWER_CAP_WATTS_MAX: Final = 10**12
"""Power cap of a simulation: what a million nodes of `NODE_WATTS_MAX` draw."""

BOOT_MESSAGES_MAX: Final = 10_000
"""Messages of one child that boots in a simulation, each of which is two events."""

FIT_STARTS_MAX: Final = 10_000
"""Different starts that a fit of measured decisions remembers; more do not change which terms it can tell apart."""

FIT_STARTS_LISTED_MAX: Final = 64
"""Starts that a fit which cannot tell terms apart lists as those that it describes; it refuses others."""

START_WAIT_SECONDS: Final = 60.0
"""Seconds after which a run starts although others are starting: one of them may be stopped."""

OVERRUN_TICKS: Final = 60_000_000
"""Ticks by which a job that runs on is extended beyond its end each time somebody looks."""

JOBS_NAMED_MAX: Final = 32
"""Jobs that the refusal of a new description names in its sentence; its value has all of them."""

POOLS_IN_THE_WAY_MAX: Final = 1_000
"""Pools in the way of an allocation of named pools that its refusal gives."""

UNDO_BYTES_MAX: Final = 64 << 20
"""Bytes of a graph up to which the store keeps its previous version for `undo`: El Capitan has a fifth of a megabyte."""

HTML_ROWS_MAX: Final = 60
"""Rows of a table in a notebook, as pandas has it: the rest is counted."""

SERVICE_BODY_BYTES_MAX: Final = 1 << 20
"""Bytes of the body of a request to the service, other than a description of a machine: a jobspec of thousands of vertices."""

SERVICE_DOCUMENT_BYTES_MAX: Final = 64 << 20
"""Bytes of a description of a machine that the service loads: they are in memory at once, several requests at a time."""

SERVICE_BODY_SECONDS_MAX: Final = 30.0
"""Seconds in which the body of a request arrives: a client that sends a byte now and then would keep its connection for ever."""

SERVICE_SEND_SECONDS_MAX: Final = 20.0
"""Seconds in which a client takes a part of an answer: who does not read is dropped, and can resume an event stream."""

SERVICE_PAGE_DEFAULT: Final = 100
"""Items of one page of the service, if the request does not say."""

SERVICE_PAGE_MAX: Final = 1_000
"""Items of one page of the service: a page of pools takes some milliseconds, in which nobody else is answered."""

SERVICE_STREAMS_MAX: Final = 10_000
"""Event streams that are open at a time: each is a connection of some kilobytes."""

SERVICE_EVENTS_READ_MAX: Final = 1_000
"""Events that the service reads from the journal at once for its streams."""

WAIT_STATUS_MAX: Final = 65_535
"""Largest wait status of a job: an exit status and a signal have a byte each."""

SERVICE_INSTANCES_MAX: Final = 64
"""Instances that the service keeps for a graph: each looks at every change of it."""

SERVICE_INSTANCE_JOBS_MAX: Final = 10_000
"""Jobs of such an instance that have not ended: a server that takes over reads all of them."""

SERVICE_WAITING_MAX: Final = 512
"""Requests that wait for a thread of the service: beyond, it says so instead of answering late."""

SERVICE_QUESTION_SECONDS_MAX: Final = 10.0
"""Seconds that a question or the search for a match may take in the service: a graph answers one at a time."""

SERVICE_KEYS_KEPT: Final = 10_000
"""Idempotency keys whose answers the service remembers: a client repeats a request within seconds."""

SERVICE_KEPT_BYTES_MAX: Final = 16 << 10
"""Bytes of an answer that the store keeps for its idempotency key: 10,000 of them are 160 MiB at most, and 5 MiB as a rule."""

SERVICE_LEASE_SECONDS_DEFAULT: Final = 7.5
"""Life of a server's lease on its store: a standby server takes over within 10 s, of which it needs a second to notice."""

SERVICE_LEASE_SECONDS_MIN: Final = 0.5
SERVICE_LEASE_SECONDS_MAX: Final = 3_600.0
"""Between these: a busy machine must manage to renew a lease after a third of its life."""

CHILD_LEASE_SECONDS_DEFAULT: Final = 30.0
"""Life of the lease of a child: so long after its machine has gone, its parent has everything back."""

CHILD_LEASE_SECONDS_MIN: Final = 0.5
CHILD_LEASE_SECONDS_MAX: Final = 86_400.0
"""Between these: a busy store must manage to renew a lease after a third of its life."""

SERVICE_FOLLOW_SECONDS: Final = 15.0
"""How long a client looks for the server that leads: a take-over takes up to 10 s."""

SERVICE_RESUME_SECONDS: Final = 60.0
"""How long a client that follows events waits for a server that restarts, or for another one."""

SERVICE_CLIENT_CONNECTIONS_MAX: Final = 100
"""Connections of one asyncio client at once, without event streams; further requests wait for one. A server makes one change at a
time anyway, and an operating system may allow a process 1,024 open files."""

SERVICE_KEY_LENGTH_MAX: Final = 255
"""Characters of an idempotency key."""

SERVICE_LOG_LINES_MAX: Final = 10_000
"""Lines of the log that wait until standard error is read: some MB. More are dropped, and counted."""

SERVICE_DRAIN_SECONDS: Final = 10.0
"""Seconds in which the service ends what it is doing after SIGTERM; event streams end at once."""

TOKENS_MAX: Final = 1_000
"""Tokens of a service: each request is compared with all of them."""

TOKEN_LENGTH_MIN: Final = 16
"""Characters of a token: shorter ones can be guessed."""
