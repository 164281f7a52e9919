"""Gives a real vLLM weights, and prints as JSON all that it then has and says. `test_changes` runs it.

python changes_cases.py START DTYPE TENSOR_PARALLEL [FOLDER,ID[,BASE,DIGEST]] ...

START: the model's folder that vLLM starts with. Then come folders, in order, in one argument each: with BASE and
DIGEST, their changes are applied in place, else they are read whole. With AS_ON_A_GPU in the environment, linear layers
keep their weights, as they do on GPUs.
"""

import hashlib
import json
import os
import sys
from typing import Any

import torch
import vllm._custom_ops
from torch import Tensor, nn
from vllm import LLM, SamplingParams

from rollout_service.adapters.vllm.extension import WeightExtension

if "AS_ON_A_GPU" in os.environ:
    vllm._custom_ops._supports_onednn = False

PROMPTS = [[1, *range(20, 30 + row)] for row in range(4)]


class LookingExtension(WeightExtension):
    """Shows, too, what a worker has."""

    def ratchet_look(self: Any) -> dict[str, str]:
        """A hash of each parameter, and of each linear layer's outputs for one-hot inputs: its kernel's weight."""
        model: nn.Module = self.get_model()
        seen = {name: _hash(parameter) for name, parameter in model.named_parameters(remove_duplicate=False)}
        for name, module in model.named_modules():
            if hasattr(module, "cpu_linear"):
                width = module.embedding_dim if hasattr(module, "embedding_dim") else module.input_size_per_partition
                one_hots = torch.eye(width, dtype=self.vllm_config.model_config.dtype)
                seen[f"{name} (kernel)"] = _hash(module.cpu_linear(one_hots, module.weight, None))
        return seen


def _hash(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest()


def change(llm: LLM, folder: str, policy_id: str, base: str, digest: str) -> dict[str, Any]:
    llm.collective_rpc("ratchet_prepare_changes", args=(folder, policy_id, base, digest))
    ranks: list[Any] = [None]
    slices = 0
    while None in ranks:
        ranks = llm.collective_rpc("ratchet_prepare_on")
        slices += 1
    if any(ranks):
        return {"obstacles": ranks}
    llm.reset_prefix_cache()
    reports = llm.collective_rpc("ratchet_apply_changes", args=(policy_id,))
    while any(llm.collective_rpc("ratchet_drop_changes")):
        pass
    return {"reports": reports, "slices": slices}


def main() -> None:
    start, dtype, tensor_parallel = sys.argv[1:4]
    llm = LLM(
        model=start,
        dtype=dtype,
        tensor_parallel_size=int(tensor_parallel),
        enforce_eager=True,
        skip_tokenizer_init=True,
        kv_cache_memory_bytes=64 << 20,
        max_model_len=128,
        logprobs_mode="processed_logprobs",
        worker_extension_cls="changes_cases.LookingExtension",
    )
    said = []
    for step in sys.argv[4:]:
        folder, policy_id, *changes = step.split(",")
        if changes:
            said.append(change(llm, folder, policy_id, *changes))
        else:
            said.append({"reports": llm.collective_rpc("ratchet_load_weights", args=(folder, policy_id))})
            llm.reset_prefix_cache()
    sampling = SamplingParams(temperature=0, max_tokens=16, logprobs=2, ignore_eos=True, detokenize=False)
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], sampling, use_tqdm=False)
    answers = [
        [(token, [(other, float(one.logprob).hex()) for other, one in place.items()])
         for token, place in zip(output.outputs[0].token_ids, output.outputs[0].logprobs, strict=True)]
        for output in outputs
    ]  # fmt: skip
    print(json.dumps({"said": said, "answers": answers, "seen": llm.collective_rpc("ratchet_look")}), flush=True)


if __name__ == "__main__":
    main()
