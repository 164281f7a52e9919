"""verl writes a file of each rank's shards, which the same number of ranks alone can read
(utils/checkpoint/fsdp_checkpoint_manager.py:298). Here torch.distributed.checkpoint writes model, optimizer, schedule
and random states, by the names of parameters, into one folder that any number of ranks reads."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.workers.engine.fsdp import transformer_impl

from ratchet_kit.errors import InvalidArgument
from trainer_service.verl import folders

HELD = {
    "verl.utils.checkpoint.fsdp_checkpoint_manager:FSDPCheckpointManager.save_checkpoint": "408622f180370088",
    "verl.utils.checkpoint.fsdp_checkpoint_manager:FSDPCheckpointManager.load_checkpoint": "6f75218097c563a0",
    "verl.workers.engine.fsdp.transformer_impl:FSDPEngine.initialize": "f4bc4bd98b190000",
}
FOLDER = "state"
"""Inside what verl takes for the checkpoint's folder."""
_REST = "rest"
_MODEL = "hf_model"
"""verl's name of the Hugging Face model, which it still writes."""


class CheckpointManager(FSDPCheckpointManager):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.checkpoint_save_contents = [_MODEL] if self.should_save_hf_model else []

    def save_checkpoint(self, local_path: str, *args: Any, **named: Any) -> None:
        super().save_checkpoint(local_path, *args, **named)
        state = self._weights() | {f"rng/{self.rank}": self.get_rng_state()}
        names = {parameter: name for name, parameter in self.model.named_parameters()}
        for parameter, kept in self.optimizer.state.items():
            state |= {f"optimizer/{names[parameter]}/{key}": value for key, value in kept.items()}
        groups = self.optimizer.state_dict()["param_groups"]
        state[_REST] = {
            "groups": [{key: value for key, value in group.items() if key != "params"} for group in groups],
            "schedule": self.lr_scheduler.state_dict(),
        }
        planner = dcp.DefaultSavePlanner(flatten_state_dict=False)
        dcp.save(state, checkpoint_id=Path(local_path) / FOLDER, planner=planner)
        torch.distributed.barrier()  # the ranks of a machine write to one folder
        folders.bring(Path(local_path))

    def load_checkpoint(self, local_path: str, *args: Any, **named: Any) -> None:
        """Raises InvalidArgument for one of verl's own that another number of ranks has written."""
        folders.fetch(Path(local_path))
        folder = Path(local_path) / FOLDER
        if folder.exists():
            self._load(folder)
        elif (Path(local_path) / f"model_world_size_{self.world_size}_rank_{self.rank}.pt").exists():
            super().load_checkpoint(local_path, *args, **named)
        else:
            raise InvalidArgument(
                f"the checkpoint {local_path} can be read by the number of ranks alone that wrote it, which is not "
                f"{self.world_size}: resume with as many, or make a new run from an export (runs resume --from)"
            )
        torch.distributed.barrier()
        folders.drop(Path(local_path))

    def _load(self, folder: Path) -> None:
        saved = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        rng = f"rng/{self.rank}"  # where there were fewer ranks, the others keep theirs
        state = self._weights() | {one: None for one in (_REST, rng) if one in saved}
        optimizer = self._room(saved)
        for name, kept in optimizer.items():
            state |= {f"optimizer/{name}/{key}": value for key, value in kept.items()}
        planner = dcp.DefaultLoadPlanner(flatten_state_dict=False, flatten_sharded_tensors=False)
        dcp.load(state, checkpoint_id=folder, planner=planner)
        self._take(optimizer, state[_REST])
        if rng in state:
            self.load_rng_state(state[rng])

    def _weights(self) -> dict[str, Any]:
        """The very tensors of this rank, each once; of LoRA those that are trained."""
        found = {id(value): (name, value) for name, value in reversed(self.model.state_dict(keep_vars=True).items())}
        trained_only = self.should_save_lora_only and self._has_lora()
        return {f"model/{name}": value for name, value in found.values() if value.requires_grad or not trained_only}

    def _room(self, saved: dict[str, Any]) -> dict[str, dict[str, torch.Tensor]]:
        """For the optimizer's state of each parameter that has one."""
        room: dict[str, dict[str, torch.Tensor]] = {}
        parameters = dict(self.model.named_parameters())
        for key, kept in saved.items():
            of, _, rest = key.partition("/")
            if of != "optimizer":
                continue
            assert isinstance(kept, TensorStorageMetadata)
            name, _, slot = rest.rpartition("/")
            like, dtype = parameters[name], kept.properties.dtype
            is_whole = kept.size != like.shape  # as a count of steps is
            made = torch.zeros(kept.size, dtype=dtype) if is_whole else torch.zeros_like(like, dtype=dtype)
            room.setdefault(name, {})[slot] = made
        return room

    def _take(self, optimizer: dict[str, dict[str, torch.Tensor]], rest: dict[str, Any]) -> None:
        places = [group["params"] for group in self.optimizer.state_dict()["param_groups"]]
        numbers = dict(zip(_parameters(self.optimizer), (one for some in places for one in some), strict=True))
        named = {name: numbers[value] for name, value in self.model.named_parameters() if value in numbers}
        groups = [group | {"params": some} for group, some in zip(rest["groups"], places, strict=True)]
        kept = {named[name]: value for name, value in optimizer.items()}
        self.optimizer.load_state_dict({"state": kept, "param_groups": groups})
        self.lr_scheduler.load_state_dict(rest["schedule"])


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def apply() -> None:
    transformer_impl.FSDPCheckpointManager = CheckpointManager
