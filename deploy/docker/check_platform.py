"""One completion, one evaluation and one refused run, sent to the platform that RATCHET_URL and RATCHET_API_KEY name.

`check_platform.py FOLDER`: FOLDER holds the model's weights, where registry-service sees it.
"""

import json
import sys
from datetime import timedelta

from ratchet.common.v1 import common_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.client import Client
from ratchet_client.errors import ApiError

PROBLEMS, SAMPLES = 6, 2
# Loading a policy starts an engine, which takes time on a small machine.
TIMEOUT = timedelta(minutes=4)


def main(folder: str) -> None:
    with Client(timeout_s=TIMEOUT.total_seconds()) as client:
        version = client.models.create_version("starter", folder, request_id="compose-test")
        client.models.set_alias("starter", "champion", version.number, reason="compose-test")
        print(f"registered starter@{version.number}, {version.policy_id}")

        answer = client.chat("starter", "Write a function add(a, b) that returns the sum.", max_tokens=48)
        if not answer.text or not answer.version:
            sys.exit(f"a completion without text or version: {answer}")
        print(f"completion by {answer.version}: {json.dumps(answer.text[:100])}")

        evaluation = evaluate(client, f"starter@{version.number}")
        estimate, verdicts = evaluation.pass_at_k[0].estimate, dict(evaluation.verdicts)
        print(f"{evaluation.id}: pass@1 {estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f}), {verdicts}")

        print(f"trainer refused a bad run: {refusal(client, f'starter@{version.number}')}")


def evaluate(client: Client, version: str) -> eval_pb2.Evaluation:
    """The evaluation at its end."""
    spec = eval_pb2.EvaluationSpec(
        model=common_pb2.ModelRef(version=version),
        problems=common_pb2.ProblemSetRef(name="composed/test", limit=PROBLEMS),
        samples_per_problem=SAMPLES,
        k=[1],
        max_tokens=128,
    )
    *_, evaluation = client.evaluations.watch(client.evaluations.create(spec).id)
    if evaluation.state != eval_pb2.Evaluation.STATE_SUCCEEDED:
        sys.exit(f"the evaluation did not succeed: {evaluation}")
    if sum(evaluation.verdicts.values()) != PROBLEMS * SAMPLES:
        sys.exit(f"{PROBLEMS * SAMPLES} verdicts were to come: {evaluation}")
    return evaluation


def refusal(client: Client, version: str) -> str:
    """What trainer-service says of a run that lacks nearly everything."""
    try:
        run = client.runs.create(trainer_pb2.RunSpec(base=common_pb2.ModelRef(version=version)))
    except ApiError as error:
        if error.code != "INVALID_ARGUMENT":
            raise
        return str(error)
    sys.exit(f"trainer-service took a run without algorithm, problems and steps: {run}")


if __name__ == "__main__":
    main(sys.argv[1])
