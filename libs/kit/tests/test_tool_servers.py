"""The setting that names MCP servers: JSON, or a file of it; mistakes are told."""

import json
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from ratchet_kit.tool_servers import ToolServers

SERVERS: TypeAdapter[ToolServers] = TypeAdapter(ToolServers)


@pytest.mark.parametrize("is_file", [False, True])
def test_servers_are_json_or_a_file_of_it(tmp_path: Path, is_file: bool) -> None:
    text = '{"search": {"url": "http://search:8000/mcp", "token": "secret"}, "maps": {"url": "https://maps/mcp"}}'
    (tmp_path / "servers.json").write_text(text)
    found = SERVERS.validate_python(str(tmp_path / "servers.json") if is_file else text)
    assert {name: str(one.url) for name, one in found.items()} == {
        "search": "http://search:8000/mcp",
        "maps": "https://maps/mcp",
    }
    assert "secret" not in repr(found)
    again = SERVERS.validate_python(json.loads(SERVERS.dump_json(found)))
    assert again["search"].token.get_secret_value() == "secret", "as a job gets it"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "must be servers by name as JSON"),
        ("/nowhere.json", "must be servers by name as JSON"),
        ('{"Search": {"url": "http://a"}}', "'Search' is no name of a tool server"),
        ('{"a/b": {"url": "http://a"}}', "'a/b' is no name of a tool server"),
        ('{"search": {"url": "search:8000"}}', "URL scheme should be 'http' or 'https'"),
        ('{"search": {"uri": "http://a"}}', "Field required"),
        ('{"search": {"url": "http://a", "token": "secret\\n"}}', "must be printable ASCII, without spaces or line"),
        ('{"search": {"url": "http://a", "token": "a\\r\\nHost: b"}}', "must be printable ASCII"),
        ('{"search": {"url": "http://user:word@a/mcp"}}', "must hold no user and no password"),
    ],
)
def test_mistakes_are_told(text: str, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SERVERS.validate_python(text)
