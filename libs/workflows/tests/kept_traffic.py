"""Kept traffic and data sets in memory, as far as a snapshot needs them."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ratchet.gateway.v1 import traffic_pb2
from ratchet.registry.v1 import dataset_pb2 as pb


def chat_pair(user: str, better: str = "good", *others: str) -> traffic_pb2.ChatPair:
    """`others`: further senders."""
    said = traffic_pb2.TrafficMessage
    return traffic_pb2.ChatPair(
        prompt=[said(role="user", content=f"{user} asks")],
        chosen=[said(role="assistant", content=better)],
        rejected=[said(role="assistant", content="bad")],
        origin=traffic_pb2.PairOrigin(exchanges=[f"cmpl_{user}"], units=[user, "key"], senders=[user, *others]),
    )


class Kept:
    def __init__(self, *pairs: traffic_pb2.ChatPair) -> None:
        """`pairs`: the newest first."""
        self.asked: list[tuple[str, str, datetime | None]] = []
        self.uploaded: dict[str, bytes] = {}
        """The files of the newest version, by split."""
        self.versions: list[pb.Dataset] = []
        self.traffic = SimpleNamespace(pairs=self._pairs, text_pairs=lambda *narrowed: iter(()))
        self.datasets = SimpleNamespace(create=self._create, write=self._write, get=self._get, watch=self._watch)
        self._kept = pairs

    def _pairs(self, model: str, key: str, since: datetime | None) -> Iterator[traffic_pb2.ChatPair]:
        self.asked.append((model, key, since))
        return iter(self._kept)

    def _create(self, name: str, splits: Mapping[str, Path], card: pb.DatasetCard) -> pb.Dataset:
        made = pb.Dataset(
            name=name,
            number=len(self.versions) + 1,
            state=pb.Dataset.STATE_UPLOADING,
            card=card,
            splits=[pb.DatasetSplit(name=split, size_bytes=file.stat().st_size) for split, file in splits.items()],
        )
        self.versions.append(made)
        self.uploaded = dict.fromkeys(splits, b"")
        return made

    def _write(self, name: str, number: int, split: str, data: bytes, offset: int) -> int:
        self.uploaded[split] += data
        return offset + len(data)

    def _get(self, name: str, number: int) -> pb.Dataset:
        made = self.versions[number - 1]
        made.state = pb.Dataset.STATE_READY
        return made

    def _watch(self, name: str, number: int) -> Iterator[pb.Dataset]:
        yield self._get(name, number)


def client(kept: Kept) -> Any:
    return kept
