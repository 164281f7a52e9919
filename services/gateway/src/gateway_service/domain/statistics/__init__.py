"""Statistics of experiments: pure functions from sums over units to estimates, intervals and conclusions."""
