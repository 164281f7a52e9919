"""vLLM as an engine; see `engines`.

In an engine process:     `vllm_engine` (vLLM itself), `parsers` (reads thoughts and calls of tools)
In the workers of vLLM:   `extension` (loads new weights), `patch` (applies what changed), `probe` (checks both)
"""
