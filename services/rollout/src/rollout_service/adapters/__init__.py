"""The ports of the domain: real ones (vLLM, fsspec, the disk), and ones in memory for tests."""
