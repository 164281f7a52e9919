"""A completion, evaluations, a run that its budget ends and a gate on a data set of this machine's files, and a
refused run, sent to the platform of RATCHET_URL and RATCHET_API_KEY.

`check_platform.py FOLDER`: FOLDER holds the model's weights, where registry-service sees it.
"""

import json
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import dataset_pb2, registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client
from ratchet_client.datasets import upload
from ratchet_problems import load, tables

PROBLEMS, SAMPLES = 12, 2
# At these prices, which the platform has to have, one step costs more than the budget.
PRICES = '{"currency": "EUR", "cpu_hour": 36}'
BUDGET = 0.01
DATASET = "compose-test"
# Of a call: loading a policy starts an engine, which takes time on a small machine.
TIMEOUT = timedelta(minutes=4)


def main(folder: str) -> None:
    with Client(timeout_s=TIMEOUT.total_seconds()) as client:
        version = register(client, folder)
        client.models.set_alias("starter", "champion", version.ref.number, reason="compose-test")
        print(f"registered starter@{version.ref.number}, {version.policy_id}")

        answer = client.chat("starter", "Write a function add(a, b) that returns the sum.", max_tokens=48)
        if not answer.text or not answer.version:
            sys.exit(f"a completion without text or version: {answer}")
        print(f"completion by {answer.version}: {json.dumps(answer.text[:100])}")

        print(f"added {add(client)}")
        evaluation = evaluate(client, version.ref)
        estimate, verdicts = evaluation.pass_at_k[0].estimate, dict(evaluation.verdicts)
        print(f"{evaluation.id}: pass@1 {estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}), {verdicts}")

        print(f"trainer refused a bad run: {refusal(client, version.ref)}")

        trained = train(client, version.ref)
        print(f"trained starter@{trained.ref.number}, {trained.policy_id}, at {trained.artifact_uri}")
        print(f"gate: {gate(client, evaluation, evaluate(client, trained.ref))}")


def register(client: Client, folder: str) -> registry_pb2.Version:
    """The folder as a version, copied and hashed."""
    pending = client.models.create_version("starter", folder, request_id="compose-test")
    version = client.models.wait_version("starter", pending.ref.number)
    if version.state != registry_pb2.Version.STATE_READY:
        sys.exit(f"the registry could not copy the weights: {version}")
    return version


def add(client: Client) -> str:
    """The data set that is measured and trained on, made of files that no service sees."""
    with tempfile.TemporaryDirectory() as folder:
        files = {split: Path(folder, f"{split}.parquet") for split in ("train", "test")}
        for split, file in files.items():
            tables.write(load(f"composed/{split}", limit=150), file)
        made = upload(client.datasets, DATASET, files)
    *_, made = client.datasets.watch(made.name, made.number)
    if made.state != dataset_pb2.Dataset.STATE_READY:
        sys.exit(f"the data set is not ready: {made}")
    return f"{made.name}@{made.number}"


def evaluate(client: Client, version: model_pb2.VersionRef) -> eval_pb2.Evaluation:
    """The evaluation at its end."""
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=version),
        problems=problem_pb2.ProblemSetRef(name=f"{DATASET}/test", limit=PROBLEMS),
        samples_per_problem=SAMPLES,
        k=[1],
        max_tokens=128,
    )
    evaluation = client.evaluations.wait(client.evaluations.create(spec).id)
    if evaluation.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
        sys.exit(f"the evaluation did not succeed: {evaluation}")
    if sum(evaluation.verdicts.values()) != PROBLEMS * SAMPLES:
        sys.exit(f"{PROBLEMS * SAMPLES} verdicts expected: {evaluation}")
    return evaluation


def gate(client: Client, champion: eval_pb2.Evaluation, candidate: eval_pb2.Evaluation) -> str:
    """The decision's reason: one step of training is seldom better."""
    version = candidate.spec.model.version
    decided = client.models.wait_gate(client.models.create_gate(version, candidate.id, champion.id).id)
    if decided.state not in (registry_pb2.Gate.STATE_PASSED, registry_pb2.Gate.STATE_REFUSED):
        sys.exit(f"the gate was not decided: {decided}")
    return decided.reason


def refusal(client: Client, version: model_pb2.VersionRef) -> str:
    """What trainer-service says of a run that lacks nearly everything."""
    try:
        run = client.runs.create(trainer_pb2.RunSpec(base=model_pb2.ModelRef(version=version)))
    except ApiError as error:
        if error.code != "INVALID_ARGUMENT":
            raise
        return str(error)
    sys.exit(f"trainer-service took a run without algorithm, problems and steps: {run}")


def train(client: Client, base: model_pb2.VersionRef) -> registry_pb2.Version:
    """The version of a run whose budget one step spends: what the trainer exports, the registry reads."""
    spec = trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(version=base),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name=f"{DATASET}/train", limit=32),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=4),
        steps=50,
        budget=BUDGET,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=4, group_size=4, learning_rate=5e-5, max_prompt_tokens=64, max_response_tokens=72
        ),
        output_model="starter",
    )
    run = client.runs.wait(client.runs.create(spec, request_id="compose-test").id)
    if run.state != trainer_pb2.Run.STATE_SUCCEEDED:
        sys.exit(f"the run did not succeed: {run}")
    if run.step != 1 or run.usage.cost < BUDGET:
        sys.exit(f"the budget of {BUDGET} was to end the run at its first step: {run}")
    return client.models.version("starter", run.version.number)


if __name__ == "__main__":
    main(sys.argv[1])
