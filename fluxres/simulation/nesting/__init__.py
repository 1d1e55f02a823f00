"""Instances inside instances: levels, shares, balancing, growth, and the processor of each instance."""
