"""Makes models/starter again, by an SFT run through the trainer service: `make starter`.

1. scripts/starter_init.py builds the tokenizer and random weights, in the trainer environment.
2. A platform of its own is brought up; the trainer service fine-tunes on `composed/demonstrations`, 10,000 solutions
   of an imperfect author to problems of the train split, and registers the last checkpoint.
3. The registered weights are copied to models/starter, with the configuration and tokenizer of the first step.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.views.platform import bring_up, connect
from ratchet_cli.views.progress import Terminal
from ratchet_local import control
from ratchet_local.home import Home
from ratchet_workflows.following.runs import follow, raise_unless_succeeded

ROOT = Path(__file__).resolve().parent.parent
STARTER = ROOT / "models" / "starter"
TRAINER_PYTHON = ROOT / ".venvs" / "trainer" / "bin" / "python"
STEPS = 500


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="rat-"))
    home = Home(folder / "home")
    try:
        subprocess.run([TRAINER_PYTHON, ROOT / "scripts" / "starter_init.py", folder / "init"], check=True)
        state = bring_up(home, port_base=0, timeout_s=300)
        with connect(home, state) as client:
            run = follow(client, client.runs.create(spec(folder / "init")).id, Terminal())
            raise_unless_succeeded(run)
            version = client.models.version(run.version.model, run.version.number)
        install(folder / "init", Path(version.artifact_uri.removeprefix("file://")))
        print(f"{STARTER}: {version.policy_id}")
    finally:
        control.down(home)
        shutil.rmtree(folder, ignore_errors=True)


def spec(init: Path) -> trainer_pb2.RunSpec:
    return trainer_pb2.RunSpec(
        display_name="starter",
        base=model_pb2.ModelRef(uri=str(init)),
        algorithm=trainer_pb2.ALGORITHM_SFT,
        problems=problem_pb2.ProblemSetRef(name="composed/demonstrations"),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=32),
        steps=STEPS,
        seed=1,
        hyperparameters=trainer_pb2.Hyperparameters(
            learning_rate=1e-3,
            batch_size=32,
            micro_batch_tokens=32 * (64 + 72),
            warmup_steps=20,
            max_prompt_tokens=64,
            max_response_tokens=72,
        ),
        output_model="starter-sft",
    )


def install(init: Path, artifact: Path) -> None:
    """Replaces the files of the starter, except its model card: the weights are the run's, all else is as built.

    What the run exports beside the weights is in the form of its own version of transformers.
    """
    for file in init.iterdir():
        shutil.copyfile(file, STARTER / file.name)
    shutil.copyfile(artifact / "model.safetensors", STARTER / "model.safetensors")


if __name__ == "__main__":
    main()
