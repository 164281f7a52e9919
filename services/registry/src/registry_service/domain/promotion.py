"""Who may become champion. Pure rules; `aliases.py` applies them."""

from collections.abc import Set

from ratchet_kit.errors import FailedPrecondition
from registry_service.domain.gates import Gate
from registry_service.domain.models import Model


def check_promotion(model: Model, version: int, earlier_champions: Set[int], gate: Gate | None) -> None:
    """Raises FailedPrecondition unless `version` may become the champion of `model`.

    The first champion needs no gate, as there is nothing to compare it with. A return to an earlier champion needs none
    either: a rollback must not wait for evidence. Everything else needs a passed gate for this very candidate
    against the champion that it would replace.
    """
    champion = model.champion
    if champion is None or version in earlier_champions:
        return
    wanted = f"a passed gate of {model.name}@{version} against the champion, {model.name}@{champion}"
    if gate is None:
        raise FailedPrecondition(f"to become champion, {wanted} is needed: make one with CreateGate and give its id")
    if (gate.model, gate.candidate_version) != (model.name, version):
        measured = f"{gate.model}@{gate.candidate_version}"
        raise FailedPrecondition(f"gate {gate.id} is about {measured}; {wanted} is needed")
    if gate.champion_version != champion:
        raise FailedPrecondition(
            f"gate {gate.id} compared with {model.name}@{gate.champion_version}, which is no longer the champion; "
            f"{wanted} is needed"
        )
    if not gate.passed:
        raise FailedPrecondition(f"gate {gate.id} did not pass. {gate.reason}")
