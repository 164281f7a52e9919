"""Work that is due once in each period: periods are counted from 1970-01-01 00:00 UTC, so a day begins at 00:00 UTC."""

import re
import time
from collections.abc import Callable

from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import stderr
from ratchet_client import ApiError, Unreachable
from ratchet_workflows.errors import WorkflowError

UNITS = {"m": 60, "h": 3600, "d": 86_400}
RETRY_S = 60.0


def period_of(text: str, option: str = "--every") -> int:
    """Seconds of "30m", "6h", "1d". Raises CommandError."""
    found = re.fullmatch(r"([1-9]\d{0,4})([mhd])", text)
    if not found:
        raise CommandError(f"{option} {text}: a number of minutes, hours or days, as 30m, 6h, 1d.", code=2)
    return int(found[1]) * UNITS[found[2]]


def repeat(
    period: int,
    work: Callable[[int], None],
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Calls `work` with the number of the present period at once, and with each later one when it begins; a period that
    begins while it works is left out. Never returns. An error is printed, and where the platform did not answer the
    period is tried again; an error of the first time is raised, since it may be the command's."""
    turn, is_first = int(now()) // period, True
    while True:
        try:
            work(turn)
        except Unreachable as error:
            if is_first:
                raise
            _say(error)
            sleep(RETRY_S)
            continue
        except (ApiError, CommandError, WorkflowError) as error:
            if is_first:
                raise
            _say(error)
        is_first = False
        turn = max(turn + 1, int(now()) // period)
        sleep(max(0.0, turn * period - now()))


def _say(error: Exception) -> None:
    stderr.print(f"{time.strftime('%F %T')} {error}", markup=False, soft_wrap=True)
