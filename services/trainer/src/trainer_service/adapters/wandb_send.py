"""`python -m trainer_service.adapters.wandb_send`: one document of `wandb.py`, from stdin to W&B, then it ends."""

import json
import sys
from pathlib import Path
from typing import Any

import wandb

BEST = {"reward_mean": "max", "validation_score": "max", "score_mean": "max", "loss": "min"}
"""Metrics, and which of their values a table of runs shows."""
SCORED_STEP = "scored_step"


def main() -> None:
    sent: dict[str, Any] = json.load(sys.stdin)
    folder = Path(sent["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        x_disable_stats=True,
        x_disable_meta=True,
        init_timeout=30,
        # Several processes write one run, each after the other: only the last says that it is over.
        x_update_finish_state=sent["is_over"],
    )
    run = wandb.init(
        project=sent["project"],
        id=sent["id"],
        name=sent["name"],
        config=sent["config"],
        tags=sent["tags"],
        resume="allow",
        dir=folder,
        settings=settings,
    )
    for name, best in BEST.items():
        run.define_metric(name, summary=f"{best},last")
    for number, time, metrics in sent["steps"]:
        run.log({**metrics, "_timestamp": time}, step=number)
    for number, metrics in sent["scored"]:  # W&B takes no earlier step again
        for name in metrics:
            run.define_metric(name, step_metric=SCORED_STEP, summary=f"{BEST.get(name, 'none')},last")
        run.log({**metrics, SCORED_STEP: number})
    run.summary.update(sent["summary"])
    if sent["files"]:
        artifact = wandb.Artifact(f"record-{sent['id']}", type="record")
        for name, text in sent["files"].items():
            with artifact.new_file(name, mode="w") as file:
                file.write(text)
        run.log_artifact(artifact)
    if sent["model"]:  # by its name: the weights stay where the registry keeps them
        model = wandb.Artifact(f"model-{sent['id']}", type="model", metadata=sent["summary"])
        model.add_reference(sent["model"], name="version", checksum=False)
        run.log_artifact(model, aliases=["best", sent["summary"]["version"].replace("@", "-v")])
    run.finish(exit_code=sent["exit_code"] if sent["is_over"] else 0)


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # noqa: BLE001  the last line says what it was
        sys.exit(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
