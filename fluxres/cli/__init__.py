"""The command `fluxres`: one small module per command, and what they share.

A command parses words into calls of the Python API, and formats the results as text. It makes no decisions about resources, so a
program can do whatever a command can do, with the same calls.
"""
