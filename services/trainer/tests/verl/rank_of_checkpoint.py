"""One rank of small models that are trained for some steps by verl's parts, saved, and written down whole. A process of
its own: `python rank_of_checkpoint.py RANK RANKS FOLDER STEPS [LOADED]`."""

import sys
from pathlib import Path
from typing import Any

import torch
import verl  # noqa: F401 (our patches come with it)
from peft import LoraConfig, get_peft_model
from torch.distributed import destroy_process_group, init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForTokenClassification, LlamaConfig
from verl.workers.engine.fsdp import transformer_impl

from ratchet_testing.llama import random_llama

KINDS = ("tied", "lora", "critic", "partly")


def made(kind: str) -> Any:
    """Every parameter of the model has a gradient but, of "partly", those of one layer."""
    model = random_llama(num_hidden_layers=2, hidden_size=48, intermediate_size=64, tie_word_embeddings=kind != "lora")
    if kind == "lora":
        return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=4, target_modules="all-linear"))
    if kind == "critic":
        return AutoModelForTokenClassification.from_config(LlamaConfig(**model.config.to_dict() | {"num_labels": 1}))
    return model


def whole(value: Any) -> Any:
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def train(kind: str, rank: int, ranks: int, folder: Path, steps: int, loaded: Path | None) -> None:
    torch.manual_seed(0)
    model = made(kind)
    mesh = init_device_mesh("cpu", (ranks,))
    torch.manual_seed(10 + rank)
    inner = model.get_base_model() if kind == "lora" else model
    for layer in inner.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    trained = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-2, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
    contents = {"save_contents": ["model", "optimizer", "extra"], "save_lora_only": kind == "lora"}
    manager = transformer_impl.FSDPCheckpointManager(
        model=model, optimizer=optimizer, lr_scheduler=schedule, checkpoint_config=contents
    )
    if loaded:
        torch.manual_seed(20 + rank)
        manager.load_checkpoint(str(loaded))
    if kind == "partly":
        model.model.layers[1].mlp.requires_grad_(False)
    for step in range(steps):
        inputs = (torch.arange(24).reshape(2, 12) * (step + 3) + rank) % 512
        model(input_ids=inputs).logits.float().pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    manager.save_checkpoint(str(folder / "saved"))
    names = {value: name for name, value in model.named_parameters()}
    moments = {
        f"{names[one]}/{key}": whole(value) for one, kept in optimizer.state.items() for key, value in kept.items()
    }
    weights = {name: whole(value) for name, value in model.state_dict().items()}
    rest = {"schedule": schedule.state_dict()["last_epoch"], "rate": optimizer.param_groups[0]["lr"]}
    torch.save([weights, moments, rest, torch.get_rng_state()], folder / f"whole-{rank}.pt")


def main(rank: int, ranks: int, folder: Path, steps: int, loaded: Path | None) -> None:
    init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks)
    for kind in KINDS:
        (folder / kind).mkdir(exist_ok=True)
        train(kind, rank, ranks, folder / kind, steps, loaded and loaded / kind / "saved")
    destroy_process_group()


if __name__ == "__main__":
    rank, ranks, folder, steps, *loaded = sys.argv[1:]
    main(int(rank), int(ranks), Path(folder), int(steps), Path(loaded[0]) if loaded else None)
