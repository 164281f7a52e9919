"""Lanes: processes that run programs in isolation, one at a time. `pool` is the executor port, for real."""
