"""HyperQueue: its languages, the descriptions of its workers, and the variables of its tasks."""
