"""Policy engines, each in a process group of its own.

In the service:           `engine` (starts and calls an engine process), `forkserver` (starts the fork server)
In an engine process:     `prompts` (makes tokens of them), `sent_weights` (reads a folder's tensors)
Between the processes:    `wire` (the messages)

The processes' own code is beside it in `process`, and what generates there in `vllm`, and in `transformers` for what
vLLM does not know.
"""
