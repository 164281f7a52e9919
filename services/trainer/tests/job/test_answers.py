"""Answers that an update breaks off go on with the new weights, and each token says which weights it is of."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ratchet_kit.errors import FailedPrecondition, RatchetError, Unavailable
from ratchet_policies import Completion, FinishReason, Generation, Prompt, Sampling, TokenPrompt
from ratchet_problems.prompting import Prompt as Text
from trainer_service.job.policy.weight_versions import Version, WeightVersions
from trainer_service.job.samples.answers import Answer, Answers, Span
from trainer_service.job.samples.episodes import Player

from ..generating import PROBLEMS, Environment, Prompts

ASKED = Sampling(n=2, seed=7, max_tokens=9)


class Engine:
    """Says what `script` has next: the tokens of each completion, -1 at the end where it is broken off; or raises it.
    Before that it does `meanwhile`."""

    engines = 1

    def __init__(self, script: Sequence[Sequence[Sequence[int]] | RatchetError]) -> None:
        self.script = [*script]
        self.asked: list[tuple[tuple[int, ...], Sampling, str]] = []
        self.meanwhile: dict[int, Callable[[], Any]] = {}

    async def generate(self, prompt: Prompt, sampling: Sampling, policy_id: str) -> Generation:
        assert isinstance(prompt, TokenPrompt)
        self.asked.append((tuple(prompt.ids), sampling, policy_id))
        said = self.script.pop(0)
        await asyncio.sleep(0)
        if do := self.meanwhile.get(len(self.asked)):
            do()
        if isinstance(said, RatchetError):
            raise said
        made = []
        for index, tokens in enumerate(said):
            ids = tuple(token for token in tokens if token >= 0)
            reason = FinishReason.ABORTED if len(ids) < len(tokens) else FinishReason.STOP
            made.append(Completion(index, "", reason, ids, tuple(-0.5 for _ in ids)))
        return Generation(tuple(made), policy_id, len(prompt.ids))

    async def loaded_weights(self) -> str | None:
        return "sha256:1"


@pytest.fixture
def sent() -> WeightVersions:
    sent = WeightVersions(push=lambda: "", max_staleness=2)
    sent.now("sha256:0", 0)
    return sent


def draw(engine: Engine, sent: WeightVersions) -> Any:
    policy: Any = engine
    return Answers(policy, sent).draw(TokenPrompt((5, 6)), ASKED)


def spans(answer: Answer) -> list[tuple[int, int]]:
    return [(one.version.step, one.tokens) for one in answer.spans]


async def test_it_goes_on_from_its_own_tokens_with_the_new_weights(sent: WeightVersions) -> None:
    engine = Engine([[[1, 2, -1], [3]], [[4, -1]], [[8, 9]]])
    engine.meanwhile = {1: lambda: sent.now("sha256:1", 1), 2: lambda: sent.now("sha256:2", 2)}
    first, second = await draw(engine, sent)
    assert (first.completion.token_ids, first.completion.finish_reason) == ((1, 2, 4, 8, 9), FinishReason.STOP)
    assert (spans(first), first.completion.log_probs) == ([(0, 2), (1, 1), (2, 2)], (-0.5,) * 5)
    assert (second.completion.index, second.spans) == (1, [Span(Version(0, "sha256:0"), 1)])
    asked = [(ids, sampling.n, sampling.max_tokens, policy_id) for ids, sampling, policy_id in engine.asked]
    assert asked == [
        ((5, 6), 2, 9, "sha256:0"),
        ((5, 6, 1, 2), 1, 7, "sha256:1"),
        ((5, 6, 1, 2, 4), 1, 6, "sha256:2"),
    ]
    assert len({sampling.seed for _, sampling, _ in engine.asked}) == 3


async def test_one_that_had_no_token_yet_begins_anew(sent: WeightVersions) -> None:
    engine = Engine([[[-1], [3]], [[4]]])
    engine.meanwhile = {1: lambda: sent.now("sha256:1", 1)}
    first, _ = await draw(engine, sent)
    assert (first.completion.token_ids, spans(first)) == ((4,), [(1, 1)])


async def test_one_that_the_engine_broke_off_by_itself_stays_so(sent: WeightVersions) -> None:
    engine = Engine([[[1, -1], [3]]])
    first, _ = await draw(engine, sent)
    assert (first.completion.finish_reason, len(engine.asked)) == (FinishReason.ABORTED, 1)


@pytest.mark.parametrize("error", [FailedPrecondition("serves sha256:1"), Unavailable("the engine is gone")])
async def test_a_question_that_meets_new_weights_is_asked_again(sent: WeightVersions, error: RatchetError) -> None:
    engine = Engine([error, [[1], [2]]])
    engine.meanwhile = {1: lambda: sent.now("sha256:1", 1)}
    answers = await draw(engine, sent)
    assert [spans(one) for one in answers] == [[(1, 1)], [(1, 1)]]


async def test_without_new_weights_its_error_is_the_callers(sent: WeightVersions) -> None:
    with pytest.raises(FailedPrecondition, match="other weights"):
        await draw(Engine([FailedPrecondition("other weights"), FailedPrecondition("other weights")]), sent)


@dataclass
class Letters(Prompts):
    """A token is a letter."""

    def text(self, tokens: Sequence[int]) -> str:
        return "".join(map(chr, tokens))


@pytest.mark.parametrize(
    ("first", "rest", "answer", "parts"),
    [
        ("1\nd", "ef 2 3", "1", [(0, 3), (1, 3)]),  # parted by the update
        ("1\nd", "ef ", "1", [(0, 3), (1, 3)]),
        ("1 2", " 3\ndef ", "1 2 3", [(0, 3), (1, 7)]),  # as the engine has found it
        ("1\nd", " 2", "1\nd 2", [(0, 3), (1, 2)]),
        ("1\ndef 2", "", "1", [(0, 7)]),  # of one piece, which is the engine's affair
    ],
)
async def test_a_stop_that_an_update_has_parted_ends_the_answer(
    first: str, rest: str, answer: str, parts: list[tuple[int, int]]
) -> None:
    ids = tuple(map(ord, first + rest))
    pieces = [Span(Version(0, "sha256:0"), len(first)), Span(Version(1, "sha256:1"), len(rest))]
    drawn = Answer(
        Completion(0, "", FinishReason.LENGTH, ids, tuple(map(float, ids))), [one for one in pieces if one.tokens]
    )
    environment, prompts = Environment(), Letters(Text(text="x", stop=("\ndef ",)))
    no_more: Any = None
    parts_of: Any = (environment, prompts, 99)
    played = await Player(*parts_of).play(no_more, prompts.put(PROBLEMS[0]), drawn, ASKED)
    (trajectory,) = played.trajectories
    made = sum(tokens for _, tokens in parts)
    assert (environment.answers, trajectory.tokens) == ([answer], list(ids[:made]))
    assert (trajectory.log_probs, trajectory.ends) == (list(map(float, ids[:made])), [made - 1])
    assert [(one.version.step, one.tokens) for one in trajectory.spans] == parts


async def test_nothing_is_asked_while_weights_are_being_sent(sent: WeightVersions) -> None:
    engine = Engine([[[1], [2]]])
    with sent.renewing():
        drawing = asyncio.create_task(draw(engine, sent))
        await asyncio.sleep(0.01)
        assert engine.asked == []
        leaving = asyncio.create_task(draw(engine, sent))
        await asyncio.sleep(0)
        leaving.cancel()  # who waits no more takes nothing from the others
        await asyncio.sleep(0.01)
        sent.now("sha256:1", 1)
    answers = await drawing
    assert [spans(one) for one in answers] == [[(1, 1)], [(1, 1)]]
