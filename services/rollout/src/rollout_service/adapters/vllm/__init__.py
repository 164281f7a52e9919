"""A policy engine made of vLLM, in a process group of its own.

`engine` is the parent's side; `engine_main` is the child, which alone imports vLLM; `wire` is what they say to each
other; `extension` and `probe` run inside vLLM's workers.
"""
