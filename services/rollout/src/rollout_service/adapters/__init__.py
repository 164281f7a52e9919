"""The domain's ports for real (vLLM, fsspec, the disk) and in memory for unit tests."""
