"""What people see: tables, trees, folded names, amounts; and the plain values that ``--json`` prints.

Nothing here prints, reads a terminal or knows a command.  Values go in, lines of text come out, so that the same
text stands on a terminal, in a pipe and in a document; a terminal only adds colour.
"""
