"""transformers as an engine, for architectures that vLLM does not know; see `engines`.

In an engine process: `transformers_engine` (answers calls), `batches` (draws tokens in transformers' `generate`),
`weights` (checks that the model has those it was sent), `trials` (tries out whether `generate` is right for it)
"""
