"""The processes that engines run in.

`forkserver_main` imports vLLM once and forks the others; `engine_main` chooses the library that generates, and answers
calls.
"""
