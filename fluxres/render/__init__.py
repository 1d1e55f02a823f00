"""Output for people: tables, trees, folded names, amounts; and the plain values that ``--json`` prints.

Nothing here prints, reads a terminal or knows a command. Values go in, lines of text come out, so a terminal, a pipe and a
document get the same text; a terminal only adds colour.
"""
