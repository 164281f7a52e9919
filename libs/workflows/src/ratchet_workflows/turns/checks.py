"""The checks of a plan by the platform, before anything of it is begun."""

from collections.abc import Callable, Iterable

from ratchet_client import ApiError, Client
from ratchet_kit import refs
from ratchet_kit.names import VersionRef
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.notation.references import champion
from ratchet_workflows.notation.unseen import check_unseen
from ratchet_workflows.turns.plan import Plan


def check(client: Client, plan: Plan, source: Source, prepare: Callable[[Iterable[str]], None]) -> VersionRef:
    """The champion, which is to be beaten. Raises UsageError that names every field at fault, and ApiError for what
    is not a field's fault, such as a run that does not fit into memory. `prepare` gets the names of
    the sets at last."""
    now = _champion(client, plan, source)
    ref = refs.version_to_proto(now)
    check_unseen(source, plan.train, plan.evaluate)
    faults = [
        *_faults(source, "train", lambda: client.runs.create(plan.run_of(now, 1), validate_only=True)),
        *_faults(
            source,
            "evaluate",
            lambda: client.evaluations.create(plan.evaluation_of(now), validate_only=True, for_gate=True),
        ),
        # The fields of these two are looked at first; then they are refused, being about the champion itself.
        *_faults(
            source,
            "gate",
            lambda: client.models.create_gate(
                ref, "none", "none", min_difference=plan.gate.min_difference, rules=plan.rules
            ),
            refused=("INVALID_ARGUMENT", "FAILED_PRECONDITION"),
        ),
        *_faults(
            source,
            "release",
            lambda: client.releases.create(plan.release_of(now, "none")),
            refused=("FAILED_PRECONDITION",),
        ),
    ]
    if faults:
        raise UsageError("\n".join(faults))
    measured = plan.evaluation_of(now)
    sets = [entry.problems for entry in measured.suite] or [measured.problems]
    chosen_by = [entry.problems for entry in plan.train.validate.suite]
    prepare(one.name for one in (*sets, *chosen_by, plan.train.problems))
    return now


def _champion(client: Client, plan: Plan, source: Source) -> VersionRef:
    try:
        now = champion(client, plan.model)
    except ApiError as error:
        if error.code != "NOT_FOUND":
            raise
        raise source.wrong(
            "model",
            f"is {plan.model}, which the registry does not have: ratchet models add {plan.model} /path/to/hf-folder; "
            f"ratchet models promote {plan.model}@1",
        ) from error
    if now is None:
        raise source.wrong("model", f"has no champion yet: ratchet models promote {plan.model}@1")
    return now


def _faults(source: Source, section: str, call: Callable[[], object], refused: tuple[str, ...] = ()) -> list[str]:
    """Each violation, under the name and the line that the file has for it. `refused`: the codes of what is refused
    whatever its fields."""
    try:
        call()
    except ApiError as error:
        if not error.violations and error.code not in refused:
            raise
        return [
            str(source.wrong(f"{section}.{one['field'].removeprefix('spec.')}", one["description"].rstrip(".")))
            for one in error.violations
        ]
    return []
