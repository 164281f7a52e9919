"""Policy engines, each in a process group of its own.

In the service:         `engine` (starts and calls an engine process), `forkserver` (starts the fork server)
In the fork server:     `forkserver_main` (imports vLLM once, forks the engine processes)
In an engine process:   `engine_main` (chooses the engine, answers calls), `prompts` (makes tokens of them)
Between the processes:  `wire` (the messages)

The engines themselves are beside it: `vllm`, and `transformers` for what vLLM does not know.
"""
