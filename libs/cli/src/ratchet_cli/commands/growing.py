"""`ratchet data augment` and `grow`: variants of problems, and new ones that a model proposes."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

import typer

import ratchet_benchmarks
from ratchet_cli.commands.options import TargetOption, refusing
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.commands.sources import NameArgument, OutOption, Source, counting, stronger_set, tasks_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_json, say
from ratchet_cli.views import datasets as view
from ratchet_client import Client
from ratchet_client.errors import ApiError, Unreachable
from ratchet_environments import grow as growing
from ratchet_environments.code import CodeEnvironment
from ratchet_environments.executor import Executor
from ratchet_environments.preflight import preflight_all
from ratchet_environments.sandbox import GrpcSandbox
from ratchet_kit import client
from ratchet_kit.errors import Unavailable
from ratchet_problems import Problem
from ratchet_problems.augmentation import families

EXAMPLES = 2
"""Problems that a model is shown."""
AT_ONCE = 8
TRIES = 20
"""Proposals for each problem that is wanted, at most."""
TOKENS = 400
PATIENCE_S = 600
"""For an answer of the model."""


def augment(
    name: NameArgument,
    variants: Annotated[int, typer.Option(help="Variants of each problem, at most.", min=1, max=20)] = 2,
    out: OutOption = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Add variants of problems: other names, words and order of parameters, with the same tests. A variant is kept if
    its reference passes; all of a problem have one structure, so that no statistic counts them as independent."""
    target = target or local_target()
    with refusing(), stronger_set(name, out) as source:
        drawn = asyncio.run(_augmented(source, variants, target, quiet=as_json))
        made = source.write(drawn.problems, changed=drawn.added > 0)
    if as_json:
        sums = {"added": drawn.added, "left_out": drawn.left_out}
        print_json({"name": source.name, "version": view.version(made) if made else "", **sums})
        if made:
            view.check_usable(made)
        return
    failing = f"; {drawn.left_out} are left out, since their references do not pass" if drawn.left_out else ""
    say(f"{source.name}: {drawn.added} variants of {drawn.families} problems{failing}.")
    if made:
        view.show_made(made, as_json=False)


def grow(
    name: NameArgument,
    by: Annotated[str, typer.Option(help="Model that proposes problems: a name, name@number or name:alias.")],
    to: Annotated[int, typer.Option(help="Number of problems to reach.", min=1, max=100_000)],
    tries: Annotated[int, typer.Option(help="Proposals at most; default: 20 for each new problem.", min=0)] = 0,
    out: OutOption = None,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Add problems that a served model proposes. One is kept where its solution passes its own assertions, its tests
    reward no cheat and kill 70 % of the solution's mutants, and no known problem is nearly the same."""
    target = target or local_target()
    with refusing(), stronger_set(name, out) as source:
        problems = list(ratchet_benchmarks.load(source.here).problems)
        wanted = to - len(problems)
        if wanted < 1:
            raise CommandError(f"{source.name} has {len(problems)} problems already: --to must be more.", code=2)
        grown = asyncio.run(_grown(source.name, problems, by, wanted, tries or TRIES * wanted, target, quiet=as_json))
        made = source.write([*problems, *grown.problems], changed=bool(grown.problems))
    if as_json:
        sums = {"added": len(grown.problems), "proposed": grown.tried, "rejected": dict(grown.rejected)}
        print_json({"name": source.name, "version": view.version(made) if made else "", **sums})
        if made:
            view.check_usable(made)
        return
    if grown.lost:
        say(f"Some proposals were lost: {grown.lost}")
    for reason, count in grown.rejected.most_common():
        say(f"{count} of {grown.tried} proposals: {reason}.")
    say(f"{source.name}: {len(grown.problems)} of {wanted} new problems are sound.")
    if made:
        view.show_made(made, as_json=False)


@dataclass(frozen=True, slots=True)
class _Drawn:
    problems: Sequence[Problem]
    families: int
    added: int
    left_out: int


async def _augmented(source: Source, variants: int, target: str, *, quiet: bool) -> _Drawn:
    async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:
        tasks = await asyncio.to_thread(tasks_of, source.here, None)
        found = families([task.problem for task in tasks], variants)
        drawn = [
            replace(task, problem=one)
            for task, its in zip(tasks, found, strict=True)
            for one in its.variants
            if one.references
        ]
        with counting(f"augmenting {source.name}", quiet=quiet) as tell:
            ended = set[int]()

            def ended_one(place: int, _: object) -> None:
                ended.add(place)
                tell(len(ended), len(drawn))

            tried = await preflight_all(CodeEnvironment(executor, forgeable=True), drawn, tell=ended_one)
    passing = {one.problem.id for one in tried if not one.fault}
    problems = [one for its in found for one in (its.problem, *(each for each in its.variants if each.id in passing))]
    kept = sum(any(one.id in passing for one in its.variants) for its in found)
    return _Drawn(problems, kept, len(passing), len(drawn) - len(passing))


@dataclass(slots=True)  # mutable: counted as proposals end
class _Grown:
    problems: list[Problem] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    tried: int = 0
    """Proposals that came."""
    lost: Exception | None = None
    """Why the last proposal that did not come did not."""


async def _grown(
    name: str, problems: Sequence[Problem], by: str, wanted: int, tries: int, target: str, *, quiet: bool
) -> _Grown:
    shown = [one for one in problems if growing.is_example(one)]
    if not shown:
        raise CommandError(f"{name} has no problem to show to a model: with a reference, and tests that show calls.")
    grown, drawn = _Grown(), random.Random(len(problems))
    novelty = await asyncio.to_thread(growing.Novelty, problems)
    with (
        Client(timeout_s=PATIENCE_S) as platform,
        counting(f"growing {name} by {by}", quiet=quiet, of="proposals") as tell,
    ):
        async with client.channel(target) as channel, Executor(GrpcSandbox(channel)) as executor:

            async def propose(message: str) -> None:
                try:
                    answer = await asyncio.to_thread(_answer, platform, by, message)
                    reason = ""
                    try:
                        found = await growing.sound(executor, growing.proposed(answer, f"grown by {by}"))
                        novelty.add(found)
                    except growing.Rejected as error:
                        reason = str(error)
                except (ApiError, Unreachable, Unavailable) as error:
                    grown.lost = error  # no fault of the proposal: it does not count
                    return
                grown.tried += 1
                if not reason and len(grown.problems) == wanted:
                    reason = "is one too many"
                if reason:
                    grown.rejected[reason] += 1
                else:
                    grown.problems.append(found)
                tell(grown.tried, tries)

            while len(grown.problems) < wanted and grown.tried < tries:
                before, count = grown.tried, min(AT_ONCE, tries - grown.tried)
                messages = [growing.request(drawn.sample(shown, min(EXAMPLES, len(shown)))) for _ in range(count)]
                await asyncio.gather(*map(propose, messages))
                if grown.tried == before:  # none came: what was found is kept
                    break
    if grown.lost and not grown.tried:
        raise grown.lost
    return grown


def _answer(platform: Client, model: str, message: str) -> str:
    try:
        return platform.chat(model, message, temperature=1.0, max_tokens=TOKENS).text
    except ApiError as error:
        if error.code != "context_length_exceeded":
            raise
        return platform.chat(model, message, temperature=1.0).text  # a small model has less room
