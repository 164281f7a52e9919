"""Refusals of an engine. Its process tells the service, which raises the error of `ratchet_kit.errors`."""

NO_LENGTH = (
    "the model's config does not say how long its texts may be: write max_position_embeddings into its config.json, or"
    " give max_model_len"
)


class RequestRefused(Exception):
    """The request does not fit the model; `field` is its path in the public request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class WeightsRefused(Exception):
    """The weights do not fit the model, or the engine does not compute with them."""
