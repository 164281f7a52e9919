"""An agent in two answers: the model writes a module, its example is run, and what that says is its next message."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

TURNS, SHOWN = 2, 60


def ask(messages):
    body = json.dumps({"model": "any", "messages": messages}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        sys.exit(f"no answer: {error.read().decode()}")


def main():
    with open("/tmp/instruction.md") as file:
        messages = [{"role": "user", "content": file.read()}]
    for _ in range(TURNS):
        said = ask(messages)
        block = re.search(r"```(?:python)?\n(.*?)```", said, re.S)
        with open("solution.py", "w") as file:
            file.write(block[1] if block else said)
        try:
            done = subprocess.run([sys.executable, "example.py"], capture_output=True, text=True, timeout=10)
            shown = (done.stdout + done.stderr[-SHOWN:]).strip()
        except subprocess.TimeoutExpired:
            shown = "it runs too long"
        print(shown, flush=True)
        if shown == "ok":
            return
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": shown}]


if __name__ == "__main__":
    main()
