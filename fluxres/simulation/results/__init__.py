"""Results as text, percentiles, unit numbers for charts, and what jobs drew from suppliers."""
