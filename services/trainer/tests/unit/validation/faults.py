"""A spec as it is validated: complete, and with what its references lead to."""

from ratchet_kit.faults import Faults
from ratchet_kit.names import VersionRef
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.create.validation import check
from trainer_service.domain.inputs.found import Found, FoundModel
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.spec import RunSpec

LIMITS = Limits(accelerators=4)
STARTER_1 = FoundModel(VersionRef("starter", 1), "/artifacts/1", 7_000_000, max_tokens=300)
FOUND = Found(STARTER_1)


def named(spec: RunSpec, limits: Limits = LIMITS, found: Found = FOUND) -> dict[str, str]:
    """The faults of the spec once it is complete."""
    faults = Faults()
    check(complete(spec, found, limits), found, limits, faults.under("spec"))
    return {fault.field: fault.description for fault in faults.violations}
