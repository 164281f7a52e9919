"""Who may become champion. Pure rules; `aliases.py` applies them."""

from collections.abc import Set

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import VersionRef
from registry_service.domain.gate import Gate, State
from registry_service.domain.model import Model


def check_promotion(model: Model, number: int, earlier_champions: Set[int], gate: Gate | None) -> None:
    """Raises FailedPrecondition unless the version may become the champion of `model`.

    The first champion needs no gate, as there is nothing to compare it with. A return to an earlier champion needs none
    either: a rollback must not wait for evidence. Everything else needs a passed gate for this very candidate
    against the champion that it would replace.
    """
    if model.champion is None or number in earlier_champions:
        return
    version, champion = VersionRef(model.name, number), VersionRef(model.name, model.champion)
    wanted = f"a passed gate of {version} against the champion, {champion}"
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
