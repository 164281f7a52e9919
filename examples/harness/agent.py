"""The smallest agent: what the model answers is run by bash, what that prints is its next message, eight times at most.

ratchet episode TASK --model MODEL --files FOLDER -- python /tmp/harness/agent.py
"""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request

TURNS, SHOWN = 8, 4000
ASKED = "Answer with one bash command and nothing else. Answer `exit` when the task is done.\n\n"


def ask(messages):
    """The model's answer. Any name of a model will do: the episode says which one answers."""
    body = json.dumps({"model": "any", "messages": messages, "max_tokens": 256}).encode()
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        sys.exit(f"no answer: {error.read().decode()}")  # such as a conversation that the model can't hold


def main():
    with open("/tmp/instruction.md") as file:
        messages = [{"role": "user", "content": ASKED + file.read()}]
    for _ in range(TURNS):
        command = ask(messages)
        print(f"$ {command}", flush=True)
        if command.strip() == "exit":
            break
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        shown = done.stdout.decode("utf-8", "replace")[-SHOWN:] + f"\n(status {done.returncode})"
        print(shown, flush=True)
        messages += [{"role": "assistant", "content": command}, {"role": "user", "content": shown}]


if __name__ == "__main__":
    main()
