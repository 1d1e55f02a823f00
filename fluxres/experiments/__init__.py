"""Studies: one page that describes many simulations, run, resumed, compared and reported (specs/experiments.md)."""
