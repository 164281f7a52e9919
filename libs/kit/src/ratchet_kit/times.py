"""Time: a clock that can be handed in, and protobuf's Duration and Timestamp to and from Python's."""

from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from ratchet_kit.errors import invalid


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The time now, aware, in UTC."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


_LEAST, _LEAST_SHARE = timedelta(seconds=10), 0.05


def time_left(done: float, total: float, elapsed: timedelta) -> timedelta | None:
    """At the pace of the `elapsed` time. None before that means something: the first of what is done together come all
    at once, or late."""
    if elapsed < _LEAST or done < _LEAST_SHARE * total or done <= 0:
        return None
    return elapsed / done * max(0, total - done)


def duration(seconds: float) -> str:
    """ "8 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def duration_to_proto(value: timedelta) -> Duration:
    """Exact: a timedelta counts microseconds, a Duration nanoseconds."""
    duration = Duration()
    duration.FromTimedelta(value)
    return duration


def duration_from_proto(value: Duration) -> timedelta:
    """Rounded to microseconds. A field that was not set gives zero: ask `HasField` first where that matters.

    The longest or the shortest there is stands for what no timedelta holds: a bound on it refuses both alike.
    """
    try:
        return value.ToTimedelta()
    except OverflowError:
        return timedelta.max if value.seconds > 0 else timedelta.min


def timestamp_to_proto(value: datetime) -> Timestamp:
    """`value` must be aware; a ValueError says so when it is not, since a naive time has no instant."""
    if value.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(value)
    return timestamp


def timestamp_from_proto(value: Timestamp) -> datetime:
    """Aware, in UTC. A field that was not set gives 1970: ask `HasField` first."""
    return value.ToDatetime(UTC)


def since_from_proto(message: Any) -> datetime | None:
    """The beginning of the period that a list request asks for; None if it says none. Raises InvalidArgument for a time
    that no datetime holds."""
    if not message.HasField("after_time"):
        return None
    try:
        return timestamp_from_proto(message.after_time)
    except (OverflowError, ValueError) as error:
        raise invalid("after_time", "must be a time between the years 1 and 9999") from error
