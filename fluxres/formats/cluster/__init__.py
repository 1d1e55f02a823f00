"""``cluster.yaml``: the format of fluxres for people."""
