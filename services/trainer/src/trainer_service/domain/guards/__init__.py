"""Guards: they look at the metrics of a run's steps, and warn of it or stop it."""
