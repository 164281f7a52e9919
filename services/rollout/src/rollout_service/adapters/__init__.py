"""The ports of the domain: real ones (vLLM, transformers, fsspec, the disk), and ones in memory for tests."""
