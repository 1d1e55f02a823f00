"""HyperQueue: its languages, the descriptions of its workers, and how a worker allocates."""
