"""The systems whose users bring their files and requests: HyperQueue, canary, CTest, JQM, and the pools of Flux.

Each has a folder with its language, the readers and writers of its files, and its allocator.  An allocator works on the values of
its own language, without a graph: users of these systems expect the same index, the same instance, the same refusal, and their
rules differ from each other and from a graph's (best fit and worst fit, stacks and backtracking, three kinds of refusal).

`entries` describes the formats, `requests` reads requests for a graph, and the `inventory` modules turn hosts and their stocks
into a machine and back.  What a peer system's pool forbids a request on a graph is in :mod:`fluxres.match.peer_rules`.
"""
