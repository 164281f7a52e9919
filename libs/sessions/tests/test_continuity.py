"""Programs at random, over all templates: what is trained on was sampled, and each branch has its name.

RATCHET_FUZZ_CASES: how many calls (600; 10,000 take some minutes)."""

import os
import random
from datetime import UTC, datetime

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_policies import ChatPrompt, Sampling, Tool, Tools, joined
from ratchet_problems import Message
from ratchet_sessions import Branch, BranchReason, Origin, Question, Session
from ratchet_testing.chats import FORMS
from ratchet_testing.memory_engine import MemoryEngine, call

CASES = int(os.environ.get("RATCHET_FUZZ_CASES", "600"))
TEXTS = ("hello", "日本語", "👩‍💻", "naïve\n\n", "<|im_end|>", "</s><|user|>", '{"a": 1}}', "<tool_call>", " ~", "é́")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN, READ = Tools((Tool("run"),)), Tools((Tool("run"), Tool("read")))


class Program:
    """Asks, uses tools, and now and then changes what was said."""

    def __init__(self, form: str, seed: int) -> None:
        self.chance = random.Random(f"{form} {seed}")
        self.engine = MemoryEngine(form, self.chance)
        self.session = Session()
        self.tools: Tools | None = RUN if FORMS[form].takes_calls else None
        self.messages = [Message("user", self.text())]
        self.expected: dict[int, BranchReason | None] = {}
        self.refused = 0
        self.known = 0
        """Number of messages that the model has read or written."""
        self.changed: BranchReason | None = BranchReason.FIRST

    def text(self) -> str:
        return " ".join(self.chance.choices(TEXTS, k=self.chance.randint(1, 5)))

    def said(self) -> Message:
        """The next answer of the model."""
        if self.tools is None or self.chance.random() < 0.6:
            return Message("assistant", self.text())
        count = 1 if self.engine.form == "llama3" else self.chance.randint(1, 3)
        content = self.chance.choice(["", self.text()])
        return Message("assistant", content, tuple(call(place, code=self.text()) for place in range(count)))

    async def step(self) -> None:
        said = self.said()
        self.engine.says, self.engine.cut = [said], self.chance.random() < 0.1
        question = Question("m", tuple(self.messages), self.tools)
        origin = self.session.origin(question)
        try:
            made = await self.answers(question, origin)
        except InvalidArgument as error:
            if not any(violation.field == "prompt.chat.begun" for violation in error.violations):
                self.refused += 1  # the template refuses the conversation itself
                self.restart()
                return
            origin = Origin(branch=Branch(BranchReason.TEMPLATE, origin.parent, 0))
            self.changed = BranchReason.TEMPLATE
            made = await self.answers(question, origin)
        answer = joined([delta.completion for delta in made])
        kept = self.session.record(question, origin, said, answer, made[0].prompt_ids, made[0].policy_id, NOW, NOW)
        self.expected[kept.index], self.changed = self.changed, None
        self.messages.append(said)
        self.known = len(self.messages)
        self.messages += self.replies(said)
        self.rewrite()

    async def answers(self, question: Question, origin: Origin) -> list[object]:
        prompt = ChatPrompt(question.messages, question.tools, begun=origin.begun)
        return [delta async for delta in self.engine.stream("p", "", prompt, Sampling())]

    def replies(self, said: Message) -> list[Message]:
        if not said.tool_calls:
            return [Message("user", self.text())]
        return [Message("tool", self.text(), tool_call_id=one.id) for one in said.tool_calls]

    def rewrite(self) -> None:
        lot = self.chance.random()
        if lot < 0.1:
            place = self.chance.randrange(len(self.messages))
            old = self.messages[place]
            self.messages[place] = Message(old.role, old.content + " rewritten", old.tool_calls, old.tool_call_id)
            if place < self.known:
                self.changed = BranchReason.REWRITTEN
        elif lot < 0.15:
            del self.messages[1:]
            self.changed = BranchReason.SHORTENED
        elif lot < 0.2 and self.tools:
            self.tools = READ if self.tools is RUN else RUN
            self.changed = BranchReason.TOOLS
        elif lot < 0.25:
            self.restart()

    def restart(self) -> None:
        self.messages, self.changed = (
            [Message("user", self.text() + f" {self.chance.random()}")],
            BranchReason.REWRITTEN,
        )


@pytest.mark.parametrize("form", FORMS)
async def test_the_ids_trained_on_are_those_that_were_sampled(form: str) -> None:
    calls = 0
    for seed in range(CASES):
        program = Program(form, seed)
        for _ in range(8):
            await program.step()
        check(program)
        calls += len(program.session.calls)
        if calls >= CASES // len(FORMS):
            break
    assert calls >= CASES // len(FORMS)


def check(program: Program) -> None:
    session, samples = program.session, program.engine.samples
    assert len(samples) == len(session.calls)
    for made, sample in zip(session.calls, samples, strict=True):
        assert (made.prompt_ids, made.token_ids, made.log_probs) == (
            sample.prompt_ids,
            sample.token_ids,
            sample.log_probs,
        )
    trained = set()
    for path in session.paths():
        assert len(path.ids) == len(path.sampled) == len(path.log_probs)
        for index in path.calls:
            place = path.sampled.index(index)
            end = place + len(samples[index].token_ids)
            assert path.ids[place:end] == samples[index].token_ids
            assert path.ids[:place] == samples[index].prompt_ids
            assert path.log_probs[place:end] == samples[index].log_probs
        drawn = sum(len(samples[index].token_ids) for index in path.calls)
        assert sum(mark >= 0 for mark in path.sampled) == drawn
        trained |= set(path.calls)
    assert trained == set(range(len(session.calls)))
    for index, reason in program.expected.items():
        branch = session.branches.get(index)
        assert (branch and branch.reason) == (BranchReason.FIRST if index == 0 else reason)
        if branch and branch.call is not None and branch.reason in (BranchReason.REWRITTEN, BranchReason.SHORTENED):
            past = session.calls[branch.call]
            said, now = (*past.question.messages, past.answer), session.calls[index].question.messages
            assert said[: branch.message] == now[: branch.message]
            assert said[branch.message :][:1] != now[branch.message :][:1]
