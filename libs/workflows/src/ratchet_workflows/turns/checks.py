"""The checks of a plan by the platform, before anything of it is begun."""

from collections.abc import Callable

from ratchet_client import ApiError, Client
from ratchet_kit import refs
from ratchet_kit.names import VersionRef
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.notation.references import champion
from ratchet_workflows.notation.unseen import check_unseen
from ratchet_workflows.turns.plan import Plan


def check(client: Client, plan: Plan, source: Source) -> VersionRef:
    """The champion, which is to be beaten. Raises UsageError that names every field at fault, and ApiError for what
    is not a field's fault, such as a run that does not fit into memory. A run that learns from traffic is looked at
    once the turn has made the data set of it: see `Plan.learning`."""
    now = _champion(client, plan, source)
    ref = refs.version_to_proto(now)
    check_unseen(source, plan.train, plan.evaluate)
    faults = [
        *([] if plan.learns_traffic else _faults(source, "train", lambda: _run(client, plan, now))),
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
    return now


def _run(client: Client, plan: Plan, champion: VersionRef) -> object:
    return client.runs.create(plan.run_of(champion, 1), validate_only=True)


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
