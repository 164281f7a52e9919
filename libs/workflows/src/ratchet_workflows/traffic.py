"""Kept traffic as a data set of pairs, of which a tenth of the users is held out."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ratchet.gateway.v1 import traffic_pb2
from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_client import Client, traffic
from ratchet_client.datasets import settled, upload
from ratchet_problems import InvalidProblem, pair_tables, pairs
from ratchet_problems.pairs import Pair

Kept = traffic_pb2.ChatPair | traffic_pb2.TextPair
TRAIN, HELD_OUT = "train", "validation"


NAME = "traffic"


def set_name(model: str) -> str:
    """The data set of the traffic of a model, or of all."""
    return f"{NAME}-{model}"[:63].rstrip("-.") if model else NAME


@dataclass(frozen=True, slots=True)
class Snapshot:
    dataset: pb.Dataset
    """READY or FAILED."""
    left_out: int
    """Pairs with an answer of nothing, or of users on both sides."""
    texts: int
    """Pairs of texts to go on with, where there are conversations, too: a data set has the one or the other."""


def snapshot(
    client: Client, name: str, model: str = "", key_id: str = "", since: datetime | None = None
) -> Snapshot | None:
    """The next version of the data set, of what people found better in the traffic that is kept now, or the version
    that has the same already. None without any pair. Raises ApiError, Unreachable, OSError."""
    chats = list(client.traffic.pairs(model, key_id, since))
    texts = list(client.traffic.text_pairs(model, key_id, since))
    found: dict[str, list[Pair]] = {TRAIN: [], HELD_OUT: []}
    left_out = 0
    kept: Sequence[Kept] = chats or texts
    for pair, is_held_out in _read(kept):
        if pair is None or is_held_out is None:
            left_out += 1
        else:
            found[HELD_OUT if is_held_out else TRAIN].append(pair)
    if not any(found.values()):
        return None
    card = pb.DatasetCard(
        pairs=True, source="traffic", description=f"what people found better{f' of {model}' if model else ''}"
    )
    with tempfile.TemporaryDirectory(prefix="ratchet-traffic-") as folder:
        tables = {split: Path(folder, f"{split}.parquet") for split, some in found.items() if some}
        for split, table in tables.items():
            pair_tables.write(found[split], table)
        made = settled(client.datasets, upload(client.datasets, name, tables, card))
    return Snapshot(made, left_out, len(texts) if chats else 0)


def _read(given: Sequence[Kept]) -> Iterator[tuple[Pair | None, bool | None]]:
    """The oldest first, each with the side that it is on; None for what is no pair to learn from."""
    numbers: Counter[str] = Counter()
    for one in reversed(given):
        origin = one.origin
        first = next(iter(origin.exchanges), "")
        numbers[first] += 1
        row = traffic.pair_row(one) if isinstance(one, traffic_pb2.ChatPair) else traffic.text_pair_row(one)
        time = origin.start_time.ToDatetime(UTC).isoformat()
        of = {"exchanges": list(origin.exchanges), "units": list(origin.units), "time": time}
        try:
            pair = pairs.read_record({**row, "origin": of}, first, f"{first}/{numbers[first]}")
        except InvalidProblem:
            pair = None
        yield pair, traffic.is_held_out(one)
