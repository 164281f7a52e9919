"""Calls of tools and thoughts: vLLM's parsers read them from what a model writes.

Runs only in the engine process. The parsers are imported when an engine has one.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ratchet_policies import ChatPrompt, Completion, FinishReason, Tools
from ratchet_problems import Message, ToolCall
from rollout_service.adapters.engines.chats import as_record, offered

if TYPE_CHECKING:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser import Parser
    from vllm.sampling_params import StructuredOutputsParams


class Parsers:
    """One model's parsers."""

    def __init__(self, tools: str, reasoning: str, model_config: Any, tokenizer: Any) -> None:
        """`tools`, `reasoning`: vLLM's names, or empty. Raises ValueError when it has no such parser, or the parser
        does not fit the tokenizer."""
        self.tools, self.reasoning = tools, reasoning
        self._model_config = model_config
        self._tokenizer = tokenizer
        self._of_thoughts = self._parser("", reasoning, "REASONING")
        self._of_both = self._parser(tools, reasoning, "TOOL") if tools else None

    def _parser(self, tools: str, reasoning: str, setting: str) -> "type[Parser] | None":
        """None for no names."""
        from vllm.parser import ParserManager

        try:
            parser: type[Parser] | None = ParserManager.get_parser(
                tool_parser_name=tools or None,
                reasoning_parser_name=reasoning or None,
                enable_auto_tools=True,
                model_name=self._model_config.model,
                tokenizer=self._tokenizer,
            )
        except TypeError as error:
            name = tools or reasoning
            raise ValueError(f"{name} of RATCHET_ROLLOUT_{setting}_PARSERS cannot be used: {error}") from error
        return parser

    def reader(self, prompt: ChatPrompt, json_schema: str | None, opening: Sequence[int]) -> "AnswerReader":
        """For the answers to a chat. `json_schema`: for an answer that calls no tool. `opening`: the tokens between the
        last message and the answer, which may begin the model's thoughts, or end them.

        Raises ValueError for tools that vLLM does not take.
        """
        request = _request(prompt.messages, prompt.tools, json_schema)
        parser = self._of_both if prompt.tools else self._of_thoughts
        assert parser is not None, "an answer without thoughts and calls is text"

        def make() -> "Parser":
            return parser(self._tokenizer, request.tools, chat_template_kwargs={}, model_config=self._model_config)

        is_held = json_schema is not None or (prompt.tools is not None and prompt.tools.hold)
        return AnswerReader(make().adjust_request(request), make, prompt.tools, opening, is_held)


@dataclass(frozen=True, slots=True)
class _Said:
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()


class AnswerReader:
    """Reads thoughts and calls in the answers to one request, in their pieces as they come.

    A whole answer is what its pieces make up: read at once, a call that max_tokens cut off would be no call, and its
    markup the answer's text.
    """

    def __init__(
        self,
        request: "ChatCompletionRequest",
        make: Callable[[], "Parser"],
        tools: Tools | None,
        opening: Sequence[int],
        is_held: bool,
    ) -> None:
        """`request`: as the parser adjusted it. `opening`: as `Parsers.reader` has it, and no more of the prompt, in
        which thoughts of earlier answers and texts of users end, too. `is_held`: a form or a call is asked for."""
        self._request = request
        self._is_held = is_held
        self._parsers: defaultdict[int, Parser] = defaultdict(make)
        self._tools = tools
        self._opening = list(opening)
        self.thoughts_ended: bool | None = request.resolve_reasoning_ended(make(), self._opening)
        """Before the answer begins, so that it follows a form from its first token."""
        self._calling: set[int] = set()

    @property
    def structured_outputs(self) -> "StructuredOutputsParams | None":
        """The form that the text is held to, where one is asked for. vLLM's parsers have one for each answer with one
        call at most, and some (GLM's, Mistral's) for each with tools: tokens that it chose are no samples."""
        return self._request.extract_structured_outputs() if self._is_held else None

    @property
    def skip_special_tokens(self) -> bool:
        return bool(self._request.skip_special_tokens)

    def read(self, piece: Completion) -> Completion:
        """The same piece, with its thoughts and calls apart from its text."""
        said = self._said(piece)
        if self._tools is None:
            return replace(piece, text=said.text, reasoning=said.reasoning)
        calls = tuple(call for call in said.calls if call.index == 0 or not self._tools.single)
        if calls:
            self._calling.add(piece.index)
        reason = piece.finish_reason
        if reason is FinishReason.STOP and piece.index in self._calling and not self._tools.called:
            reason = FinishReason.TOOL_CALLS
        return replace(piece, text=said.text, reasoning=said.reasoning, tool_calls=calls, finish_reason=reason)

    def _said(self, piece: Completion) -> _Said:
        said = _Said()
        for part in self._parts(piece):
            new = self._parsed(part)
            said = _Said(said.text + new.text, said.reasoning + new.reasoning, (*said.calls, *new.calls))
        return said

    def _parts(self, piece: Completion) -> Iterator[Completion]:
        """The token that begins thoughts by itself: of one that comes with others, as an engine that is ahead sends
        them, vLLM's parsers leave the text in the thoughts (0.32, vllm/reasoning/basic_parsers.py)."""
        parser = self._parsers[piece.index].reasoning_parser
        begin, word = getattr(parser, "start_token_id", None), getattr(parser, "start_token", "")
        if len(piece.token_ids) == 1 or begin not in piece.token_ids or word not in piece.text:
            yield piece
            return
        place = piece.token_ids.index(begin)
        before, _, after = piece.text.partition(word)
        if place:
            ids = piece.token_ids[:place]
            yield replace(piece, text=before, token_ids=ids, finish_reason=FinishReason.UNFINISHED)
        yield replace(piece, text=word, token_ids=(begin,), finish_reason=FinishReason.UNFINISHED)
        yield replace(piece, text=after, token_ids=piece.token_ids[place + 1 :])

    def _parsed(self, piece: Completion) -> _Said:
        delta = self._parsers[piece.index].parse_delta(
            piece.text,
            list(piece.token_ids),
            self._request,
            self._opening,
            finished=piece.finish_reason is not FinishReason.UNFINISHED,
        )
        if delta is None:
            return _Said()
        read = []
        for call in delta.tool_calls:
            name = (call.function.name if call.function else None) or ""
            arguments = (call.function.arguments if call.function else None) or ""
            read.append(ToolCall(name, arguments, call.id or "", call.index))
        return _Said(delta.content or "", delta.reasoning or "", tuple(read))


def _request(messages: Sequence[Message], tools: Tools | None, json_schema: str | None) -> "ChatCompletionRequest":
    """The request that vLLM's parsers read: as OpenAI's API writes it."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    followed = None
    if json_schema is not None:
        followed = {"type": "json_schema", "json_schema": {"name": "answer", "schema": json.loads(json_schema)}}
    said = {"messages": [as_record(message, str) for message in messages], "response_format": followed}
    return ChatCompletionRequest.model_validate(said | (_choice(tools) if tools else {}))


def _choice(tools: Tools) -> dict[str, Any]:
    choice: Any = "required" if tools.required else "auto"
    if tools.called:
        choice = {"type": "function", "function": {"name": tools.called}}
    return {"tools": offered(tools), "tool_choice": choice, "parallel_tool_calls": not tools.single}
