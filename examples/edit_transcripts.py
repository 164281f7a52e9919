"""Problems whose prompts are chats in the starter's template: a program, what fails of it, and the request to write it
again. SFT on them teaches the starter what a reply of the environment `edits` is.

    .venvs/light/bin/python examples/edit_transcripts.py ~/.ratchet/problems/transcripts.jsonl

while `ratchet up` runs, whose sandbox says what fails. The programs are `composed/demonstrations`, of which 45 % leave
a step out; each that fails is followed by the reference. Beside each transcript stands its demonstration by itself, so
that first answers stay as they were.
"""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ratchet_cli.commands.sandbox import local_target
from ratchet_environments import EnvironmentSpec, Task
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.named import environment_of
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client
from ratchet_problems import Problem, jsonl, load


async def transcripts(target: str, demonstrations: Sequence[Problem]) -> list[Problem]:
    right = {problem.prompt: problem.references[0] for problem in load("composed/train")}
    made: list[Problem] = []
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        environment = environment_of(EnvironmentSpec("edits"), CodeEnvironment(executor))

        async def reply(problem: Problem) -> str:
            start = await environment.start(Task.of(problem))
            episode = await environment.step(start, problem.references[0])
            return "" if episode.outcome else episode.turns[-1].replies[0].content

        replies = await asyncio.gather(*map(reply, demonstrations))
    for problem, said in zip(demonstrations, replies, strict=True):
        made.append(replace(problem, tests=()))
        if said:
            chat = f"{problem.prompt}<|assistant|>{problem.references[0]}<|end|><|user|>{said}"
            reference = right[problem.prompt]
            made.append(replace(problem, id=f"{problem.id}/edit", prompt=chat, references=(reference,), tests=()))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--sandbox", default="", help="host:port; default: the one that `ratchet up` started")
    parser.add_argument("--limit", type=int, default=3000, help="demonstrations")
    given = parser.parse_args()
    made = asyncio.run(transcripts(given.sandbox or local_target(), load("composed/demonstrations", limit=given.limit)))
    jsonl.write(made, given.file)
    print(f"{len(made)} problems, {sum(one.id.endswith('/edit') for one in made)} of them with an edit")


if __name__ == "__main__":
    main()
