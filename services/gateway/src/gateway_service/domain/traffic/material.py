"""The texts of a completion that a key's consent keeps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gateway_service.domain.traffic.left_out import LeftOut, left_out
from ratchet_policies import ChatPrompt, FinishReason, Prompt, TextPrompt, TokenPrompt, Tool, Tools
from ratchet_problems import Message, ToolCall

MAX_MATERIAL = 128 * 1024
"""Characters of a prompt and its answers; longer ones are not kept."""

Change = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Material:
    """A prompt and its answers. A prompt of token ids is none: nothing can be taken out of it."""

    prompt: Prompt
    answers: tuple[Message, ...]
    """Of an assistant, one for each choice."""
    characters: int = 0
    """Of all texts."""
    finish_reasons: tuple[FinishReason, ...] = ()
    """One for each answer; empty for what an earlier version kept."""
    is_redacted: bool = False
    """What is not is never written."""

    def changed(self, change: Change) -> "Material":
        """With `change` of each of its texts, of whatever part."""
        characters = 0

        def counted(text: str) -> str:
            nonlocal characters
            new = change(text)
            characters += len(new)
            return new

        prompt = _prompt(self.prompt, counted)
        answers = tuple(_message(answer, counted) for answer in self.answers)
        return Material(prompt, answers, characters, self.finish_reasons, self.is_redacted)


def material_of(prompt: Prompt, answers: Sequence[Message], reasons: Sequence[FinishReason] = ()) -> Material | None:
    """None, which is counted, for what is not kept."""
    if isinstance(prompt, TokenPrompt):
        left_out(LeftOut.TOKENS)
        return None
    material = Material(prompt, tuple(answers), finish_reasons=tuple(reasons)).changed(lambda text: text)
    if material.characters > MAX_MATERIAL:
        left_out(LeftOut.TOO_LONG)
        return None
    return material


def _prompt(prompt: Prompt, change: Change) -> Prompt:
    match prompt:
        case ChatPrompt(messages, tools):
            return ChatPrompt(tuple(_message(one, change) for one in messages), _tools(tools, change))
        case TextPrompt(text, suffix):
            return TextPrompt(change(text), change(suffix))
    return prompt


def _message(message: Message, change: Change) -> Message:
    return Message(
        change(message.role),
        change(message.content),
        tuple(_call(call, change) for call in message.tool_calls),
        change(message.tool_call_id),
    )


def _call(call: ToolCall, change: Change) -> ToolCall:
    return ToolCall(change(call.name), change(call.arguments), change(call.id), call.index)


def _tools(tools: Tools | None, change: Change) -> Tools | None:
    if tools is None:
        return None
    offered = tuple(
        Tool(change(tool.name), change(tool.description), change(tool.parameters), tool.strict)
        for tool in tools.offered
    )
    return replace(tools, offered=offered, called=change(tools.called))
