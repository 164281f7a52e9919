"""Who may become champion. Pure rules; `aliases.py` applies them."""

from collections.abc import Sequence

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import VersionRef
from registry_service.domain.gate import Gate, State
from registry_service.domain.model import AliasChange, Model


def check_promotion(model: Model, number: int, changes: Sequence[AliasChange], gate: Gate | None) -> None:
    """Raises FailedPrecondition unless the version may become the champion of `model`. `changes`: of the alias
    champion, newest first.

    The first champion needs no gate, as there is nothing to compare it with. A return to an earlier champion needs none
    either: a rollback must not wait for evidence. One that was taken back proved worse in production: what passed
    before that counts no more. Everything else needs a passed gate for this very candidate against the champion that it
    would replace.
    """
    taken_back = find_taken_back(number, changes)
    was_champion = number in {change.to_number for change in changes}
    if model.champion is None or (was_champion and taken_back is None):
        return
    version, champion = VersionRef(model.name, number), VersionRef(model.name, model.champion)
    wanted = f"a passed gate of {version} against the champion, {champion}"
    if taken_back is not None:
        wanted += f", made since {_said(version, taken_back)},"
    if gate is None:
        raise FailedPrecondition(f"to become champion, {wanted} is needed: make one with CreateGate and give its id")
    if gate.spec.candidate != version:
        raise FailedPrecondition(f"gate {gate.id} is about {gate.spec.candidate}; {wanted} is needed")
    if gate.champion != champion:
        raise FailedPrecondition(
            f"gate {gate.id} compared with {gate.champion}, which is no longer the champion; {wanted} is needed"
        )
    if gate.state is State.PENDING:
        raise FailedPrecondition(f"gate {gate.id} is not decided yet; {wanted} is needed")
    if gate.state is not State.PASSED:
        reason = gate.failure.message if gate.failure else gate.reason
        raise FailedPrecondition(f"gate {gate.id} did not pass. {reason}")
    if stale := why_stale(gate, changes):
        raise FailedPrecondition(f"gate {gate.id} counts no more: {stale}. A new gate is needed")


def why_stale(gate: Gate, changes: Sequence[AliasChange]) -> str:
    """Why a gate that passed opens no way any more; empty where it does. `changes` as above."""
    taken_back = find_taken_back(gate.spec.candidate.number, changes)
    if taken_back is None or gate.create_time > taken_back.create_time:
        return ""
    return f"it is from before {_said(gate.spec.candidate, taken_back)}"


def find_taken_back(number: int, changes: Sequence[AliasChange]) -> AliasChange | None:
    """The change by which the version last ceased to be champion, if that took it back."""
    left = next((change for change in changes if change.from_number == number), None)
    return left if left is not None and left.takes_back else None


def _said(version: VersionRef, taken_back: AliasChange) -> str:
    return f"{version} was taken back from production ({taken_back.reason or 'no reason was given'})"
