"""Loads weights into a real vLLM and prints as JSON what the probe said. Run by `test_probe` in its own process.

python probe_cases.py MODEL NEW_WEIGHTS DTYPE
"""

import json
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from vllm import LLM

from rollout_service.adapters.engines.sent_weights import SentWeights
from rollout_service.adapters.vllm.probe import probe_model

NUDGE = 1 + 2**-7
"""The smallest relative change that bfloat16 can show."""


def unnoticed_changes(model: nn.Module, folder: Path) -> list[str]:
    """The tensors whose change, by the least that bfloat16 can show, the probe does not see."""
    with ExitStack() as stack:
        sent = SentWeights(folder, stack)
        read = sent.reader(model)
        unnoticed = []
        for changed, _ in sent:

            def reads(name: str, changed: str = changed) -> Tensor | None:
                tensor = read(name)
                return None if tensor is None else tensor * NUDGE if name == changed else tensor

            if not probe_model(model, reads).failures:
                unnoticed.append(changed)
        return unnoticed


def main() -> None:
    base, new, dtype = sys.argv[1:]
    llm = LLM(
        model=base,
        dtype=dtype,
        enforce_eager=True,
        kv_cache_memory_bytes=64 << 20,
        worker_extension_cls="rollout_service.adapters.vllm.extension.WeightExtension",
    )
    report: dict[str, Any] = {}
    (report["not_repacked"],) = llm.collective_rpc("ratchet_load_weights", args=(new, "", False))
    (report["repacked"],) = llm.collective_rpc("ratchet_load_weights", args=(new,))
    (report["unnoticed"],) = llm.apply_model(partial(unnoticed_changes, folder=Path(new)))
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
