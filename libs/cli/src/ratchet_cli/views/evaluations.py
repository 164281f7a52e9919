"""How an evaluation is followed, and its result."""

from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.following import Count, following
from ratchet_cli.terminal.output import print_table, say, state_name
from ratchet_client import Client


def follow(client: Client, evaluation_id: str, model: str, *, quiet: bool = False) -> pb.Evaluation:
    """Shows an evaluation until it has ended, and returns it as it ended. Interrupted, it says that it goes on."""
    evaluation = pb.Evaluation(id=evaluation_id)
    count = Count(f"evaluating {model}", "problems")
    goes_on = f"Evaluation {evaluation_id} goes on. Look at it: ratchet evaluations show {evaluation_id}"
    with following(count, quiet=quiet, goes_on=goes_on) as changed:
        for evaluation in client.evaluations.watch(evaluation_id):
            count.update(evaluation.problems_done, evaluation.problems_total)
            changed()
    return evaluation


def raise_unless_succeeded(evaluation: pb.Evaluation) -> None:
    if evaluation.state != pb.Evaluation.STATE_SUCCEEDED:
        reason = evaluation.failure.message or "see ratchet logs eval"
        raise CommandError(f"Evaluation {evaluation.id} ended {state_name(evaluation)}: {reason}")


def show_result(evaluation: pb.Evaluation) -> None:
    rows = [
        (f"pass@{row.k}", f"{row.estimate.value:.3f}", f"{row.estimate.low:.3f} to {row.estimate.high:.3f}")
        for row in evaluation.pass_at_k
    ]
    print_table(("", "value", "95 % interval"), rows)
    counts = ", ".join(f"{name} {count}" for name, count in sorted(evaluation.verdicts.items(), key=lambda i: -i[1]))
    forgeable = f"; {evaluation.forgeable_passes} of the passes can be forged" if evaluation.forgeable_passes else ""
    say(f"{evaluation.id}: {evaluation.problems_done} problems; {counts}{forgeable}")
