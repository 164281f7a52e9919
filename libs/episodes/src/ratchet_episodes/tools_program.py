"""Runs in a task's workspace, with the standard library alone: its source is sent there (`tools`).

python tools_program.py TURNS [COMMAND...]

has the model work on /tmp/instruction.md with the tools below, and those of the MCP server COMMAND, or of the servers
that it names ("mcp:search mcp:maps"), in its own format of calls, until it submits, calls none, or has answered TURNS
times.
"""

from __future__ import annotations  # an image's Python may be an old one

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

from http_tool_server import HttpToolServer  # type: ignore[import-not-found]  # it lies beside this file there
from tool_server import Refused, ToolServer  # type: ignore[import-not-found]

NAMED = "mcp:"
SHOWN, LINES, SECONDS, LETTERS = 8000, 400, 120, 16 << 20
"""Letters of a result, lines of a file, seconds of a command, and letters of a file that are read."""
SYSTEM = (
    "You solve a task on this machine with the tools that you are given. Look at what is there first, check what you "
    "made, and call submit when the task is done."
)


def bash(command: str) -> str:
    return _run(["bash", "-c", command])


def run_python(code: str) -> str:
    return _run([sys.executable, "-c", code])


def read(path: str, line: int = 1) -> str:
    with open(_named(path), errors="replace") as file:
        text = file.read(LETTERS + 1)
    if len(text) > LETTERS:
        return f"error: {path} has more than {LETTERS} letters: look at parts of it with bash"
    lines = text.splitlines()
    shown = lines[line - 1 : line - 1 + LINES]
    more = len(lines) - (line - 1 + len(shown))
    return "\n".join(shown) + (f"\n({more} more lines: read from line {line + len(shown)})" if more > 0 else "")


def write(path: str, content: str) -> str:
    folder = os.path.dirname(_named(path))
    if folder:
        os.makedirs(folder, exist_ok=True)
    with open(path, "w") as file:
        file.write(content)
    return f"{path} has {len(content.splitlines())} lines."


def patch(path: str, old: str, new: str) -> str:
    with open(_named(path)) as file:
        text = file.read()
    if text.count(old) != 1:
        return f"error: old stands {text.count(old)} times in {path}; it must stand there once"
    with open(path, "w") as file:
        file.write(text.replace(old, new))
    return f"{path} is changed."


def search(pattern: str, path: str = ".") -> str:
    found, wanted = [], re.compile(pattern)
    walked = sorted(os.walk(_named(path)))
    below = [os.path.join(folder, name) for folder, _, names in walked for name in sorted(names)]
    for file in below or [path]:
        if os.path.isfile(file) and os.path.getsize(file) <= 1 << 20:
            with open(file, errors="replace") as opened:
                lines = enumerate(opened.read().splitlines(), 1)
            found += [f"{file}:{number}: {line}" for number, line in lines if wanted.search(line)]
    return "\n".join(found) or "nothing found"


def submit() -> str:
    return "submitted"


def _named(path: str) -> str:
    """Raises TypeError for a number, which would be an open file of this program's."""
    return os.fspath(path)


def _tool(do: Callable[..., str], description: str, **parameters: str) -> tuple[Callable[..., str], dict[str, Any]]:
    """`parameters`: what each is; one whose text ends with "?" may be left out, and `line` is a number."""
    properties = {
        name: {"type": "integer" if name == "line" else "string", "description": text.rstrip("?")}
        for name, text in parameters.items()
    }
    required = [name for name, text in parameters.items() if not text.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": required}
    return do, {"name": do.__name__, "description": description, "parameters": schema}


TOOLS = {
    description["name"]: (do, description)
    for do, description in (
        _tool(bash, "Runs a bash command.", command="Command"),
        _tool(run_python, "Runs a Python program.", code="Program"),
        _tool(read, f"Shows up to {LINES} lines of a file.", path="File", line="First line?"),
        _tool(write, "Writes a file.", path="File", content="All of its content"),
        _tool(patch, "Replaces a text that stands once in a file.", path="File", old="Text", new="Text in its place"),
        _tool(search, "Finds lines that match a regular expression.", pattern="Expression", path="File or folder?"),
        _tool(submit, "Says that the task is done."),
    )
}


def add_served(command: list[str]) -> None:
    """The tools of MCP servers beside those that are here."""
    if not command[0].startswith(NAMED):
        _add(command[0], partial(ToolServer, command))
        return
    for name in command:
        _add(name, partial(HttpToolServer, name.removeprefix(NAMED)))


def _add(name: str, serve: Callable[[], ToolServer]) -> None:
    try:
        server = serve()
        for described in server.tools():
            if described["name"] in TOOLS:
                sys.exit(f"{name} serves a tool {described['name']}, which is here already")
            do = partial(_of_server, server, described["name"])
            TOOLS[described["name"]] = (do, described)
    except (OSError, Refused) as error:
        sys.exit(f"{name} serves no tools: {error}")


def _of_server(server: ToolServer, tool: str, /, **arguments: Any) -> str:
    said: str = server.call(tool, arguments)
    return said


def used(name: str, arguments: str) -> str:
    """A tool's result. The model's mistakes are results as well."""
    if name not in TOOLS:
        return f"error: there is no tool {name}: there are {', '.join(TOOLS)}"
    try:
        result = TOOLS[name][0](**json.loads(arguments or "{}"))[-SHOWN:] or "(no output)"
    except (
        OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, MemoryError, re.error, Refused,
    ) as error:  # fmt: skip
        result = f"error: {error or type(error).__name__}"
    return result.encode("utf-8", "replace").decode()  # names of files may be no UTF-8


def main(turns: int) -> None:
    with open("/tmp/instruction.md") as file:
        task = file.read()
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    for _ in range(turns):
        answer = _ask(messages)
        messages.append(answer)
        print(answer.get("content") or "", flush=True)
        calls = answer.get("tool_calls") or []
        for call in calls:
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            result = used(name, arguments)
            print(f"{name} {arguments}\n{result}", flush=True)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not calls or any(call["function"]["name"] == submit.__name__ for call in calls):
            return


def _ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    tools = [{"type": "function", "function": description} for _, description in TOOLS.values()]
    body = json.dumps({"model": "any", "messages": messages, "tools": tools}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            message = json.load(answer)["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        sys.exit(f"no answer: {error.read().decode(errors='replace')}")
    kept = {"role": "assistant", "content": message.get("content") or ""}
    return kept | ({"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {})


def _run(command: list[str]) -> str:
    """Processes that it leaves go on: one may be a server."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = process.wait(SECONDS)
            ended = f"(status {status})" if status else ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ended = f"(ended after {SECONDS} s)"
        output.seek(max(0, output.seek(0, os.SEEK_END) - SHOWN))
        return "\n".join(filter(None, (output.read(SHOWN).decode(errors="replace"), ended)))


if __name__ == "__main__":
    if sys.argv[2:]:
        add_served(sys.argv[2:])
    main(int(sys.argv[1]))
