"""Weights from the training ranks to rollout-service: verl's rollout adapter, in the process of each rank."""

import asyncio
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy
import torch
from verl.workers.rollout.base import BaseRollout

from ratchet_kit import policy_id
from ratchet_kit.errors import DataLoss
from trainer_service.job.policy.policy import RunPolicy, rollouts
from trainer_service.job.policy.transport import Weights, WeightSync
from trainer_service.job.run.config import JobConfig

DIVERGED = "has numbers that are not finite (NaN or infinity): training has diverged; take a smaller learning_rate"
_SAFETENSORS_DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


class WeightSender(BaseRollout):
    """What verl takes for the inference engine beside its actor. Generation is not here: only rank 0 sends weights."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, **kwargs: Any) -> None:
        super().__init__(config, model_config, device_mesh)
        self._job = JobConfig.from_env()
        # The last transfer; stays None on the ranks that do not send.
        self.last_sync: WeightSync | None = None
        self._sent: Weights | None = None
        self._step = 0

    async def resume(self, tags: list[str]) -> None:
        """The engine's memory is not ours."""

    async def release(self) -> None:
        """The engine's memory is not ours."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Every rank must drain `weights`, since each tensor is gathered from all; rank 0 then sends them.

        Raises what RunPolicy.push raises.
        """
        if wire_format != "named_tensors":
            raise NotImplementedError(f"weights come as {wire_format}, not as named tensors")
        began = time.monotonic()
        tensors = gather(weights, getattr(torch, self._job.dtype), keep=int(os.environ["RANK"]) == 0)
        if tensors:
            gathered = time.monotonic()
            whole, self._step = await asyncio.to_thread(Weights.of, tensors), global_steps or 0
            hashed = time.monotonic()
            # Of float32 nearly all values change in a step: it has no changes that are worth to be found.
            base = self._sent if self._job.dtype != "float32" else None
            sync = await self._push(whole, base)
            self.last_sync = sync.took(
                gather=gathered - began,
                hash=hashed - gathered,
                send=time.monotonic() - hashed - sum(sync.seconds.values()),
            )
            self._sent = whole if self._job.keeps_sent else None

    async def send_again(self) -> None:
        """What was sent last, where it is kept. Needs no other rank; does nothing on those that do not send."""
        if self._sent is not None:
            # By a loop of its own: that of this process stands still during an update.
            self.last_sync = await asyncio.to_thread(asyncio.run, self._push(self._sent, base=None))

    async def _push(self, weights: Weights, base: Weights | None) -> WeightSync:
        async with rollouts(self._job) as engine:
            return await RunPolicy.of(self._job, engine).push(weights, step=self._step, base=base)


@torch.no_grad()
def gather(weights: Iterable[tuple[str, torch.Tensor]], dtype: torch.dtype, keep: bool) -> list[policy_id.Tensor]:
    """The tensors in `dtype` in host memory, without a head that is tied to the embedding; [] unless `keep`.

    Raises DataLoss where a number is not finite, once all were taken: the other ranks take part in gathering each.
    """
    tensors: dict[str, policy_id.Tensor] = {}
    broken = ""
    for name, weight in weights:
        if not keep:
            continue
        host = weight.detach().to(device="cpu", dtype=dtype).contiguous()
        if host.data_ptr() == weight.data_ptr():  # which would change under the next update
            host = host.clone()
        if not broken and not host.isfinite().all():
            broken = name
        data = host.view(-1).view(torch.uint8).numpy().data
        tensors[name] = policy_id.Tensor(name, _SAFETENSORS_DTYPES[dtype], tuple(host.shape), data)
    if broken:
        raise DataLoss(f"{broken} {DIVERGED}")
    head, embedding = tensors.get(policy_id.HEAD), tensors.get(policy_id.EMBEDDING)
    if head and embedding and numpy.array_equal(numpy.asarray(head.data), numpy.asarray(embedding.data)):
        del tensors[policy_id.HEAD]
    return list(tensors.values())
