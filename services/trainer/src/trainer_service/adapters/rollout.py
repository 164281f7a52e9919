"""PolicyHost by rollout-service."""

from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.names import policy_name
from ratchet_policies import PolicyEngine, unload
from trainer_service.domain.run import RunId

log = get_logger(__name__)


class RolloutPolicyHost:
    """Jobs load their policy as `policy_name(run_id)`."""

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine

    async def release(self, id: RunId) -> None:
        try:
            await unload(self._engine, policy_name(id))
        except RatchetError as error:
            log.warning("policy.not_unloaded", run_id=id, reason=error.message)
