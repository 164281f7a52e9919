"""An MCP server (2026-07-28) with one tool, which does what the task's instruction says."""

import json
import sys
from typing import Any

import deeds  # type: ignore[import-not-found]  # it lies beside this file there

WORK = {"name": "work", "inputSchema": {"type": "object", "properties": {}}}


def work() -> dict[str, Any]:
    with open("/tmp/instruction.md") as file:
        deeds.do(file.read().strip())
    return {"content": [{"type": "text", "text": "worked"}]}


for line in sys.stdin:
    asked = json.loads(line)
    result = {"tools": [WORK]} if asked["method"] == "tools/list" else work()
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
