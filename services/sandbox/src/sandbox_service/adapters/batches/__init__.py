"""The store of batches: in SQL (`sql`, `tables`) and in memory (`memory`)."""
