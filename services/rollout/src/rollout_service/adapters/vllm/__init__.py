"""A policy engine made of vLLM, in a process group of its own.

In the service:           `engine` (starts and calls an engine process), `forkserver` (starts the fork server)
In the fork server:       `forkserver_main` (imports vLLM once, forks the engine processes)
In an engine process:     `engine_main` (answers calls), `vllm_engine` (vLLM itself)
In the workers of vLLM:   `extension` (loads new weights), `probe` (checks that vLLM computes with them)
Between the processes:    `wire` (the messages)
"""
