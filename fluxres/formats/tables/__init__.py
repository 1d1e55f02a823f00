"""Tables of pools: CSV and Parquet."""
