"""An episode's door, with the official clients unmodified."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from ratchet_kit.errors import Unavailable
from ratchet_kit.work import Priority
from ratchet_policies import Completion, Delta, FinishReason, Sampling
from ratchet_problems import Message, ToolCall
from ratchet_sessions import BranchReason, Origin, Session, record
from ratchet_sessions.door import Door, Seat, opened
from ratchet_testing.chats import FORMS
from ratchet_testing.clock import ManualClock
from ratchet_testing.memory_engine import POLICY, MemoryEngine, call

TOOLS: Any = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
ASKED: Any = [{"role": "user", "content": "Say 日本語 👩‍💻."}]


class Episode:
    def __init__(self) -> None:
        self.engine, self.session = MemoryEngine(), Session()
        seat = Seat(self.engine, "p", Sampling(temperature=0.7, max_tokens=100), priority=Priority.LOW)
        self.door = Door(self.session, {"": seat})

    @property
    def client(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(base_url=f"{self.door.url}/v1", api_key=self.door.key, max_retries=0)

    def check(self) -> None:
        """Each sampled token stands in the paths as the engine drew it."""
        for path in self.session.paths():
            for index in path.calls:
                made = self.session.calls[index]
                sample = next(one for one in self.engine.samples if one.log_probs == made.log_probs)
                place = path.sampled.index(index)
                end = place + len(sample.token_ids)
                assert path.ids[:place] == sample.prompt_ids
                assert path.ids[place:end] == sample.token_ids
                assert path.log_probs[place:end] == sample.log_probs
                assert path.sampled.count(index) == len(sample.token_ids)


@pytest.fixture
async def episode() -> AsyncIterator[Episode]:
    made = Episode()
    async with opened(made.door):
        yield made


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_goes_on_from_the_tokens_that_were_sampled(episode: Episode, stream: bool) -> None:
    episode.engine.says = [Message("assistant", "日本語 👩‍💻 it is"), Message("assistant", "done")]
    chat = list(ASKED)
    for text in ("more", "end"):
        if stream:
            pieces = [
                piece
                async for piece in await episode.client.chat.completions.create(
                    model="m", messages=chat, stream=True, stream_options={"include_usage": True}
                )
            ]
            answer = "".join(one.choices[0].delta.content or "" for one in pieces if one.choices)
            assert pieces[-1].usage is not None
        else:
            made = await episode.client.chat.completions.create(model="m", messages=chat)
            answer = made.choices[0].message.content or ""
            assert made.model == "m"
        chat += [{"role": "assistant", "content": answer}, {"role": "user", "content": text}]
    first, second = episode.session.calls
    assert second.origin.parent == 0
    assert second.prompt_ids[: len(first.ids)] == first.ids
    assert [first.question.role, first.policy_id, first.finish_reason] == ["m", POLICY, FinishReason.STOP]
    assert {index: branch.reason for index, branch in episode.session.branches.items()} == {0: BranchReason.FIRST}
    (path,) = episode.session.paths()
    assert path.calls == (0, 1)
    episode.check()


async def test_calls_of_tools_go_on_whatever_the_program_makes_of_their_arguments(episode: Episode) -> None:
    episode.engine.says = [Message("assistant", "", (call(0, b=1, a="é"), call(1)))]
    made = await episode.client.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
    sent = made.choices[0].message.model_dump(exclude_none=True)
    assert made.choices[0].finish_reason == "tool_calls"
    sent["tool_calls"][0]["function"]["arguments"] = '{ "a":"é",\n "b": 1 }'
    results = [{"role": "tool", "tool_call_id": one["id"], "content": "3"} for one in sent["tool_calls"]]
    await episode.client.chat.completions.create(
        model="m", messages=[*ASKED, sent, *results], tools=TOOLS, tool_choice="required"
    )
    assert episode.session.calls[1].origin.parent == 0
    episode.check()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("sent_back", [False, True])
async def test_thoughts_are_apart_and_stay_in_the_tokens(episode: Episode, stream: bool, sent_back: bool) -> None:
    episode.engine.thinks = "Hm, 日本語."
    create = episode.client.chat.completions.create
    said: dict[str, Any] = {"role": "assistant"}
    if stream:
        async for piece in await create(model="m", messages=ASKED, stream=True):
            new = piece.choices[0].delta.model_dump(exclude_none=True)
            for name in ("content", "reasoning_content"):
                said[name] = said.get(name, "") + new.get(name, "")
    else:
        said = (await create(model="m", messages=ASKED)).choices[0].message.model_dump(exclude_none=True)
    assert said == {"role": "assistant", "content": "yes", "reasoning_content": episode.engine.thinks}
    if not sent_back:
        del said["reasoning_content"]
    await create(model="m", messages=[*ASKED, said, {"role": "user", "content": "more"}])  # type: ignore[list-item]
    first, second = episode.session.calls
    assert (second.origin.parent, first.reasoning, first.answer.content) == (0, episode.engine.thinks, "yes")
    assert second.prompt_ids[: len(first.ids)] == first.ids
    assert record.from_json(record.to_json(episode.session)).calls == episode.session.calls
    episode.check()


@pytest.mark.parametrize("said", [Message("assistant", ""), Message("assistant", "", (call(0, a=1),))])
async def test_what_openais_client_makes_of_a_stream_is_taken_back(episode: Episode, said: Message) -> None:
    """Also of one that has nothing but thoughts."""
    episode.engine.thinks, episode.engine.says = "Hm.", [said]
    tools: Any = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
    chats = episode.client.chat.completions
    async with chats.stream(model="m", messages=ASKED, tools=tools) as events:
        (choice,) = (await events.get_final_completion()).choices
    answer: Any = choice.message
    assert answer.content == ""
    results = [{"role": "tool", "tool_call_id": one.id, "content": "3"} for one in answer.tool_calls or ()]
    await chats.create(model="m", messages=[*ASKED, answer, *results, *ASKED], tools=tools)
    assert episode.session.calls[1].origin.parent == 0
    episode.check()


async def test_thoughts_are_a_block_and_an_item(episode: Episode) -> None:
    episode.engine.thinks = "Hm."
    made = await episode.client.responses.create(model="m", input="Say it.")
    assert [item.type for item in made.output] == ["reasoning", "message"]
    async with episode.client.responses.stream(model="m", input="Say it.") as events:
        thoughts = [event.delta async for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(thoughts) == "Hm."
    headers = {"x-api-key": episode.door.key}
    body = {"model": "m", "messages": [{"role": "user", "content": "Say it."}], "max_tokens": 50}
    async with httpx.AsyncClient() as client:
        answer = (await client.post(f"{episode.door.url}/v1/messages", json=body, headers=headers)).json()
    assert answer["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": ""}
    assert answer["content"][1]["text"] == "yes"


async def test_blocks_and_items_sent_back_go_on_from_the_thoughts(episode: Episode) -> None:
    episode.engine.thinks = "Hm."
    more: Any = {"role": "user", "content": "more"}
    made = await episode.client.responses.create(model="m", input=ASKED)
    items: Any = [item.model_dump(exclude_none=True) for item in made.output]
    await episode.client.responses.create(model="m", input=[*ASKED, *items, more])
    headers = {"x-api-key": episode.door.key}
    async with httpx.AsyncClient(base_url=episode.door.url, headers=headers) as client:
        body = {"model": "other", "messages": ASKED, "max_tokens": 50}
        answer = (await client.post("/v1/messages", json=body)).json()
        again = [*ASKED, {"role": "assistant", "content": answer["content"]}, more]
        assert (await client.post("/v1/messages", json={**body, "messages": again})).is_success
    assert {one.answer.content for one in episode.session.calls} == {"yes"}
    assert [one.origin.parent for one in episode.session.calls] == [None, 0, None, 2]
    episode.check()


async def test_a_past_that_the_program_rewrote_begins_a_branch_that_says_where(episode: Episode) -> None:
    create = episode.client.chat.completions.create
    for _ in range(2):  # the same question again: two answers of one prompt
        await create(model="m", messages=ASKED)
    said: Any = [*ASKED, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}]
    await create(model="m", messages=said)
    await create(model="m", messages=[*ASKED, {"role": "assistant", "content": "no"}, said[2]])
    await create(model="m", messages=said, tools=TOOLS)
    await create(model="other", messages=said)
    await create(model="other", messages=[*said, {"role": "assistant", "content": "yes"}, *ASKED], tools=TOOLS)
    named = {index: (branch.reason, branch.call, branch.message) for index, branch in episode.session.branches.items()}
    assert named == {
        0: (BranchReason.FIRST, None, 0),
        1: (BranchReason.SHORTENED, 0, 1),
        3: (BranchReason.REWRITTEN, 2, 1),
        4: (BranchReason.SHORTENED, 2, 3),
        5: (BranchReason.FIRST, None, 0),
        6: (BranchReason.TOOLS, 5, 4),
    }
    assert episode.session.calls[2].origin.parent == 1  # the newest of equals
    episode.check()


async def test_where_the_template_cannot_go_on_a_branch_says_so(episode: Episode) -> None:
    episode.engine.form = "starter"  # writes no calls
    episode.engine.says = [Message("assistant", "", (call(0),))]
    made = await episode.client.chat.completions.create(model="m", messages=ASKED, tools=TOOLS)
    sent: Any = made.choices[0].message.model_dump(exclude_none=True)
    result: Any = {"role": "tool", "tool_call_id": "call00000", "content": "3"}
    await episode.client.chat.completions.create(model="m", messages=[*ASKED, sent, result], tools=TOOLS)
    branch = episode.session.branches[1]
    assert (branch.reason, branch.call, branch.message) == (BranchReason.TEMPLATE, 0, 2)


@pytest.mark.parametrize("lies", ["prompt", "log_probs", "aborted", "dies"])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_no_sample_is_no_call(episode: Episode, lies: str, stream: bool) -> None:
    chat: Any = [*ASKED, {"role": "assistant", "content": "yes"}, {"role": "user", "content": "more"}]
    await episode.client.chat.completions.create(model="m", messages=ASKED)
    episode.engine.lies = lies
    with pytest.raises(openai.APIError):
        made: Any = await episode.client.chat.completions.create(model="m", messages=chat, stream=stream)
        if stream:
            assert [piece async for piece in made]
    assert len(episode.session.calls) == 1
    assert [one.question.role for one in episode.session.failed] == ["m"]


async def test_the_episode_draws_the_tokens_and_the_program_says_where_an_answer_ends(episode: Episode) -> None:
    create = episode.client.chat.completions.create
    made = await create(model="m", messages=ASKED, temperature=0, max_tokens=7, stop=["\n"], n=2, seed=3)
    assert len(made.choices) == len(episode.session.calls) == 2
    (wanted,) = episode.engine.samplings
    assert set(episode.engine.priorities) == {Priority.LOW}
    assert wanted == replace(Sampling(temperature=0.7, logprobs=True), max_tokens=7, stop=("\n",), n=2)
    await create(model="m", messages=ASKED, max_tokens=1000)
    assert episode.engine.samplings[1].max_tokens == 100


async def test_the_same_question_asked_side_by_side_is_answered_by_other_draws() -> None:
    answers: asyncio.Queue[str] = asyncio.Queue()
    asked: asyncio.Queue[Sampling] = asyncio.Queue()

    class Waiting:
        async def stream(self, *question: Any) -> AsyncIterator[Any]:
            asked.put_nowait(question[3])
            if await answers.get() == "dies":
                raise Unavailable("the engine is gone")
            async for one in MemoryEngine().stream(*question):
                yield one

    door = Door(Session(), {"": Seat(Waiting(), "p", Sampling(seed=7))})  # type: ignore[arg-type]
    async with opened(door), openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=door.key, max_retries=0) as client:

        def ask() -> asyncio.Task[Any]:
            return asyncio.create_task(client.chat.completions.create(model="m", messages=ASKED))

        asking, seeds = [], []
        for _ in range(3):
            asking.append(ask())
            seeds.append((await asked.get()).seed)
        assert len(set(seeds)) == 3, "equal seeds would be one sample, learned from three times"
        answers.put_nowait("dies")
        with pytest.raises(openai.APIError):
            await asking.pop(0)
        asking.append(ask())
        assert (await asked.get()).seed == seeds[0], "the draw that was lost"
        for _ in asking:
            answers.put_nowait("yes")
        await asyncio.gather(*asking)


async def test_the_door_lets_nobody_in_without_its_key(episode: Episode) -> None:
    stranger = openai.AsyncOpenAI(base_url=f"{episode.door.url}/v1", api_key="another", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        await stranger.chat.completions.create(model="m", messages=ASKED)
    with pytest.raises(openai.NotFoundError, match="has /v1/chat/completions, /v1/responses, /v1/messages, /v1/models"):
        await episode.client.embeddings.create(model="m", input="x")
    with pytest.raises(openai.NotFoundError, match="no such endpoint") as missing:
        await episode.client.post("/messages/count_tokens", cast_to=object, body={})
    assert "count_tokens" not in missing.value.message.partition("no such endpoint")[2]
    with pytest.raises(openai.BadRequestError, match="messages"):
        await episode.client.chat.completions.create(model="m", messages=[])
    with pytest.raises(openai.BadRequestError, match="model"):
        await episode.client.post("/chat/completions", cast_to=object, content=b'{"model": "\\ud800", "messages": []}')
    assert not episode.session.calls


async def test_several_roles_have_seats_of_their_own() -> None:
    engines = {name: MemoryEngine(form=form) for name, form in (("writer", "llama3"), ("reviewer", "gpt-oss"))}
    session = Session()
    async with opened(Door(session, {name: Seat(engine, name) for name, engine in engines.items()})) as door:
        client = openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=door.key, max_retries=0)
        assert [model.id async for model in client.models.list()] == list(engines)
        for name in engines:
            await client.chat.completions.create(model=name, messages=ASKED)
        with pytest.raises(openai.NotFoundError, match="no model other: it has writer, reviewer"):
            await client.chat.completions.create(model="other", messages=ASKED)
    assert [made.question.role for made in session.calls] == list(engines)
    assert all(len(engine.samples) == 1 for engine in engines.values())


@pytest.mark.parametrize("stream", [False, True])
async def test_responses_go_on_too(episode: Episode, stream: bool) -> None:
    episode.engine.says = [Message("assistant", "I run.", (call(0, code="é"),)), Message("assistant", "日本")]
    tools: Any = [{"type": "function", "name": "run", "parameters": {"type": "object"}}]
    chat: Any = [{"role": "user", "content": "Go."}]
    for _ in range(2):
        made: Any = await episode.client.responses.create(model="m", input=chat, tools=tools, stream=stream)
        if stream:
            made = [event async for event in made][-1].response
        chat += [item.model_dump(exclude_none=True) for item in made.output]
        chat += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "3"}
            for item in made.output
            if item.type == "function_call"
        ]
    assert episode.session.calls[1].origin.parent == 0
    episode.check()


def called(place: int, arguments: str = "{}", name: str = "run") -> tuple[ToolCall, ...]:
    return (ToolCall(name, arguments, f"call{place}" if name else "", place),)


class Scripted(MemoryEngine):
    """Its first answer comes in these pieces."""

    pieces: Sequence[Completion] = ()

    async def stream(self, *given: Any, **named: Any) -> AsyncIterator[Delta]:
        pieces, self.pieces = self.pieces, ()
        if not pieces:
            async for delta in super().stream(*given, **named):
                yield delta
            return
        prompt_ids, ids = self.render(given[2]), self.tokenizer.encode(FORMS[self.form].stops[0])
        for piece in pieces[:-1]:
            yield Delta(piece, POLICY, 0, None, prompt_ids)
        last = replace(pieces[-1], token_ids=tuple(ids), log_probs=(-1.0,) * len(ids), finish_reason=FinishReason.STOP)
        yield Delta(last, POLICY, 0, None, prompt_ids)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    "pieces",
    [
        (Completion(0, "A"), Completion(0, "", tool_calls=called(0)), Completion(0, "B")),
        (Completion(0, "A"), Completion(0, "", reasoning="Hm."), Completion(0, "B")),
        (
            Completion(0, "", tool_calls=(*called(0, ""), *called(1, ""))),
            Completion(0, "", tool_calls=called(1, "{}", "")),
            Completion(0, "", tool_calls=called(0, '{"a": 1}', "")),
        ),
        (Completion(0, "", tool_calls=(ToolCall("run", "{}"),)),),
        (Completion(0, "", reasoning="Hm."), Completion(0, "")),
        (Completion(0, ""),),
    ],
)
async def test_an_answer_in_parts_is_gone_on_from_as_the_program_got_it(
    path: str, pieces: Sequence[Completion], stream: bool
) -> None:
    """Texts before and after a call or thoughts are parts of their own; calls stand in the order of their arguments."""
    session, engine, is_chat = Session(), Scripted(), path == "/v1/messages"
    engine.pieces = pieces
    chat: list[Any] = [{"role": "user", "content": "Go."}]
    tools = [{"type": "custom", "name": "run", "input_schema": {}} if is_chat else {"type": "function", "name": "run"}]
    body: dict[str, Any] = {"model": "m", "tools": tools} | ({"max_tokens": 9} if is_chat else {})
    async with opened(Door(session, {"": Seat(engine, "p")})) as door:
        async with httpx.AsyncClient(base_url=door.url, headers={"x-api-key": door.key}) as client:
            said = {"messages" if is_chat else "input": chat}
            reply = await client.post(path, json=body | said | {"stream": stream})
            if not stream:
                parts = reply.json()["content" if is_chat else "output"]
            else:
                lines = [line.removeprefix("data: ") for line in reply.text.split("\n") if line.startswith("data: ")]
                parts = as_client(list(map(json.loads, lines)))
            chat += [{"role": "assistant", "content": parts}] if is_chat else parts
            chat.append({"role": "user", "content": "more"})
            (await client.post(path, json=body | said)).raise_for_status()
    assert session.calls[1].origin == Origin(0, session.calls[1].origin.begun)
    assert session.calls[1].prompt_ids[: len(session.calls[0].ids)] == session.calls[0].ids


def as_client(events: Sequence[Any]) -> list[Any]:
    """The parts of a stream, as Anthropic's and OpenAI's clients put them together."""
    if events[-1]["type"] == "response.completed":
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == events[-1]["response"]["output"]
        return done
    made: list[Any] = []
    for event in events:
        if event["type"] == "content_block_start":
            made.append(event["content_block"])
        elif event["type"] == "content_block_delta":
            block, delta = made[event["index"]], event["delta"]
            if block["type"] == "tool_use":
                block["input"] = json.loads(delta["partial_json"])
            else:
                block[block["type"]] += delta[block["type"]]
    return made


async def test_messages_go_on_too(episode: Episode) -> None:
    episode.engine.says = [Message("assistant", "I run.", (call(0, code="é"),)), Message("assistant", "日本")]
    chat: Any = [{"role": "user", "content": "Go."}]
    body = {"model": "m", "max_tokens": 50, "tools": [{"name": "run", "input_schema": {"type": "object"}}]}
    async with httpx.AsyncClient(base_url=episode.door.url, headers={"x-api-key": episode.door.key}) as client:
        for _ in range(2):
            made = (await client.post("/v1/messages", json=body | {"messages": chat})).raise_for_status().json()
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "3"}
                for block in made["content"]
                if block["type"] == "tool_use"
            ]
            chat += [{"role": "assistant", "content": made["content"]}, {"role": "user", "content": results}]
    assert episode.session.calls[1].origin.parent == 0
    episode.check()


@pytest.mark.clients
async def test_a_program_by_anthropics_client_goes_on_too(episode: Episode) -> None:
    """Unmodified, in its own environment: `make test-clients`."""
    python = Path(sys.prefix).parent / "clients" / "bin" / "python"
    if not python.exists():
        pytest.skip("needs the environment of the clients: scripts/setup.sh clients")
    says = [Message("assistant", "I run.", (call(0, code="é"),)), Message("assistant", "日本")]
    episode.engine.says = [*says, *says, *says, *says]
    suites = Path(__file__).parent / "clients"
    running = await asyncio.create_subprocess_exec(
        *(
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "--confcutdir",
            suites,
            suites / "anthropic_suite.py",
        ),
        env=os.environ | {"CLIENT_URL": episode.door.url, "CLIENT_KEY": episode.door.key},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await running.communicate()
    assert running.returncode == 0, said.decode()
    assert [made.origin.parent for made in episode.session.calls] == [None, 0, 1, 2, None, 4, 5, 6]
    assert {branch.reason for branch in episode.session.branches.values()} == {
        *(BranchReason.FIRST, BranchReason.REWRITTEN),
    }
    episode.check()


async def test_its_variables_are_what_clients_read(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in episode.door.variables(episode.door.url).items():
        monkeypatch.setenv(name, value)
    await openai.AsyncOpenAI(max_retries=0).chat.completions.create(model="m", messages=ASKED)
    assert len(episode.session.calls) == 1


@pytest.mark.parametrize(
    ("waited", "fault", "reason"),
    [(59, False, "the program left amid the answer"), (61, True, "the program left after 61 s without an answer")],
)
async def test_who_leaves_after_a_minute_without_an_answer_leaves_a_slow_platform(
    waited: int, fault: bool, reason: str
) -> None:
    clock, came = ManualClock(), asyncio.Event()

    class Stalled(MemoryEngine):
        async def stream(self, *given: Any, **named: Any) -> AsyncIterator[Any]:
            clock.advance(timedelta(seconds=waited))
            came.set()
            await asyncio.sleep(60)
            yield None

    session = Session()
    async with opened(Door(session, {"": Seat(Stalled(), "p")}, clock)) as door:
        client = openai.AsyncOpenAI(base_url=f"{door.url}/v1", api_key=door.key, max_retries=0)
        asking = asyncio.create_task(client.chat.completions.create(model="m", messages=ASKED))
        await came.wait()
        asking.cancel()
        while not session.failed:
            await asyncio.sleep(0.01)
    assert [(one.is_fault, one.reason) for one in session.failed] == [(fault, reason)]
    assert len(session.lost) == fault
