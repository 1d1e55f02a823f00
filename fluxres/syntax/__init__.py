"""Small languages, text ↔ values: idset, hostlist, duration, moment, name template, find criteria.

Each module is a pure function pair (`parse`, and `format` or `str`) that knows no graph, no file and no clock.
They stand together because every layer above reads or prints these texts, and two spellings of one list must not differ
by who printed it.
"""
