"""The command `fluxres`: one small module per command, and what they share.

A command turns words into calls of the face, and answers into text.  It decides nothing about resources itself, so
that whatever a command can do, a program can do with the same calls.
"""
