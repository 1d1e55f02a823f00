"""Small languages, text ↔ values: idset, hostlist, duration, moment, name template, find criteria; and those of requests.

`jobspec` (RFC 14, RFC 25) reads a request from plain values, which `shape` (RFC 46) and `options` make from text. It uses
`range` (RFC 45), `count`, `constraint` (RFC 31), `constraint_query` (RFC 35) and `unit`. `flat_request` reduces a request to
what simple schedulers use. `fluid` (RFC 19) reads job ids. `idset`, `hostlist` and `resource_set` (RFC 20) each have a class
with set operations.

Each module is a pair of pure functions (`parse`, and `format` or `str`) that does not depend on a graph, a file or a clock.
They are in one package because every layer above reads or prints these texts, and all layers must write the same list in the
same way.
"""
