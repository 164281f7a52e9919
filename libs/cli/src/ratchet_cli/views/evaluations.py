"""How an evaluation is followed, and its result."""

from collections.abc import Callable, Iterable, Mapping

from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import print_table, say
from ratchet_client import Client
from ratchet_client.names import state_name

REFERENCES = "references, which are tried before the samples"
SHOWN = 20
"""Problems that are named, of those that were left out for one reason."""


def follow(
    client: Client,
    evaluation_id: str,
    model: str,
    *,
    quiet: bool = False,
    log: Callable[[str], None] | None = None,
) -> pb.Evaluation:
    """Shows an evaluation until it has ended, and returns it as it ended. Interrupted, it says that it goes on."""
    evaluation = pb.Evaluation(id=evaluation_id)
    count = Count(f"evaluating {model}", "samples")
    goes_on = f"Evaluation {evaluation_id} goes on. Look at it: ratchet evaluations show {evaluation_id}"
    with following(count, quiet=quiet, goes_on=goes_on, log=log) as changed:
        for evaluation in client.evaluations.watch(evaluation_id):
            if evaluation.waits_for:
                count.wait(evaluation.waits_for)
            elif evaluation.references_done < evaluation.references_total:
                count.update(evaluation.references_done, evaluation.references_total, REFERENCES)
            else:
                count.update(evaluation.samples_done, evaluation.samples_total, "samples")
            changed()
    return evaluation


def raise_unless_succeeded(evaluation: pb.Evaluation) -> None:
    if evaluation.state != pb.Evaluation.STATE_SUCCEEDED:
        reason = evaluation.failure.message or "see ratchet logs eval"
        raise CommandError(f"Evaluation {evaluation.id} ended {state_name(evaluation)}: {reason}")


def names(evaluation: pb.Evaluation) -> str:
    """Of the sets that it measures."""
    return evaluation.spec.problems.name or ", ".join(one.problems.name for one in evaluation.spec.suite)


def show_result(evaluation: pb.Evaluation) -> None:
    """Of one that runs, what is known so far."""
    rows = (
        [("whole score", *cells) for cells in _passes(evaluation.pass_at_k)] if len(evaluation.benchmarks) > 1 else []
    )
    for one in evaluation.benchmarks:
        rows += [(one.problems.name, *cells) for cells in _passes(one.pass_at_k)]
        rows += [(f"  {part.name}", *cells) for part in one.slices for cells in _passes(part.pass_at_k)]
    if rows:
        print_table(("", "", "value", "95 % interval"), rows)
    counts = _counts(evaluation.verdicts)
    say(f"{evaluation.id}: {evaluation.problems_done} problems; {counts}")
    if evaluation.failure.message:
        say(f"It ended {state_name(evaluation)}: {evaluation.failure.message}")
    for notice in evaluation.notices:
        say(f"{notice}.")
    if evaluation.waits_for:
        say(f"It waits for {evaluation.waits_for}.")
    for one in evaluation.benchmarks:
        if one.failures:
            say(f"{one.problems.name}: {_counts(one.failures).lower()}")
        if one.shared_problem_ids:
            say(
                f"{one.problems.name}: {len(one.shared_problem_ids)} of {one.problems_total} problems are graded in the"
                f" program's process; {one.forgeable_passes} passes of theirs can be forged"
            )
        reasons: dict[str, list[str]] = {}
        for left_out in one.exclusions:
            reasons.setdefault(left_out.reason, []).append(left_out.problem_id)
        for reason, ids in reasons.items():
            more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
            are = "is" if len(ids) == 1 else "are"
            say(f"{one.problems.name}: {', '.join(ids[:SHOWN])}{more} {are} left out: {reason}")


def _passes(items: Iterable[pb.PassAtK]) -> list[tuple[str, str, str]]:
    return [
        (f"pass@{item.k}", f"{item.estimate.value:.3f}", f"{item.estimate.low:.3f} to {item.estimate.high:.3f}")
        for item in items
    ]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items(), key=lambda item: -item[1]))
