"""Small languages, text ↔ values: idset, hostlist, duration, moment, name template, find criteria; and those of requests.

A request is read by `jobspec` (RFC 14, RFC 25) from plain values, which `shape` (RFC 46) and `options` make of text, with
`range` (RFC 45) and `count`, `constraint` (RFC 31), `constraint_query` (RFC 35) and `unit` beside it; `flat_request` is what
simple schedulers make of one.  `fluid` (RFC 19) reads job ids.  `idset`, `hostlist` and `resource_set` (RFC 20) have a class each
for sets and lists that are computed with.

Each module is a pure function pair (`parse`, and `format` or `str`) that knows no graph, no file and no clock.
They stand together because every layer above reads or prints these texts, and two spellings of one list must not differ
by who printed it.
"""
