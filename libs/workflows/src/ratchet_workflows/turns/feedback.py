"""When enough feedback has come for another turn."""

import time
from collections.abc import Callable
from datetime import datetime

from ratchet_client import Client, Unreachable
from ratchet_workflows.turns.records import Record

RETRY_S = 60.0
"""Between two looks."""


def wait_for_feedback(
    client: Client,
    model: str,
    wanted: int,
    latest: Record | None,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """Returns once this many answers have a score, to requests since the latest turn began; ever, without one. What it
    returns is for the record. `say` gets a line when the count has changed, and while nothing answers."""
    since = datetime.fromisoformat(latest.begin_time) if latest else None
    seen = -1
    while True:
        try:
            scored = client.count_feedback(model, since)
        except Unreachable as error:
            say(str(error))
        else:
            if scored >= wanted:
                return f"feedback-{scored}"
            if scored != seen:
                say(f"{scored} of {wanted} answers of {model} have a score{f' since {since:%F %T}' if since else ''}.")
            seen = scored
        sleep(RETRY_S)
