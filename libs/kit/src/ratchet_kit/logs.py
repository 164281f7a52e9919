"""Structured logs: one JSON object a line, on stderr, with the ids of the request and of the run it is about."""

import logging
import sys
from typing import Any

import structlog

bind = structlog.contextvars.bind_contextvars
"""bind(run_id=...): every later line of this task, and of those it starts, carries it."""
bound = structlog.contextvars.bound_contextvars
"""with bound(run_id=...): the same, for a block."""
context = structlog.contextvars.get_contextvars
"""The ids that are bound now."""


def configure(service: str, level: str = "INFO") -> None:
    """Sends structlog's and the standard library's logs to stderr as JSON. May be called again.

    Raises:
        ValueError: `level` is not one of DEBUG, INFO, WARNING, ERROR, CRITICAL.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r} is not known: use DEBUG, INFO, WARNING, ERROR or CRITICAL")

    def add_service(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"] = service
        return event

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        add_service,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.stdlib.PositionalArgumentsFormatter(),
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = _StderrHandler()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(default=str),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    # It logs every request at INFO, and a worker polls twice a second.
    logging.getLogger("httpx").setLevel(max(number, logging.WARNING))


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to what is `sys.stderr` at that moment: tests exchange it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger: `log.info("run.started", run_id=run.id)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
