"""Protobuf to domain and back, for what is kept of production."""

from collections.abc import Mapping
from typing import TypeAlias

from gateway_service.domain.traffic.episodes import Episode
from gateway_service.domain.traffic.exchange import Accepted, Choice, Exchange, Selection
from gateway_service.domain.traffic.feedback import FeedbackRequest, Score, Source
from gateway_service.domain.traffic.lessons import Lesson, Pair
from gateway_service.domain.traffic.record import Arm, ProblemRef, Unit
from ratchet.common.v1 import problem_pb2
from ratchet.gateway.v1 import gateway_pb2, traffic_pb2
from ratchet_kit import refs
from ratchet_kit.errors import invalid
from ratchet_kit.pages import Page
from ratchet_kit.times import duration_to_proto, timestamp_from_proto, timestamp_to_proto
from ratchet_policies import convert as policies
from ratchet_problems import Message
from ratchet_sessions import record

ListRequest: TypeAlias = (
    traffic_pb2.ListExchangesRequest | traffic_pb2.ListPreferencePairsRequest | traffic_pb2.ListAcceptedProblemsRequest
)

ARMS: Mapping[Arm, traffic_pb2.Exchange.Arm.ValueType] = {
    arm: traffic_pb2.Exchange.Arm.Value(f"ARM_{arm.name}") for arm in Arm if arm is not Arm.REPLAY
}
"""What is replayed is not kept."""
UNITS = {"user": Unit.USER, "session": Unit.SESSION, "key_id": Unit.KEY}
SCORES = {gateway_pb2.THUMB_UP: 1.0, gateway_pb2.THUMB_DOWN: 0.0}
SOURCE = "traffic"
"""Where such problems are from."""


def feedback_from_proto(message: gateway_pb2.CreateFeedbackRequest) -> FeedbackRequest:
    """Raises InvalidArgument for feedback that says nothing, and for a thumb that is not known."""
    source = _source(message)
    if source is None and not message.metrics:
        raise invalid("source", "must be a score, a thumb, a problem, an accepted text, a choice, or metrics")
    return FeedbackRequest(message.completion_id, source, dict(message.metrics), message.request_id)


def _source(message: gateway_pb2.CreateFeedbackRequest) -> Source:
    match message.WhichOneof("source"):
        case "score":
            return Score(message.score)
        case "problem":
            return ProblemRef(message.problem.problem_set, message.problem.problem_id)
        case "thumb" if message.thumb in SCORES:
            return Score(SCORES[message.thumb])
        case "thumb":
            raise invalid("thumb", "must be up or down")
        case "accepted":
            return Accepted(message.accepted.text, message.accepted.index)
        case "choice":
            choice = message.choice
            return Choice(choice.index, choice.over_id or message.completion_id, choice.over_index)
        case _:
            return None


def selection_from_proto(message: ListRequest) -> Selection:
    return Selection(
        model=message.model,
        key_id=message.key_id,
        start_time=timestamp_from_proto(message.start_time) if message.HasField("start_time") else None,
        end_time=timestamp_from_proto(message.end_time) if message.HasField("end_time") else None,
        session=message.session if isinstance(message, traffic_pb2.ListExchangesRequest) else "",
    )


def unit_from_proto(message: traffic_pb2.ForgetTrafficRequest) -> tuple[Unit, str]:
    """The kind of unit and its name. Raises InvalidArgument where none is set."""
    kind = message.WhichOneof("unit")
    if kind is None:
        raise invalid("unit", "must be a user, a session or a key_id")
    return UNITS[kind], getattr(message, kind)


def episode_to_proto(episode: Episode) -> traffic_pb2.GetTrafficEpisodeResponse:
    reply = traffic_pb2.GetTrafficEpisodeResponse()
    reply.session.update(record.to_json(episode.session))
    for exchange in episode.exchanges:
        message = exchange_to_proto(exchange)
        message.ClearField("prompt")
        message.ClearField("answers")
        reply.exchanges.append(message)
    return reply


def exchange_to_proto(exchange: Exchange) -> traffic_pb2.Exchange:
    problem, accepted = exchange.problem, exchange.accepted
    return traffic_pb2.Exchange(
        id=exchange.id,
        start_time=timestamp_to_proto(exchange.start_time),
        version=refs.version_to_proto(exchange.version),
        policy_id=exchange.policy_id,
        arm=ARMS[exchange.arm],
        release_id=exchange.release_id,
        experiment_id=exchange.experiment_id,
        variant=exchange.variant,
        key_id=exchange.key_id,
        user=exchange.user,
        session=exchange.session,
        prompt=policies.prompt_to_proto(exchange.material.prompt),
        answers=[policies.message_to_proto(answer) for answer in exchange.material.answers],
        prompt_tokens=exchange.prompt_tokens,
        completion_tokens=exchange.completion_tokens,
        score=exchange.score,
        problem=problem_pb2.ProblemRef(problem_set=problem.problem_set, problem_id=problem.problem_id)
        if problem
        else None,
        accepted=gateway_pb2.AcceptedText(text=accepted.text, index=accepted.index) if accepted else None,
        choices=[
            gateway_pb2.BetterAnswer(index=choice.index, over_id=choice.over_id, over_index=choice.over_index)
            for choice in exchange.choices
        ],
        latency=duration_to_proto(exchange.latency),
        finish_reasons=map(policies.finish_reason_to_proto, exchange.material.finish_reasons),
    )


def pairs_to_proto(page: Page[Pair]) -> traffic_pb2.ListPreferencePairsResponse:
    reply = traffic_pb2.ListPreferencePairsResponse(next_page_token=page.next_page_token)
    for pair in page.items:
        if isinstance(pair.prompt, str):
            reply.text_pairs.add(
                prompt=pair.prompt, chosen=pair.chosen, rejected=pair.rejected, origin=_origin_to_proto(pair)
            )
        else:
            chosen, rejected = Message("assistant", pair.chosen), Message("assistant", pair.rejected)
            reply.pairs.add(
                prompt=map(_message_to_proto, pair.prompt),
                chosen=[_message_to_proto(chosen)],
                rejected=[_message_to_proto(rejected)],
                origin=_origin_to_proto(pair),
            )
    return reply


def _origin_to_proto(pair: Pair) -> traffic_pb2.PairOrigin:
    return traffic_pb2.PairOrigin(
        exchanges=[one.id for one in pair.of],
        units=pair.units,
        start_time=timestamp_to_proto(min(one.start_time for one in pair.of)),
        senders=pair.senders,
    )


def problem_to_proto(lesson: Lesson) -> traffic_pb2.TrafficProblem:
    return traffic_pb2.TrafficProblem(
        id=lesson.id,
        prompt=lesson.prompt,
        references=[lesson.reference],
        source=SOURCE,
        conversation=map(_message_to_proto, lesson.conversation),
    )


def _message_to_proto(message: Message) -> traffic_pb2.TrafficMessage:
    return traffic_pb2.TrafficMessage(role=message.role, content=message.content)
