"""PolicyHost by rollout-service."""

from ratchet_kit.errors import RatchetError
from ratchet_kit.logs import get_logger
from ratchet_kit.names import policy_name
from ratchet_policies import PolicyEngine, unload
from trainer_service.domain.run import RunId

log = get_logger(__name__)


class RolloutPolicyHost:
    """Jobs load their policy as `policy_name(run_id, attempt)`."""

    def __init__(self, engine: PolicyEngine) -> None:
        self._engine = engine

    async def release(self, id: RunId, attempt: int) -> None:
        over = {policy_name(id, number) for number in range(1, attempt + 1)}
        try:
            for policy in await self._engine.all():
                if policy.name in over:
                    await unload(self._engine, policy.name)
        except RatchetError as error:
            log.warning("policy.not_unloaded", run_id=id, reason=error.message)
