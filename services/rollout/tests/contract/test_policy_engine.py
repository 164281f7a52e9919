"""What every `PolicyEngine` does: the scripted one, vLLM's and transformers'."""

import asyncio
import json
import math
from contextlib import aclosing
from dataclasses import replace

import pytest

from ratchet_kit.errors import InvalidArgument, Unavailable
from ratchet_policies import (
    ChatPrompt,
    Completion,
    FinishReason,
    Sampling,
    TextPrompt,
    TokenPrompt,
    Tool,
    Tools,
    is_over_length,
    joined,
)
from ratchet_problems import Message, ToolCall
from rollout_service.domain.generation import EngineOutput, GenerationRequest
from rollout_service.domain.policy import EngineOptions, PolicyName
from rollout_service.domain.ports import PolicyEngine

from ..memory import ScriptedEngine, ScriptedEngines
from .conftest import Case

pytestmark = pytest.mark.asyncio(loop_scope="module")

CITY = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
)
WEATHER = Tool("weather", "The weather of a city.", CITY, strict=True)
TIME = replace(WEATHER, name="time")


async def answers(engine: PolicyEngine, request: GenerationRequest, *, stream: bool = False) -> list[EngineOutput]:
    async with aclosing(engine.generate(request, stream=stream)) as outputs:
        return [output async for output in outputs]


def tokens(*ids: int, **sampling: object) -> GenerationRequest:
    return GenerationRequest(TokenPrompt(ids), Sampling(**sampling))  # type: ignore[arg-type]


async def test_says_what_it_is(case: Case, engine: PolicyEngine) -> None:
    assert case.library in ("scripted", engine.info.library)
    assert engine.info.dtype == "float32"
    assert engine.info.max_model_len >= 64
    assert engine.info.kv_cache_tokens >= engine.info.max_model_len


async def test_completes_with_log_probs(engine: PolicyEngine) -> None:
    (output,) = await answers(engine, tokens(1, 2, 3, max_tokens=8, n=3, logprobs=True, ignore_eos=True))
    assert output.prompt_token_ids == (1, 2, 3)
    assert [completion.index for completion in output.completions] == [0, 1, 2]
    for completion in output.completions:
        assert len(completion.token_ids) == len(completion.log_probs) == 8
        assert all(math.isfinite(value) and value <= 0 for value in completion.log_probs)
        assert completion.finish_reason is FinishReason.LENGTH


async def test_its_weights_are_its_own(case: Case, engine: PolicyEngine) -> None:
    """Whatever is written to the files that it was started from: its policy id says what it answers with."""
    request = tokens(1, 2, 3, max_tokens=4, temperature=0.0, logprobs=True, ignore_eos=True)
    before = await answers(engine, request)
    for file in case.model.path.glob("*.safetensors"):
        content = file.read_bytes()
        with file.open("r+b") as opened:
            opened.seek(len(content) // 4)
            opened.write(bytes(len(content) - len(content) // 4))
            opened.flush()
            after = await answers(engine, request)
            opened.seek(0)
            opened.write(content)
        assert after == before


async def test_gives_no_log_probs_unasked(engine: PolicyEngine) -> None:
    (output,) = await answers(engine, tokens(1, 2, 3, max_tokens=2))
    assert output.completions[0].log_probs == ()


@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_come_with_their_texts_and_the_likeliest(engine: PolicyEngine, stream: bool) -> None:
    request = tokens(1, 2, 3, max_tokens=4, top_logprobs=2, ignore_eos=True, temperature=0.0)
    pieces = [piece for output in await answers(engine, request, stream=stream) for piece in output.completions]
    places = [place for piece in pieces for place in piece.candidates]
    assert [place[0].token_id for place in places] == [token for piece in pieces for token in piece.token_ids]
    for _, first, second in places:
        assert 0 >= first.log_prob >= second.log_prob
    assert all(piece.log_probs == () for piece in pieces)


async def test_what_steers_the_sampling_is_taken(engine: PolicyEngine) -> None:
    steered = {"presence_penalty": 0.5, "frequency_penalty": -0.5, "logit_bias": {2: 1.5}}
    (output,) = await answers(engine, tokens(1, 2, 3, max_tokens=2, ignore_eos=True, **steered))
    assert len(output.completions[0].token_ids) == 2


@pytest.mark.parametrize("schema", ['{"type": "nonsense"}', '{"$ref": "#/nowhere"}'])
async def test_a_schema_that_cannot_be_followed_is_refused(case: Case, engine: PolicyEngine, schema: str) -> None:
    if isinstance(case.engines, ScriptedEngines):
        pytest.skip("scripted answers follow no schema")
    with pytest.raises(InvalidArgument):
        await answers(engine, tokens(1, 2, 3, max_tokens=8, json_schema=schema))


async def test_no_limit_means_the_models_length(engine: PolicyEngine) -> None:
    (output,) = await answers(engine, tokens(1, 2, 3, ignore_eos=True))
    assert len(output.completions[0].token_ids) == engine.info.max_model_len - 3


async def test_pieces_make_up_the_whole(engine: PolicyEngine) -> None:
    request = tokens(1, 2, 3, max_tokens=8, n=2, seed=7, logprobs=True, ignore_eos=True)
    (whole,) = await answers(engine, request)
    pieces: dict[int, list[Completion]] = {0: [], 1: []}
    for output in await answers(engine, request, stream=True):
        assert output.prompt_token_ids == (1, 2, 3)
        for piece in output.completions:
            pieces[piece.index].append(piece)
    for completion in whole.completions:
        parts = pieces[completion.index]
        assert len(parts) > 1
        assert sum((part.token_ids for part in parts), ()) == completion.token_ids
        assert sum((part.log_probs for part in parts), ()) == pytest.approx(completion.log_probs, abs=1e-4)
        assert "".join(part.text for part in parts) == completion.text
        assert [part.finish_reason for part in parts[:-1]] == [FinishReason.UNFINISHED] * (len(parts) - 1)
        assert parts[-1].finish_reason is FinishReason.LENGTH


async def test_max_tokens_beyond_the_models_length_end_there_or_are_refused(engine: PolicyEngine) -> None:
    most = engine.info.max_model_len
    (output,) = await answers(engine, tokens(1, 2, 3, max_tokens=most, ignore_eos=True))
    assert len(output.completions[0].token_ids) == most - 3
    with pytest.raises(InvalidArgument) as refused:
        await answers(engine, tokens(1, 2, 3, max_tokens=most - 2, must_fit=True))
    (violation,) = refused.value.violations
    assert violation.field == "sampling.max_tokens"
    assert is_over_length(violation.description)
    await answers(engine, tokens(1, 2, 3, max_tokens=2, must_fit=True))


async def test_a_model_without_tokens_for_gaps_says_so(engine: PolicyEngine) -> None:
    with pytest.raises(InvalidArgument, match="fills no gaps") as refused:
        await answers(engine, GenerationRequest(TextPrompt("def f", "return x"), Sampling(max_tokens=1)))
    assert [violation.field for violation in refused.value.violations] == ["prompt.suffix"]


async def test_the_likeliest_token_alone_is_drawn_with_min_p_1(engine: PolicyEngine) -> None:
    greedy = await answers(engine, tokens(1, 2, 3, max_tokens=4, temperature=0))
    drawn = await answers(engine, tokens(1, 2, 3, max_tokens=4, temperature=1, min_p=1))
    assert drawn[0].completions[0].token_ids == greedy[0].completions[0].token_ids


@pytest.mark.parametrize("prompt", [TextPrompt("def f"), ChatPrompt((Message("user", "sum"),))])
async def test_takes_text_and_chat(engine: PolicyEngine, prompt: TextPrompt | ChatPrompt) -> None:
    (output,) = await answers(engine, GenerationRequest(prompt, Sampling(max_tokens=2, ignore_eos=True)))
    assert len(output.prompt_token_ids) > 1
    assert len(output.completions[0].token_ids) == 2


def weather(tools: Tools, **sampling: object) -> GenerationRequest:
    said = (
        Message("user", "f"),
        Message("assistant", "", (ToolCall("weather", '{"city": "Rome"}', "call_1"),)),
        Message("tool", "sun", tool_call_id="call_1"),
        Message("user", "f"),
    )
    return GenerationRequest(ChatPrompt(said, tools), Sampling(**sampling))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tools", "allowed"),
    [
        (Tools((WEATHER, TIME), required=True, single=True), {"weather", "time"}),
        (Tools((TIME, WEATHER), called="weather"), {"weather"}),
    ],
)
async def test_tools_are_called(case: Case, engine: PolicyEngine, tools: Tools, allowed: set[str]) -> None:
    case.needs("tools")
    (whole,) = await answers(engine, weather(tools, n=2, seed=1))
    for completion in whole.completions:
        (call,) = completion.tool_calls
        assert call.name in allowed
        assert call.id
        assert isinstance(json.loads(call.arguments), dict)
    pieces = [
        one for output in await answers(engine, weather(tools, seed=1), stream=True) for one in output.completions
    ]
    calls = [call for piece in pieces for call in piece.tool_calls]
    assert {call.index for call in calls} == {0}
    assert [call.name for call in calls if call.id] == ["".join(call.name for call in calls)]
    assert "".join(call.name for call in calls) in allowed
    assert isinstance(json.loads("".join(call.arguments for call in calls)), dict)
    if not isinstance(case.engines, ScriptedEngines):  # whose answers end with their length
        reason = FinishReason.STOP if tools.called else FinishReason.TOOL_CALLS
        assert {one.finish_reason for one in whole.completions} == {reason} == {pieces[-1].finish_reason}
        assert json.loads(call.arguments)["city"] in ("Rome", "Oslo")
        assert "".join(piece.text for piece in pieces) == "".join(one.text for one in whole.completions) == ""


@pytest.mark.parametrize(
    "tools", [Tools((WEATHER, TIME), required=True), Tools((WEATHER,), called="weather"), Tools((WEATHER,))]
)
async def test_an_answer_that_is_cut_off_is_what_its_stream_says(
    case: Case, engine: PolicyEngine, tools: Tools
) -> None:
    """Wherever max_tokens cuts a call: the whole answer has the part of it that the stream has, and no markup."""
    case.needs("tools")
    cut = 0
    for most in range(1, 25):
        request = weather(tools, max_tokens=most, seed=1, n=2)
        (whole,) = await answers(engine, request)
        pieces: dict[int, list[Completion]] = {0: [], 1: []}
        for output in await answers(engine, request, stream=True):
            for piece in output.completions:
                pieces[piece.index].append(piece)
        for one in whole.completions:
            streamed = joined(pieces[one.index])
            said = [(call.name, call.arguments) for call in one.tool_calls]
            assert said == [(call.name, call.arguments) for call in streamed.tool_calls]
            assert (one.text, one.token_ids, one.finish_reason) == (
                streamed.text,
                streamed.token_ids,
                streamed.finish_reason,
            )
            assert "<tool_call>" not in one.text
            cut += one.finish_reason is FinishReason.LENGTH
    assert cut


async def test_who_may_call_need_not(case: Case, engine: PolicyEngine) -> None:
    case.needs("tools")
    tools = Tools((WEATHER, TIME))
    (output,) = await answers(engine, weather(tools, max_tokens=2, ignore_eos=True, echo=True))
    assert len(output.completions[0].token_ids) == 2
    if not isinstance(case.engines, ScriptedEngines):
        assert output.completions[0].tool_calls == ()
        asked = "<|user|>f<|assistant|>Rome<|tool|>sun<|user|>f<|assistant|>"
        assert output.echo.text == f"<bos>weather time {asked}"
        (followed,) = await answers(engine, weather(tools, json_schema=CITY, seed=2))
        assert followed.completions[0].tool_calls or json.loads(followed.completions[0].text)["city"]


async def test_a_model_whose_calls_nobody_can_read_takes_no_tools(case: Case) -> None:
    case.needs("tools")
    if isinstance(case.engines, ScriptedEngines):
        pytest.skip("scripted engines call tools by themselves")
    other = await case.engines.start(PolicyName("other"), case.model, EngineOptions())
    try:
        with pytest.raises(InvalidArgument) as refused:
            await answers(other, weather(Tools((WEATHER,))))
    finally:
        await other.stop()
    assert refused.value.violations[0].field == "prompt.chat.tools"
    assert "RATCHET_ROLLOUT_TOOL_PARSERS" in refused.value.message


async def test_what_an_engine_cannot_do_is_refused_by_name(
    case: Case, engine: PolicyEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    if case.library != "transformers":
        pytest.skip("of transformers alone")
    refused = {
        "prompt.chat.tools": (weather(Tools((WEATHER,))), "takes no tools"),
        "sampling.json_schema": (tokens(1, 2, 3, json_schema=CITY), "takes no JSON Schema"),
    }
    for field, (request, sentence) in refused.items():
        with pytest.raises(InvalidArgument, match=f"transformers serves this model.*{sentence}") as error:
            await answers(engine, request)
        assert [violation.field for violation in error.value.violations] == [field]
    two = EngineOptions(tensor_parallel_size=2)
    with pytest.raises(InvalidArgument, match=r"transformers did not start.*takes no tensor_parallel_size above 1"):
        await case.engines.start(PolicyName("two"), case.model, two)
    new = await case.changed(case.model)
    await engine.prepare(new)
    assert "takes no changes in place" in capsys.readouterr().out
    before = await answers(engine, tokens(1, 2, 3, max_tokens=1, temperature=0, logprobs=True))
    loaded = await engine.load_weights(new)
    after = await answers(engine, tokens(1, 2, 3, max_tokens=1, temperature=0, logprobs=True))
    assert (loaded.in_place, loaded.probe_error) == (False, 0)
    assert before[0].completions[0].log_probs != after[0].completions[0].log_probs
    await engine.load_weights(case.model)
    assert before == await answers(engine, tokens(1, 2, 3, max_tokens=1, temperature=0, logprobs=True))


async def test_a_stop_string_ends_an_answer_and_is_left_out(case: Case, engine: PolicyEngine) -> None:
    if isinstance(case.engines, ScriptedEngines):
        pytest.skip("scripted answers have no stops")
    free = {"max_tokens": 24, "temperature": 1.0, "seed": 5, "ignore_eos": True}
    (whole,) = await answers(engine, tokens(1, 2, 3, **free))
    text = whole.completions[0].text
    stop = text[3:5]
    for stream in (False, True):
        outputs = await answers(engine, tokens(1, 2, 3, **free, stop=(stop, "nowhere")), stream=stream)
        cut = joined([piece for output in outputs for piece in output.completions])
        assert (cut.text, cut.stop, cut.finish_reason) == (text[: text.index(stop)], stop, FinishReason.STOP)
        assert cut.token_ids == whole.completions[0].token_ids[: len(cut.token_ids)]
        assert len(cut.token_ids) < 24


async def test_prompts_of_many_lengths_are_completed_as_each_alone(case: Case, engine: PolicyEngine) -> None:
    if isinstance(case.engines, ScriptedEngines):
        pytest.skip("scripted answers are all the same")
    asked = [
        tokens(*range(5, 8 + 5 * place), max_tokens=4 + place, temperature=0, logprobs=True, ignore_eos=True)
        for place in range(6)
    ]
    asked.append(tokens(*range(5, 205), max_tokens=4, temperature=0, logprobs=True, ignore_eos=True))
    asked.append(tokens(5, 6, temperature=0, logprobs=True, ignore_eos=True))  # as long as the model takes
    alone = [await answers(engine, one) for one in asked]
    together = await asyncio.gather(*(answers(engine, one) for one in asked))
    for one, other in zip(alone, together, strict=True):
        mine, theirs = one[0].completions[0], other[0].completions[0]
        assert mine.token_ids == theirs.token_ids
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-3)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("max_tokens", [0, 2])
async def test_a_prompt_comes_back(engine: PolicyEngine, stream: bool, max_tokens: int) -> None:
    asked = tokens(5, 6, 7, max_tokens=max_tokens, echo=True, top_logprobs=2, ignore_eos=True, n=2)
    outputs = await answers(engine, asked, stream=stream)
    assert [output.echo is not None for output in outputs] == [True] + [False] * (len(outputs) - 1)
    echo = outputs[0].echo
    assert [place[0].token_id for place in echo.candidates] == [5, 6, 7]
    assert echo.text == "".join(place[0].text for place in echo.candidates)
    for _, first, second in echo.candidates[1:]:
        assert 0 >= first.log_prob >= second.log_prob
    made = [one for output in outputs for one in output.completions]
    assert sum(len(one.token_ids) for one in made) == 2 * max_tokens
    assert {one.index for one in made if one.finish_reason is FinishReason.LENGTH} == {0, 1}


async def test_a_text_comes_back_as_it_was(engine: PolicyEngine) -> None:
    asked = GenerationRequest(TextPrompt("def f"), Sampling(max_tokens=1, echo=True))
    (output,) = await answers(engine, asked)
    assert (output.echo.text, output.echo.candidates) == ("def f", ())


async def test_the_log_probs_of_a_prompt_are_those_of_its_tokens_as_answers(case: Case, engine: PolicyEngine) -> None:
    if isinstance(case.engines, ScriptedEngines):
        pytest.skip("scripted log-probs are all the same")
    (made,) = await answers(
        engine, tokens(5, 6, 7, max_tokens=4, temperature=1.0, seed=3, top_logprobs=0, ignore_eos=True)
    )
    answer = made.completions[0]
    (echoed,) = await answers(engine, tokens(5, 6, 7, *answer.token_ids, max_tokens=0, echo=True, top_logprobs=0))
    scored = [place[0].log_prob for place in echoed.echo.candidates[3:]]
    assert scored == pytest.approx([place[0].log_prob for place in answer.candidates], abs=1e-3)


async def test_a_prompt_as_long_as_the_model_is_refused(engine: PolicyEngine) -> None:
    with pytest.raises(InvalidArgument) as refused:
        await answers(engine, tokens(*([5] * engine.info.max_model_len)))
    assert refused.value.violations[0].field == "prompt.tokens.ids"


async def test_a_caller_that_leaves_harms_nobody(engine: PolicyEngine) -> None:
    async with aclosing(engine.generate(tokens(1, ignore_eos=True), stream=True)) as outputs:
        await anext(outputs)
    task = asyncio.create_task(answers(engine, tokens(1, ignore_eos=True)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert await answers(engine, tokens(1, max_tokens=1))


@pytest.mark.parametrize("stream", [False, True])
async def test_an_interrupted_answer_ends_with_what_there_is(case: Case, engine: PolicyEngine, stream: bool) -> None:
    """What goes on from it is drawn as what was never interrupted: nothing of the answer is lost, or drawn twice."""
    asked = tokens(1, 2, n=2, temperature=1, min_p=1, logprobs=True, ignore_eos=True)
    whole = [joined([one]) for one in (await answers(engine, asked))[0].completions]
    if isinstance(engine, ScriptedEngine):
        engine.going.clear()
    running = asyncio.create_task(answers(engine, asked, stream=stream))
    await asyncio.sleep(0.02)
    await engine.interrupt()
    pieces = {0: list[Completion](), 1: list[Completion]()}
    for output in await running:
        for one in output.completions:
            pieces[one.index].append(one)
    for index, some in pieces.items():
        broken = joined(some)
        assert broken.finish_reason is FinishReason.ABORTED
        made = len(broken.token_ids)
        assert broken.token_ids == whole[index].token_ids[:made]
        assert len(broken.log_probs) == made < len(whole[index].token_ids)
    (later,) = await answers(engine, asked)
    assert [(one.finish_reason, one.token_ids) for one in later.completions] == [(FinishReason.ABORTED, ())] * 2
    if isinstance(engine, ScriptedEngine):
        engine.going.set()
    await engine.load_weights(case.model)
    (again,) = await answers(engine, asked)
    assert [one.token_ids for one in again.completions] == [one.token_ids for one in whole]


async def test_takes_weights_and_shows_them(case: Case, engine: PolicyEngine) -> None:
    loaded = await engine.load_weights(case.model)
    assert 0 <= loaded.probe_error < 1e-5
    assert await answers(engine, tokens(1, max_tokens=1))


async def test_applies_changes_in_place_that_it_has_prepared_for(case: Case) -> None:
    case.needs("changes in place")
    engine = await case.start()
    try:
        new = await case.changed(case.model)
        await engine.load_weights(case.model)
        assert not (await engine.load_weights(new)).in_place, "nobody prepared it"
        await engine.load_weights(case.model)
        await engine.prepare(new)
        assert await answers(engine, tokens(1, max_tokens=1))
        loaded = await engine.load_weights(new)
        assert loaded.in_place
        assert 0 <= loaded.probe_error < 1e-5
        await engine.prepare(new)
        assert not (await engine.load_weights(new)).in_place, "these are changes of other weights"
    finally:
        await engine.stop()


async def test_once_stopped_it_is_unavailable_and_says_so(case: Case) -> None:
    engine = await case.start()
    await engine.stop()
    await engine.stop()
    async with asyncio.timeout(5):
        assert await engine.died()
    with pytest.raises(Unavailable):
        await answers(engine, tokens(1, max_tokens=1))
    with pytest.raises(Unavailable):
        await engine.load_weights(case.model)
