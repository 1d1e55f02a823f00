"""``cluster.yaml``: the format of fluxres for people."""

from __future__ import annotations

from typing import Final

from fluxres.formats.detection import keys
from fluxres.formats.format import ALL, Format

FORMATS: Final = (
    Format(
        "cluster",
        "fluxres cluster file, YAML or JSON",
        (".yaml", ".yml"),
        lambda head: "fluxres" in keys(head),
        reader="fluxres.formats.cluster.read:read",
        writer="fluxres.formats.cluster.write:write",
        carries=ALL,
    ),
)
