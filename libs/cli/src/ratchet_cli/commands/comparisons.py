"""`ratchet evaluations compare` and `plan`: what differs, and what could be seen."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from ratchet.common.v1 import statistics_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_cli.commands.options import numbers_of_user
from ratchet_cli.terminal.output import JsonFlag, print_heading, print_json, print_table, say
from ratchet_client import Client
from ratchet_client.calls import to_json
from ratchet_reports import run_words

_NAMED = 10
"""Problems that a line names."""

Baseline = Annotated[str, typer.Argument(help="The baseline: id of an evaluation.")]


def compare(
    baseline: Baseline,
    candidate: Annotated[str, typer.Argument(help="The candidate: id of an evaluation of the same problems.")],
    confidence: Annotated[float, typer.Option(help="Confidence of the intervals.")] = 0.95,
    problem: Annotated[str, typer.Option(help="Show both answers to this problem, with its prompt and tests.")] = "",
    benchmark: Annotated[str, typer.Option(help="Set of the problem, if there are several.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Compare two evaluations, problem by problem: in each set and in the whole score."""
    with Client() as client:
        if problem:
            _show_answers(client, {"Baseline": baseline, "Candidate": candidate}, problem, benchmark, as_json)
            return
        reply = client.evaluations.compare_sets(baseline, candidate, confidence)
    if as_json:
        print_json(reply)
        return
    rows = [(one.name, one.comparison, one.adjusted_p_value) for one in reply.benchmarks]
    if len(rows) > 1:
        rows.append(("whole score", reply.comparison, reply.comparison.p_value))
    print_table(
        (
            "",
            "baseline",
            "candidate",
            "difference",
            f"{100 * confidence:.4g} % interval",
            "p",
            "won",
            "lost",
            "problems",
        ),
        [
            (
                name,
                f"{one.baseline.value:.3f}",
                f"{one.candidate.value:.3f}",
                f"{one.difference.value:+.3f}",
                _interval(one.difference),
                f"{p_value:.2g}",
                one.won,
                one.lost,
                one.problems if one.clusters == one.problems else f"{one.problems} in {one.clusters} families",
            )
            for name, one, p_value in rows
        ],
    )
    for found in reply.benchmarks:
        _say_changed("won", found.name, [one for one in reversed(found.changed) if one.candidate > one.baseline])
        _say_changed("lost", found.name, [one for one in found.changed if one.candidate < one.baseline])
        if found.unsolved:
            say(f"{found.name}: always solved by the baseline, never by the candidate: {', '.join(found.unsolved)}")
    say(f"Four times in five, it would show a difference of {reply.comparison.detectable_difference:.3f}.")


def plan(
    baseline: Baseline,
    samples: Annotated[int, typer.Option(help="Completions per problem; 0: the evaluation's number.", min=0)] = 0,
    problems: Annotated[int, typer.Option(help="Problems; 0: the evaluation's number.", min=0)] = 0,
    power: Annotated[float, typer.Option(help="Probability of showing a difference that exists.")] = 0.8,
    as_json: JsonFlag = False,
) -> None:
    """Compute the smallest difference that a comparison with this evaluation would show."""
    with Client() as client, numbers_of_user():
        planned = client.evaluations.plan(
            baseline, samples_per_problem=samples or None, problems=problems or None, power=power
        )
    if as_json:
        print_json(planned)
    else:
        say(
            f"{planned.problems} problems x {planned.samples_per_problem} samples show a difference of "
            f"{planned.detectable_difference:.3f} in pass@1 with a probability of {power:.0%}."
        )


def _say_changed(word: str, name: str, changed: Sequence[eval_pb2.ChangedProblem]) -> None:
    if changed:
        shown = ", ".join(f"{one.problem_id} ({one.baseline:.2g} to {one.candidate:.2g})" for one in changed[:_NAMED])
        more = f", and {len(changed) - _NAMED} more (--json has all)" if len(changed) > _NAMED else ""
        say(f"{name}: {word} {shown}{more}")


def _show_answers(client: Client, sides: Mapping[str, str], problem: str, benchmark: str, as_json: bool) -> None:
    shown = client.evaluations.problem(sides["Baseline"], problem, benchmark)
    samples = {side: list(client.evaluations.samples(id, benchmark, problem)) for side, id in sides.items()}
    if as_json:
        answers = {side.lower(): [to_json(one) for one in found] for side, found in samples.items()}
        print_json({"problem": to_json(shown), **answers})
        return
    print_heading("Prompt")
    say(shown.prompt)
    print_heading("Tests")
    for test in shown.tests:
        say(f"{test.test}: {test.expected}" if test.expected else test.test)
    if shown.held_out_tests:
        say(f"and {shown.held_out_tests} held-out tests")
    for side, found in samples.items():
        for one in found:
            verdict = verdict_pb2.Verdict.Name(one.verdict).removeprefix("VERDICT_")
            print_heading(f"{side} #{one.index}: {verdict}, {one.tests_passed} of {one.tests_total} tests")
            say(one.completion)
            for failed in one.failed_tests:
                say(f"failed: {run_words.failed(failed)}")
            if one.held_out_failed:
                say(f"held-out tests that failed: {one.held_out_failed}")


def _interval(estimate: statistics_pb2.Estimate) -> str:
    return f"{estimate.low:+.3f} to {estimate.high:+.3f}"
