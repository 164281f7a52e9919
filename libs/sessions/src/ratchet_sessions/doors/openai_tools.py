"""Tools in requests of OpenAI's API (https://platform.openai.com/docs/guides/function-calling)."""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool

import ratchet_problems
from ratchet_kit.errors import invalid
from ratchet_policies import Tool, Tools
from ratchet_sessions.doors.texts import Schema, Text

MAX_TOOLS = 128
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CalledFunction(_Strict):
    name: Text
    arguments: Text
    parsed_arguments: Any = Field(default=None, description="OpenAI's client's. Ignored.")


class Call(_Strict):
    """A call that an assistant made."""

    id: Text
    type: Literal["function"]
    function: CalledFunction
    index: int | None = Field(default=None, description="As a stream has it. Ignored.")

    def to_chat(self) -> ratchet_problems.ToolCall:
        return ratchet_problems.ToolCall(self.function.name, self.function.arguments, self.id)


class Function(_Strict):
    name: Name
    description: Text | None = None
    parameters: Schema | None = Field(default=None, description="A JSON Schema.")
    strict: StrictBool | None = None


class OfferedTool(_Strict):
    type: Literal["function"]
    function: Function

    def to_tool(self) -> Tool:
        wanted = self.function.parameters
        parameters = "" if wanted is None else json.dumps(wanted)
        return Tool(self.function.name, self.function.description or "", parameters, self.function.strict)


class NamedFunction(_Strict):
    name: Name


class NamedTool(_Strict):
    type: Literal["function"]
    function: NamedFunction


OfferedTools: TypeAlias = Annotated[list[OfferedTool], Field(max_length=MAX_TOOLS, fail_fast=True)]
Mode: TypeAlias = Literal["none", "auto", "required"]
ToolChoice: TypeAlias = Mode | NamedTool


def to_tools(offered: Sequence[OfferedTool], choice: ToolChoice | None, parallel: bool | None) -> Tools | None:
    """As `tools_of`."""
    called = choice.function.name if isinstance(choice, NamedTool) else ""
    mode = "auto" if choice is None or isinstance(choice, NamedTool) else choice
    return tools_of([tool.to_tool() for tool in offered], mode, called, single=parallel is False)


def tools_of(offered: Sequence[Tool], mode: Mode, called: str, *, single: bool) -> Tools | None:
    """None where nothing may be called: the model then does not see the tools. `called`: the one that must be.

    Raises InvalidArgument for a choice of what is not offered.
    """
    if called not in ("", *(tool.name for tool in offered)) or (mode == "required" and not offered):
        raise invalid("tool_choice", "must name tools that the request offers")
    if not offered or mode == "none":
        return None
    return Tools(tuple(offered), required=mode == "required", called=called, single=single)
