"""PolicyHost by rollout-service."""

import grpc

from ratchet.rollout.v1 import rollout_pb2, rollout_pb2_grpc
from ratchet_kit.errors import NotFound, RatchetError
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.logs import get_logger
from trainer_service.domain.run import RunId
from trainer_service.job.config import policy_name

log = get_logger(__name__)


class GrpcPolicyHost:
    """Jobs load their policy as `policy_name(run_id)`."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)

    async def release(self, id: RunId) -> None:
        try:
            with rpc_errors():
                await self._stub.UnloadPolicy(rollout_pb2.UnloadPolicyRequest(name=policy_name(id)))
        except NotFound:
            pass
        except RatchetError as error:
            log.warning("policy.not_unloaded", run_id=id, reason=error.message)
