"""What a key's consent would keep, and is not kept: it is counted, so that it is never lost without a word."""

from enum import StrEnum

from ratchet_kit import metrics

_left_out = metrics.counter("gateway_traffic_left_out", "Exchanges that were not kept, by reason", ("reason",))


class LeftOut(StrEnum):
    """TOO_LONG: more than MAX_MATERIAL. TOKENS: a prompt of token ids. REDACTION: a step of it failed. NO_ROOM: the
    database was away, and more texts came than the gateway holds."""

    TOO_LONG = "too_long"
    TOKENS = "tokens"
    REDACTION = "redaction"
    NO_ROOM = "no_room"


def left_out(reason: LeftOut) -> None:
    _left_out.labels(reason).inc()
