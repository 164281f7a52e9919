"""How the result of an evaluation is shown."""

from collections.abc import Iterable, Mapping

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_cli.terminal.output import print_fields, print_table, say, when
from ratchet_client.names import environment_name, examples_name, measured_name, state_name
from ratchet_reports import usage_words
from ratchet_reports.gather import set_names

SHOWN = 20
"""Problems that are named, of those that were left out for one reason."""

_ORDER = [
    name.removeprefix(f"{prefix}_")
    for kind, prefix in ((verdict_pb2.Verdict, "VERDICT"), (pb.FailureClass, "FAILURE_CLASS"))
    for name, _ in kind.items()
]


def show_facts(evaluation: pb.Evaluation) -> None:
    """The model, the sets, the sampling and the times."""
    spec = evaluation.spec
    budget = spec.budget if spec.HasField("budget") else None
    print_fields(
        [
            ("id", evaluation.id),
            ("name", spec.display_name or "-"),
            ("state", state_name(evaluation)),
            ("model", measured_name(evaluation)),
            ("problems", set_names(evaluation)),
            (
                "samples",
                f"{spec.samples_per_problem} a problem at temperature {spec.temperature:g}, seed {spec.seed},"
                f" {spec.max_tokens} tokens at most",
            ),
            *([("played by", environment_name(spec.environment))] if spec.HasField("environment") else []),
            ("weights", evaluation.policy_id or "-"),
            ("forecast", usage_words.expected(evaluation.forecast) if evaluation.HasField("forecast") else "-"),
            ("used", usage_words.used(evaluation.usage) or "-"),
            ("cost", usage_words.cost(evaluation.usage, budget, evaluation.samples_done) or usage_words.UNPRICED),
            ("created", when(evaluation.create_time)),
            ("started", when(evaluation.start_time)),
            ("ended", when(evaluation.end_time)),
        ]
    )


def forecast(evaluation: pb.Evaluation) -> str:
    """The usage that a new evaluation is expected to have, in a sentence."""
    if evaluation.HasField("forecast"):
        return f"Forecast: {usage_words.expected(evaluation.forecast)}."
    model = evaluation.version.model or measured_name(evaluation)
    return f"No forecast: no evaluation of {model} on {set_names(evaluation)} in this way has succeeded yet."


def show_result(evaluation: pb.Evaluation) -> None:
    """The score; of a running one, as far as it is known."""
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
    if evaluation.HasField("episodes"):
        mean = evaluation.episodes
        seconds = mean.time.ToTimedelta().total_seconds()
        say(
            f"An episode, on average: {mean.turns:.1f} answers, {mean.tool_errors:.1f} tool errors,"
            f" {mean.tokens:.0f} tokens, {seconds:.1f} s"
        )
    if evaluation.failure.message:
        say(f"It ended {state_name(evaluation)}: {evaluation.failure.message}")
    if evaluation.spec.system:
        say(f"Every prompt without a system message has this one: {evaluation.spec.system}")
    if evaluation.spec.chat_template:
        say("Prompts are put in a chat template of the evaluation's own.")
    if shown := examples_name(evaluation.spec.examples):
        say(f"Shown before every problem: {shown}")
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
    return ", ".join(f"{name} {counts[name]}" for name in sorted(counts, key=_place))


def _place(name: str) -> tuple[int, str]:
    """Its place among all verdicts and reasons, which is the same in every evaluation."""
    return (_ORDER.index(name) if name in _ORDER else len(_ORDER), name)
