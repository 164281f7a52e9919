"""Production traffic that the gateway keeps to learn from, and rows of data sets made from it.

with open("pairs.jsonl", "w") as file:
    for pair in client.traffic.pairs("starter"):
        file.write(json.dumps(traffic.pair_row(pair)) + "\\n")
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from ratchet.gateway.v1 import traffic_pb2 as pb
from ratchet_client.calls import Call, Listing, call, listing, to_json
from ratchet_client.resource import Resource, S, listed, unary

R = TypeVar("R", pb.ListExchangesRequest, pb.ListPreferencePairsRequest, pb.ListAcceptedProblemsRequest)


class Traffic(Resource[S]):
    """Lists are of one model, one key and a time where these are given: from `start_time` on, and before `end_time`."""

    @listed
    def list(
        self,
        model: str = "",
        key_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        session: str = "",
    ) -> Listing[pb.Exchange]:
        """Prompts with their answers and what people said of them, newest first. `session`: as requests named it."""
        request = pb.ListExchangesRequest(model=model, key_id=key_id, session=session)
        return listing(
            _narrowed(request, start_time, end_time), pb.ListExchangesResponse, lambda reply: reply.exchanges
        )

    @unary
    def episode(self, completion_id: str) -> Call[pb.GetTrafficEpisodeResponse]:
        """The calls of the program that asked for a completion, before it and after. Its session is read by
        `ratchet_sessions.record`.

        Raises NotFound where nothing is kept of it."""
        request = pb.GetTrafficEpisodeRequest(completion_id=completion_id)
        return call(request, pb.GetTrafficEpisodeResponse, lambda reply: reply)

    @listed
    def pairs(
        self,
        model: str = "",
        key_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
    ) -> Listing[pb.ChatPair]:
        """Two answers to one conversation, of which people found one better."""
        request = _narrowed(pb.ListPreferencePairsRequest(model=model, key_id=key_id), start_time, end_time)
        return listing(request, pb.ListPreferencePairsResponse, lambda reply: reply.pairs)

    @listed
    def text_pairs(
        self,
        model: str = "",
        key_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
    ) -> Listing[pb.TextPair]:
        """The same, of prompts that were texts and no conversations."""
        request = _narrowed(pb.ListPreferencePairsRequest(model=model, key_id=key_id), start_time, end_time)
        return listing(request, pb.ListPreferencePairsResponse, lambda reply: reply.text_pairs)

    @listed
    def problems(
        self,
        model: str = "",
        key_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
    ) -> Listing[pb.TrafficProblem]:
        """Prompts with the text that was accepted as their reference."""
        request = _narrowed(pb.ListAcceptedProblemsRequest(model=model, key_id=key_id), start_time, end_time)
        return listing(request, pb.ListAcceptedProblemsResponse, lambda reply: reply.problems)

    @unary
    def forget(self, *, user: str | None = None, session: str | None = None, key_id: str | None = None) -> Call[int]:
        """Removes every kept text of a user, a session or a key. How many completions had some.

        Raises ValueError where more than one of them is named."""
        given = {
            name: unit for name, unit in (("user", user), ("session", session), ("key_id", key_id)) if unit is not None
        }
        if len(given) > 1:
            raise ValueError(f"name one of {', '.join(given)}: one call forgets one")
        request = pb.ForgetTrafficRequest(**given)
        return call(request, pb.ForgetTrafficResponse, lambda reply: reply.removed)


def is_held_out(pair: pb.ChatPair | pb.TextPair) -> bool | None:
    """Tells whether its sender is one of the tenth that nothing is learned from, the same for all of a sender's pairs;
    None where it has several, of either side."""
    sides = {
        int(hashlib.sha256(f"held out {one}".encode()).hexdigest()[:8], 16) % 10 == 0 for one in pair.origin.senders
    }
    return sides.pop() if len(sides) == 1 else None


def exchange_row(exchange: pb.Exchange) -> Mapping[str, Any]:
    """As REST shows it, every field in every row."""
    return to_json(exchange)


def pair_row(pair: pb.ChatPair) -> Mapping[str, Any]:
    """A row of TRL's conversational preference format (https://huggingface.co/docs/trl/dataset_formats), for DPO."""
    return {
        "prompt": _messages(pair.prompt),
        "chosen": _messages(pair.chosen),
        "rejected": _messages(pair.rejected),
    }


def text_pair_row(pair: pb.TextPair) -> Mapping[str, Any]:
    """A row of TRL's standard preference format."""
    return {"prompt": pair.prompt, "chosen": pair.chosen, "rejected": pair.rejected}


def problem_row(problem: pb.TrafficProblem) -> Mapping[str, Any]:
    """A line of a problem set, for SFT: it has no tests."""
    return {
        "id": problem.id,
        "prompt": [*_messages(problem.conversation), {"role": "user", "content": problem.prompt}]
        if problem.conversation
        else problem.prompt,
        "references": list(problem.references),
        "source": problem.source,
    }


def _messages(messages: Iterable[pb.TrafficMessage]) -> list[Mapping[str, str]]:
    return [{"role": message.role, "content": message.content} for message in messages]


def _narrowed(request: R, start_time: datetime | None, end_time: datetime | None) -> R:
    if start_time is not None:
        request.start_time.FromDatetime(start_time)
    if end_time is not None:
        request.end_time.FromDatetime(end_time)
    return request
