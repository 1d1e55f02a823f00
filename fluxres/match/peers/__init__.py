"""How peer systems choose resources: HyperQueue, canary, CTest, JQM and the pools of Flux, each by its own rules.

Users of these systems expect the same index, the same instance, the same refusal.  Their rules differ from each other and from a
graph's (best fit and worst fit, stacks and backtracking, three kinds of refusal), so each is implemented as it is, on the values
of its own language and without a graph, and is measured by the tests of that system.  What the pool of a peer system forbids a
request on a graph is in `rules`.
"""
