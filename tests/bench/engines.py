"""What transformers generates beside vLLM, where vLLM knows the model: `python -m tests.bench.engines`.

A random Llama, which vLLM serves, and a random GPT-Neo of its size, which vLLM does not know and transformers serves,
by one real rollout service, one after the other: tokens a second of a step of training (16 prompts of 10 to 40 tokens,
8 completions each), and of one answer alone. The shape is SmolLM2-135M's (`--small`: the starter's).
"""

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from ratchet_policies import PolicySpec, Sampling, TokenPrompt, ensure_ready, unload
from ratchet_policies.fleet import Fleet
from tests.bench.weights_travel import PYTHON, ROOT, service

TEN_MINUTES = timedelta(minutes=10)
MAKE = """
import sys, transformers
folder, kind, vocabulary, hidden, inner, layers, heads = *sys.argv[1:3], *map(int, sys.argv[3:])
transformers.AutoTokenizer.from_pretrained({starter!r}).save_pretrained(folder)
common = dict(vocab_size=vocabulary, hidden_size=hidden, intermediate_size=inner, max_position_embeddings=512,
    tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
if kind == "vLLM":
    config = transformers.LlamaConfig(num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=heads // 3, **common)
else:
    config = transformers.GPTNeoConfig(num_layers=layers, num_heads=heads,
        attention_types=[[["global"], layers]], **common)
model = transformers.AutoModelForCausalLM.from_config(config)
model.save_pretrained(folder)
print(sum(one.numel() for one in model.parameters()))
"""


def made(folder: Path, library: str, small: bool) -> int:
    """A model that this library serves; its parameters."""
    shape = ("640", "192", "512", "4", "6") if small else ("49152", "576", "1536", "30", "9")
    make = MAKE.format(starter=str(ROOT / "models" / "starter"))
    command = [str(PYTHON), "-c", make, str(folder), library, *shape]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


async def rate(fleet: Fleet, policy_id: str, prompts: Sequence[TokenPrompt], completions: int, tokens: int) -> float:
    """Tokens a second."""
    sampling = Sampling(n=completions, max_tokens=tokens, logprobs=True, ignore_eos=True, temperature=1.0)
    started = time.perf_counter()
    await asyncio.gather(*(fleet.generate("p", policy_id, prompt, sampling) for prompt in prompts))
    return len(prompts) * completions * tokens / (time.perf_counter() - started)


async def main(small: bool, rounds: int) -> None:
    prompts = [TokenPrompt(tuple(range(3, 13 + 2 * place))) for place in range(16)]
    with tempfile.TemporaryDirectory(prefix="rat-engines-") as folder, service(Path(folder), 2 << 30) as target:
        async with Fleet.of(target) as fleet:
            for library in ("vLLM", "transformers"):
                model = Path(folder) / library
                parameters = made(model, library, small)
                spec = PolicySpec("p", str(model), dtype="float32")
                policy_id = (await ensure_ready(fleet, spec, timeout=TEN_MINUTES)).policy_id
                assert [engine.library for node in fleet.nodes() for engine in node.engines] == [library]
                await rate(fleet, policy_id, prompts[:1], 1, 2)
                steps = [await rate(fleet, policy_id, prompts, 8, 64) for _ in range(rounds)]
                alone = [await rate(fleet, policy_id, prompts[:1], 1, 64) for _ in range(rounds)]
                print(
                    f"{library:13}{parameters / 1e6:6.1f} million parameters:"
                    f" {statistics.median(steps):7.0f} tokens/s in a step, {statistics.median(alone):6.1f} alone",
                    flush=True,
                )
                await unload(fleet, "p")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="models of the starter's size")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.small, arguments.rounds))
