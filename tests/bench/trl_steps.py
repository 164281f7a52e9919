"""Steps of TRL's GRPOTrainer, in the environment that `make bench` builds: `trl_steps.py MODEL PROMPTS SETTINGS`.

PROMPTS has a problem's id and its conversation a line, in JSON. SETTINGS is JSON: prompts, completions, max_tokens,
learning_rate, steps, passes and threads; budget: of tokens, prompts and completions, after which it ends; seed; save:
the folder for the policy as it is then; asks; cuda: in bfloat16 on one GPU, with vLLM beside it in the same process.
Prints a line of JSON for each step: seconds since the step before it, or since this file was begun, and the mean number
of new tokens.

Where it `asks`, rewards come from who started it: a line of JSON with ids and texts for a line with as many numbers.
Else they are computed in no time, in TRL's favour: from the text alone, where Ratchet runs each program.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

BEGUN = time.perf_counter()

import datasets  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402


class Clock(transformers.TrainerCallback):  # type: ignore[misc]  # Any where transformers is not installed
    def __init__(self, budget: float) -> None:
        self.budget = budget
        self.last = BEGUN
        self.seconds = 0.0

    def on_step_end(self, args: Any, state: Any, control: Any, **unused: Any) -> None:
        now = time.perf_counter()
        self.seconds, self.last = now - self.last, now

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **unused: Any) -> None:
        if logs and "completions/mean_length" in logs:
            print(json.dumps({"seconds": self.seconds, "tokens": logs["completions/mean_length"]}), flush=True)
            control.should_training_stop |= bool(self.budget) and logs["num_tokens"] >= self.budget


def characters(completions: Sequence[Any], **unused: Any) -> list[float]:
    """Of each completion, how many of its characters are the letter e."""
    texts = [one[-1]["content"] for one in completions]
    return [text.count("e") / (len(text) + 1) for text in texts]


def asked(completions: Sequence[Any], id: Sequence[str], **unused: Any) -> list[float]:
    print(json.dumps({"ids": id, "texts": [one[-1]["content"] for one in completions]}), flush=True)
    rewards: list[float] = json.loads(sys.stdin.readline())
    return rewards


def main(model: str, prompts: str, settings: dict[str, Any]) -> None:
    torch.set_num_threads(int(settings["threads"]))
    with open(prompts) as lines:
        rows = datasets.Dataset.from_list([json.loads(line) for line in lines])
    size, cuda = int(settings["prompts"] * settings["completions"]), bool(settings.get("cuda"))
    room = int(settings["max_tokens"]) + 128
    engine = {"vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4, "vllm_max_model_length": room}
    config = trl.GRPOConfig(
        output_dir="trl-output",
        per_device_train_batch_size=size // int(settings["passes"]),
        gradient_accumulation_steps=int(settings["passes"]),
        num_generations=int(settings["completions"]),
        max_completion_length=int(settings["max_tokens"]),
        learning_rate=settings["learning_rate"],
        max_steps=int(settings["steps"]),
        lr_scheduler_type="constant",
        temperature=1.0,
        beta=0.0,
        use_cpu=not cuda,
        bf16=cuda,
        use_vllm=cuda,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=settings.get("seed", 0),
        **(engine if cuda else {}),
    )
    reward, clock = asked if settings.get("asks") else characters, Clock(settings.get("budget", 0))
    trainer = trl.GRPOTrainer(model=model, reward_funcs=reward, args=config, train_dataset=rows, callbacks=[clock])
    trainer.train()
    if settings.get("save"):
        trainer.save_model(settings["save"])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
