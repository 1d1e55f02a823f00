"""Tables of pools: CSV and Parquet."""

from __future__ import annotations

from typing import Final

from fluxres.formats.format import ALL, Format, never

FORMATS: Final = (
    Format(
        "csv",
        "table of pools, CSV",
        (".csv",),
        never,
        writer="fluxres.formats.tables.write:write_csv",
        carries=ALL - {"graphs", "capacities", "allocations", "reservations"},
        loses="auxiliary graphs and the pools that are only in them; full sizes that a copy reduced; allocations; reservations",
    ),
    Format(
        "parquet",
        "table of pools, Parquet (needs pyarrow)",
        (".parquet",),
        never,
        writer="fluxres.formats.tables.write:write_parquet",
        carries=ALL - {"graphs", "capacities", "allocations", "reservations"},
        loses="auxiliary graphs and the pools that are only in them; full sizes that a copy reduced; allocations; reservations",
    ),
)
