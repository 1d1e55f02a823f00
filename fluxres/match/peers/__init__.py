"""How peer systems choose: HyperQueue, canary, CTest, JQM and the pools of Flux, each by its own rules.

A user of one of them expects the same index, the same instance, the same refusal.  Their rules differ from each other and from a
graph's (best fit and worst fit, stacks and backtracking, refusals in three words), so each stands here as it is, over the values
of its own language and without a graph; the tests of those systems are the measure.  What a pool of theirs forbids a request on
a graph is in `rules`.
"""
