"""`ratchet trace`: an episode of an evaluation, a run or production step by step; an evaluation's for inspect_ai."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from google.protobuf import json_format
from google.protobuf.timestamp_pb2 import Timestamp

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.gateway.v1 import traffic_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands import samples
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, say
from ratchet_cli.views import episodes
from ratchet_client import Client
from ratchet_client.names import measured_name, version_name
from ratchet_episodes.inspect_log import Measured, Played, log_of
from ratchet_episodes.record import Record, from_json, without_tokens
from ratchet_reports import run_words
from ratchet_reports.gather import set_names
from ratchet_sessions import Session
from ratchet_sessions import record as sessions

_STATUSES = {
    pb.Evaluation.STATE_SUCCEEDED: "success",
    pb.Evaluation.STATE_FAILED: "error",
    pb.Evaluation.STATE_CANCELLED: "cancelled",
}
"""States in inspect_ai's words."""
_Found: TypeAlias = pb.GetEpisodeResponse | trainer_pb2.GetTrainingSampleResponse


def trace(
    source: Annotated[
        str,
        typer.Argument(
            help="Id of an evaluation, a run or a kept completion, or a file of `ratchet episode --output`."
        ),
    ],
    problem: Annotated[str, typer.Argument(help="Task, or id of a run's sample; none: episodes are listed.")] = "",
    index: Annotated[int, typer.Argument(help="Number of an evaluation's episode, from 0.")] = 0,
    beside: Annotated[int | None, typer.Option(help="Show this episode of the task beside it.", min=0)] = None,
    benchmark: Annotated[str, typer.Option(help="Set of the task, if there are several.")] = "",
    tokens: Annotated[bool, typer.Option("--tokens", help="Show token ids with log-probs.")] = False,
    inspect: Annotated[
        Path | None, typer.Option(help="File to write all episodes to, in inspect_ai's log format.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Show an episode step by step: messages, calls of tools and their results, files that changed, verdict and why."""
    is_file, is_completion = Path(source).is_file(), source.startswith("cmpl_")
    if is_file or is_completion:
        more = {"a task": problem, "an index": index, "--beside": beside is not None, "--benchmark": benchmark}
        more |= {"--inspect": inspect, "--tokens": tokens and is_completion}
        if given := " and ".join(name for name, value in more.items() if value):
            raise CommandError(f"{source} is one episode: leave out {given}.")
    if is_file:
        _show_file(Path(source), tokens=tokens, as_json=as_json)
    elif is_completion:
        _show_produced(source, as_json=as_json)
    elif inspect is not None:
        _export(source, inspect)
    elif not problem:
        samples.list_samples(source, benchmark=benchmark, as_json=as_json)
    elif samples.is_run(source):
        _show_trained(source, problem, tokens=tokens, as_json=as_json)
    else:
        _show(source, problem, [index, *([] if beside is None else [beside])], benchmark, tokens, as_json)


def _show(id: str, problem: str, indexes: list[int], benchmark: str, tokens: bool, as_json: bool) -> None:
    with Client() as client:
        found = [client.evaluations.episode(id, problem, index, benchmark, tokens=tokens) for index in indexes]
    if as_json:
        print_json([_plain(one) for one in found] if len(found) > 1 else _plain(found[0]))
        return
    shown = [(_record(one), _verdict(one.sample)) for one in found]
    if len(shown) > 1:
        episodes.show_beside(shown[0], shown[1])
    else:
        episodes.show(*shown[0], tokens=tokens)


def _show_trained(id: str, sample: str, *, tokens: bool, as_json: bool) -> None:
    with Client() as client:
        found = client.runs.episode(id, sample, tokens=tokens)
    if as_json:
        print_json(_plain(found))
        return
    one = found.sample
    earned = ", ".join(f"{name} {value:.4g}" for name, value in sorted(one.components.items()))
    episodes.show(_record(found), f"{run_words.verdict(one)}: reward {one.reward:.4g} ({earned})", tokens=tokens)


def _show_produced(id: str, *, as_json: bool) -> None:
    with Client() as client:
        found = client.traffic.episode(id)
    if as_json:
        print_json(_whole(json_format.MessageToDict(found, preserving_proto_field_name=True)))
        return
    try:
        session = sessions.from_json(_whole(json_format.MessageToDict(found.session)))
    except (KeyError, TypeError, ValueError) as error:
        raise CommandError(f"The episode of {id} can't be read here: {type(error).__name__} {error}.") from error
    (one, *_) = (exchange for exchange in found.exchanges if exchange.id == id)
    sender = [("key", one.key_id), ("user", one.user or "-"), ("session", one.session or "-")]
    episodes.show_session(sender, session, list(_remarks(found.exchanges, session, id)))


def _remarks(exchanges: Iterable[traffic_pb2.Exchange], session: Session, id: str) -> Iterator[episodes.Remark]:
    seen = Counter[str]()
    for exchange, one in zip(exchanges, session.calls, strict=True):
        is_accepted = exchange.HasField("accepted") and exchange.accepted.index == seen[exchange.id]
        differs = is_accepted and exchange.accepted.text != one.answer.content
        yield episodes.Remark(_facts(exchange, id), exchange.accepted.text if differs else "")
        seen[exchange.id] += 1


def _facts(exchange: traffic_pb2.Exchange, id: str) -> str:
    arm = traffic_pb2.Exchange.Arm.Name(exchange.arm).removeprefix("ARM_").lower()
    said = [version_name(exchange.version), *([arm] if arm != "none" else [])]
    said += [f"{exchange.latency.ToTimedelta().total_seconds():.1f} s"] if exchange.latency.ByteSize() else []
    said += [f"score {exchange.score:g}"] if exchange.HasField("score") else []
    return ", ".join(["", *said, exchange.id]) + (" (this one)" if exchange.id == id else "")


def _show_file(path: Path, *, tokens: bool, as_json: bool) -> None:
    try:
        kept = json.loads(path.read_text())
        record = from_json(kept)
    except (OSError, ValueError, TypeError) as error:
        raise CommandError(f"{path} holds no record of an episode: {error}.") from error
    if as_json:
        print_json(kept if tokens else without_tokens(kept))
        return
    judged = record.verdict
    episodes.show(record, judged.reason if judged else "not judged", tokens=tokens)


def _export(id: str, file: Path) -> None:
    with Client() as client:
        evaluation = client.evaluations.get(id)
        played = list(_played(client, evaluation))
    try:
        file.write_text(json.dumps(log_of(_measured(evaluation), played)))
    except OSError as error:
        raise CommandError(f"{file} cannot be written: {error}.") from error
    gone = sum(one.record is None for one in played)
    say(f"{len(played)} episodes are in {file}{f'; {gone} have no record any more' if gone else ''}")


def _played(client: Client, evaluation: pb.Evaluation) -> Iterator[Played]:
    for one in client.evaluations.samples(evaluation.id):
        record = None
        if one.recorded:
            found = client.evaluations.episode(evaluation.id, one.problem_id, one.index, one.benchmark, tokens=True)
            record = _record(found)
        passed = one.verdict == verdict_pb2.VERDICT_PASSED
        yield Played(one.problem_id, one.index, passed, run_words.verdict(one), one.detail, record)


def _measured(evaluation: pb.Evaluation) -> Measured:
    spec = evaluation.spec
    start, end = (
        _time(getattr(evaluation, name)) if evaluation.HasField(name) else None for name in ("start_time", "end_time")
    )
    return Measured(
        evaluation.id,
        set_names(evaluation),
        measured_name(evaluation),
        spec.temperature,
        spec.max_tokens,
        spec.samples_per_problem,
        _time(evaluation.create_time),
        start,
        end,
        _STATUSES.get(evaluation.state, "started"),
    )


def _time(time: Timestamp) -> Any:
    return time.ToDatetime(tzinfo=UTC)


def _plain(found: _Found) -> Any:
    return _whole(json_format.MessageToDict(found.record))


def _whole(value: Any) -> Any:
    """A Struct makes fractions of all numbers, also of token ids."""
    if isinstance(value, dict):
        return {name: _whole(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _record(found: _Found) -> Record:
    try:
        return from_json(_plain(found))
    except ValueError as error:
        raise CommandError(f"The record of {found.sample.problem_id} can't be read here: {error}.") from error


def _verdict(sample: pb.Sample) -> str:
    forgeable = ", which the program could have written" if sample.forgeable else ""
    return f"{run_words.verdict(sample)}: {sample.detail}{forgeable}"
