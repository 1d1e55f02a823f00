"""The formats of Flux: JGF, R, `[resource]` tables and GRUG recipes."""
