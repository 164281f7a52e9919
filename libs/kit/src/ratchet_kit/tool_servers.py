"""MCP servers that the operator named: episodes reach them by their names, and by nothing else."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    HttpUrl,
    SecretStr,
    field_serializer,
    field_validator,
)

from ratchet_kit.files import json_or_file

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_EXAMPLE = '{"search": {"url": "http://search:8000/mcp", "token": "..."}}'


class ToolServer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    url: HttpUrl
    """Address of its Streamable HTTP transport."""
    token: SecretStr = SecretStr("")
    """Bearer token, which no program sees; empty: none."""

    @field_validator("url")
    @classmethod
    def _has_no_password(cls, url: HttpUrl) -> HttpUrl:
        """It would be shown wherever the address is."""
        if url.username or url.password:
            raise ValueError("must hold no user and no password: what the server wants belongs into token")
        return url

    @field_validator("token")
    @classmethod
    def _fits_a_header(cls, token: SecretStr) -> SecretStr:
        text = token.get_secret_value()
        if not (text.isascii() and text.isprintable() and text == text.strip()):
            raise ValueError("must be printable ASCII, without spaces or line breaks around it")
        return token

    @field_serializer("token", when_used="json")
    def _shown(self, token: SecretStr) -> str:
        """As a job's config carries it."""
        return token.get_secret_value()


def _read(value: Any) -> Any:
    return json_or_file(value, f"must be servers by name as JSON, or a file of it, such as {_EXAMPLE}")


def _named(servers: Mapping[str, ToolServer]) -> Mapping[str, ToolServer]:
    for name in servers:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name[:60]!r} is no name of a tool server: lower case letters, digits, '-' and '_'")
    return servers


ToolServers = Annotated[Mapping[str, ToolServer], BeforeValidator(_read), AfterValidator(_named)]
"""The type of the setting RATCHET_TOOL_SERVERS: servers by name."""
