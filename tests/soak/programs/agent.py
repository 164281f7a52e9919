"""The harness of the soak's episodes: what it does says the task's instruction, "solve csv-to-json"."""

import json
import os
import urllib.request
from typing import Any

import deeds  # type: ignore[import-not-found]  # it lies beside this file there

WORKED = "worked"


def ask(messages: list[dict[str, Any]]) -> str:
    body = json.dumps({"model": "any", "messages": messages, "max_tokens": 8}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def main() -> None:
    with open("/tmp/instruction.md") as file:
        task = file.read().strip()
    messages = [{"role": "user", "content": task}]
    messages.append({"role": "assistant", "content": ask(messages)})
    deeds.do(task)
    messages.append({"role": "user", "content": WORKED})
    ask(messages)


if __name__ == "__main__":
    main()
