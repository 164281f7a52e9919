"""Makes the starter policy again, from nothing, the way any model is trained here: `make starter`.

1. scripts/starter_init.py builds tokenizer and random weights (in the trainer environment).
2. The platform comes up, if it is not up; an SFT run of the trainer service teaches the demonstrations.
3. Its result replaces the files in models/starter. The model card is kept: bring its numbers up to date by hand.

    .venvs/light/bin/python scripts/make_starter.py [--steps 600] [--output models/starter]
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote, urlparse

from ratchet_client import Client

REPOSITORY = Path(__file__).resolve().parent.parent
RATCHET = REPOSITORY / ".venvs/light/bin/ratchet"
TRAINER_PYTHON = REPOSITORY / ".venvs/trainer/bin/python"
MODEL = "starter-sft"
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
"""The weights and their shape come from the run; what the tokenizer is, from the init, unchanged."""
FROM_RUN = ("model.safetensors",)

HYPERPARAMETERS = {
    "learning_rate": 1e-3,
    "batch_size": 32,
    "warmup_steps": 20,
    "max_prompt_tokens": 64,
    "max_response_tokens": 72,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--output", type=Path, default=REPOSITORY / "models/starter")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ratchet-starter-") as scratch:
        init = Path(scratch) / "starter-init"
        _run(TRAINER_PYTHON, REPOSITORY / "scripts/starter_init.py", init)
        started = subprocess.run([RATCHET, "status"], capture_output=True, check=False).returncode != 0
        if started:
            _run(RATCHET, "up")
        try:
            export(init, train(init, options.steps), options.output)
        finally:
            if started:
                _run(RATCHET, "down")
    print(f"{options.output} is made. Measure it: ratchet evaluate --benchmark composed/test --model {options.output}")


def train(init: Path, steps: int) -> Path:
    """The folder of the weights that an SFT run of the trainer service made of the demonstrations."""
    settings = [f"--set={name}={value}" for name, value in HYPERPARAMETERS.items()]
    command = [
        RATCHET,
        "train",
        "--json",
        "--algorithm",
        "sft",
        "--model",
        init,
        "--problems",
        "composed/demonstrations",
    ]
    command += ["--steps", steps, "--output", MODEL, "--name", "starter", "--verl", "optim.lr_scheduler_type=cosine"]
    done = subprocess.run([str(part) for part in command + settings], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    model, number = json.loads(done.stdout)["version"].split("@")
    with Client() as client:
        return Path(unquote(urlparse(client.models.version(model, int(number)).artifact_uri).path))


def export(init: Path, trained: Path, output: Path) -> None:
    """Copies the files that a starter is made of; what else lies in `output` stays."""
    output.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile((trained if name in FROM_RUN else init) / name, output / name)


def _run(*command: object) -> None:
    """Exits with the command's code when it fails: it has said why."""
    code = subprocess.run([str(part) for part in command], check=False).returncode
    if code:
        sys.exit(code)


if __name__ == "__main__":
    main()
