"""One short turn of the ratchet over the real services: verl and vLLM take a few steps."""

import json

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2, trainer_pb2_grpc
from ratchet_client import ApiError, Client
from ratchet_protos.access import with_token

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1500)]

SERVICES = ("gateway", "trainer", "rollout", "sandbox", "eval", "registry")


def grpo(steps: int) -> trainer_pb2.RunSpec:
    return trainer_pb2.RunSpec(
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name="composed/train"),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=8),
        reward=trainer_pb2.RewardSpec(name="tests_passed"),
        steps=steps,
        seed=1,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=8, group_size=4, learning_rate=5e-5, max_prompt_tokens=64, max_response_tokens=72
        ),
        output_model="starter",
    )


def benchmark_while_training(spec: trainer_pb2.RunSpec) -> None:
    """Each step's checkpoint is evaluated beside the run, in place of the job's own validation."""
    spec.ClearField("validation_problems")
    spec.validate_every = 1
    for name, weight in (("composed/validation", 0.75), ("basics", 0.25)):
        entry = spec.validate.suite.add(weight=weight)
        entry.problems.name, entry.problems.limit = name, 6
    spec.validate.samples = 2


def check_scores(client: Client, run: trainer_pb2.Run, steps: list[trainer_pb2.Step]) -> None:
    """The end has waited for the scores: each is that of an evaluation of the very weights, and the best was taken."""
    checkpoints = list(client.runs.checkpoints(run.id))
    assert [(one.step, one.unscored) for one in checkpoints] == [(1, ""), (2, "")]
    for checkpoint, step in zip(checkpoints, steps, strict=True):
        evaluation = client.evaluations.get(checkpoint.evaluation_id)
        assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
        assert evaluation.policy_id == checkpoint.policy_id
        assert [one.k for one in evaluation.pass_at_k] == [1, 2]
        assert checkpoint.validation == evaluation.pass_at_k[0].estimate
        assert step.metrics["validation_score"] == checkpoint.validation_score
    best = max(checkpoints, key=lambda one: (one.validation_score, one.step))
    assert run.best_checkpoint == best
    assert [bool(one.uri) for one in checkpoints] == [one in (best, checkpoints[-1]) for one in checkpoints]


def test_every_service_is_healthy_and_reflects(platform: Platform) -> None:
    status = json.loads(platform.ratchet("status", "--json").stdout)
    assert {service["state"] for service in status["services"]} == {"healthy"}
    for service in SERVICES:
        with grpc.insecure_channel(platform.target(service)) as channel:
            stub = reflection_pb2_grpc.ServerReflectionStub(channel)
            request = reflection_pb2.ServerReflectionRequest(list_services="")
            (reply,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
            names = {found.name for found in reply.list_services_response.service}
        assert any(name.startswith(f"ratchet.{service}.v1.") for name in names), names
        assert "grpc.health.v1.Health" in names


def test_a_second_up_finds_the_platform(platform: Platform) -> None:
    again = platform.ratchet("up")
    assert again.returncode == 0, again.stderr
    assert "is up already" in again.stdout


def test_one_service_is_started_again_and_the_others_go_on(platform: Platform) -> None:
    def pids() -> dict[str, int]:
        found = json.loads(platform.ratchet("status", "--json").stdout)["services"]
        return {one["name"]: one["pid"] for one in found if one["state"] == "healthy"}

    before = pids()
    done = platform.ratchet("restart", "registry")
    assert (done.returncode, done.stdout) == (0, "registry is healthy again.\n"), done.stderr
    after = pids()
    assert {name for name in before if after[name] != before[name]} == {"registry"}
    wrong = platform.ratchet("restart", "regisrty")
    assert (wrong.returncode, "There are: eval, gateway, redis" in wrong.stderr) == (2, True)


def test_train_evaluate_gate(client: Client) -> None:
    wanted = grpo(steps=2)
    wanted.hyperparameters.unrewarded_tests = 0.3
    benchmark_while_training(wanted)
    run = client.runs.create(wanted, request_id="e2e-run")
    assert client.runs.create(wanted, request_id="e2e-run").id == run.id
    phases = []
    for message in client.runs.watch(run.id):
        run = message.run
        phases.append(run.phase)
    assert run.state == trainer_pb2.Run.STATE_SUCCEEDED, run.failure
    assert {trainer_pb2.Run.PHASE_LOADING_MODEL, trainer_pb2.Run.PHASE_GENERATING} <= set(phases)
    steps = list(client.runs.steps(run.id))
    assert [step.number for step in steps if "reward_mean" in step.metrics] == [1, 2]
    assert any("second_hand_failed" in step.metrics for step in steps)
    check_scores(client, run, steps)
    last = steps[-1]
    assert last.policy_id.startswith("sha256:")
    # The engine computed with the weights that were trained: tied or stale layers would show here.
    assert all(step.metrics["logprob_diff_mean"] < 1e-3 for step in steps if "logprob_diff_mean" in step.metrics)

    version = client.models.version("starter", run.version.number)
    assert version.lineage.run_id == run.id
    assert version.lineage.data_digest
    assert version.policy_id in {checkpoint.policy_id for checkpoint in client.runs.checkpoints(run.id)}

    # The other tests of this platform may have released a version of their own.
    champion = client.models.get("starter").aliases["champion"]
    evaluations = []
    for number in (champion, version.ref.number):
        spec = eval_pb2.EvaluationSpec(
            model=model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter", number=number)),
            problems=problem_pb2.ProblemSetRef(name="composed/test", limit=12),
            samples_per_problem=2,
            max_tokens=72,
        )
        evaluation = client.evaluations.wait(client.evaluations.create(spec).id)
        assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
        assert sum(evaluation.verdicts.values()) == 24
        estimate = evaluation.pass_at_k[0].estimate
        assert estimate.low <= estimate.value <= estimate.high
        evaluations.append(evaluation)
    assert evaluations[1].policy_id == version.policy_id != evaluations[0].policy_id

    gate = client.models.wait_gate(client.models.create_gate(version.ref, evaluations[1].id, evaluations[0].id).id)
    assert gate.reason, gate.failure
    passed = gate.state == registry_pb2.Gate.STATE_PASSED
    assert passed == (gate.comparison.difference.low > 0)
    if not passed:
        with pytest.raises(ApiError) as refused:
            client.models.set_alias("starter", "champion", version.ref.number, gate_id=gate.id)
        assert refused.value.code == "FAILED_PRECONDITION"


def test_what_has_ended_can_be_deleted(client: Client) -> None:
    run = client.runs.create(grpo(steps=2))
    with pytest.raises(ApiError) as refused:
        client.runs.delete(run.id)
    assert refused.value.code == "FAILED_PRECONDITION"
    client.runs.cancel(run.id)
    client.runs.wait(run.id)
    client.runs.delete(run.id)
    with pytest.raises(ApiError) as missing:
        client.runs.get(run.id)
    assert missing.value.code == "NOT_FOUND"


def test_a_key_opens_the_door_until_it_is_revoked(client: Client, platform: Platform) -> None:
    made = client.keys.create("e2e")
    with Client(client.url, made.secret) as application:
        assert application.chat("starter", "Return the sum of the numbers in xs.", max_tokens=8).id
        with pytest.raises(ApiError) as refused:
            list(application.runs.list())
        assert refused.value.status == 403
        client.keys.revoke(made.key.id)
        with pytest.raises(ApiError) as shut:
            application.chat("starter", "hello", max_tokens=8)
        assert shut.value.status == 401


def test_completions_through_the_openai_door(client: Client) -> None:
    answer = client.chat("starter", "Write solve(xs) that returns the largest of xs.")  # the README's
    assert answer.text
    assert client.feedback(answer.id, score=1.0) == 1.0


def test_an_unknown_id_is_not_found_and_a_bad_spec_names_its_fields(client: Client, platform: Platform) -> None:
    with pytest.raises(ApiError) as missing:
        client.runs.get("run_unknown")
    assert (missing.value.status, missing.value.code) == (404, "NOT_FOUND")
    bad = trainer_pb2.RunSpec(
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        steps=-1,
        problems=problem_pb2.ProblemSetRef(name="nowhere"),
        hyperparameters=trainer_pb2.Hyperparameters(group_size=1),
    )
    with pytest.raises(ApiError) as refused:
        client.runs.create(bad)
    assert (refused.value.status, refused.value.code) == (400, "INVALID_ARGUMENT")
    faults = " ".join(violation["field"] for violation in refused.value.violations)
    for field in ("base", "steps", "problems", "group_size"):
        assert field in faults
    with grpc.insecure_channel(platform.target("trainer")) as channel:
        with pytest.raises(grpc.RpcError) as stranger:
            trainer_pb2_grpc.TrainerServiceStub(channel).GetRun(trainer_pb2.GetRunRequest(id="run_unknown"), timeout=10)
        assert stranger.value.code() == grpc.StatusCode.UNAUTHENTICATED
        stub = trainer_pb2_grpc.TrainerServiceStub(with_token(channel, platform.home.service_token()))
        with pytest.raises(grpc.RpcError) as unknown:
            stub.GetRun(trainer_pb2.GetRunRequest(id="run_unknown"), timeout=10)
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND


def test_without_a_key_the_door_is_shut(platform: Platform) -> None:
    state = platform.home.read_state()
    assert state is not None
    with Client(f"http://127.0.0.1:{state.ports['gateway-http']}", "rk_wrong") as stranger:
        with pytest.raises(ApiError) as refused:
            list(stranger.runs.list())
    assert refused.value.status == 401
