"""The work on a run: its job driven from start to registration, its reports, its trackers, its leftovers."""
