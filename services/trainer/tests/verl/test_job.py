"""The job for real: verl on a local Ray, vLLM behind rollout-service, programs in sandbox-service. Minutes."""

import asyncio
import json
import math
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.trainer.v1 import job_report_pb2, job_report_pb2_grpc, trainer_pb2
from ratchet_environments import EnvironmentSpec
from ratchet_kit import policy_id
from ratchet_kit.client import wait_healthy
from ratchet_kit.names import Location
from ratchet_kit.process import ProcessGroup
from ratchet_problems import Problem, load
from ratchet_rewards import Component, Reward
from ratchet_testing.ports import free_port
from ratchet_testing.processes import process
from ratchet_testing.services import serving
from trainer_service.domain.curriculum import Curriculum, Kind, Stage
from trainer_service.domain.spec import Hyperparameters, ProblemSetRef, Resources, RunSpec
from trainer_service.job import plugins
from trainer_service.job.config import Dtype, JobConfig

ROOT = Path(__file__).parents[4]
LIGHT = ROOT / ".venvs/light/bin/python"
TRAINER = ROOT / ".venvs/trainer/bin/python"
ROLLOUT = ROOT / ".venvs/rollout/bin/python"
STARTER = ROOT / "models/starter"

pytestmark = [
    pytest.mark.verl,
    pytest.mark.vllm,
    pytest.mark.skipif(
        not TRAINER.exists() or not ROLLOUT.exists(), reason="needs the trainer and rollout environments"
    ),
    pytest.mark.skipif(not STARTER.exists(), reason="needs the starter model"),
]

PATIENCE = timedelta(minutes=10)


@dataclass
class Reports(job_report_pb2_grpc.JobReportServiceServicer):
    """The reports of a job. `steps` are by number: a resumed job reports some again."""

    attempt: int = 1
    cancelled: bool = False
    steps: dict[int, trainer_pb2.Step] = field(default_factory=dict)
    checkpoints: dict[int, trainer_pb2.Checkpoint] = field(default_factory=dict)
    faults: int = 0
    ending: str | None = None
    phases: list[str] = field(default_factory=list)

    def policy_ids(self) -> list[str]:
        return [self.steps[number].policy_id for number in sorted(self.steps)]

    def scores(self) -> list[float]:
        return [self.checkpoints[step].validation_score for step in sorted(self.checkpoints)]

    def forget(self) -> None:
        """For another run."""
        self.attempt, self.ending = 1, None
        self.steps.clear()
        self.checkpoints.clear()

    async def ReportStarted(
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> job_report_pb2.ReportStartedResponse:
        await self._fence(request, context)
        return job_report_pb2.ReportStartedResponse()

    async def ReportHeartbeat(
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> job_report_pb2.ReportHeartbeatResponse:
        await self._fence(request, context)
        return job_report_pb2.ReportHeartbeatResponse()

    async def ReportPhase(self, request: Any, context: grpc.aio.ServicerContext) -> job_report_pb2.ReportPhaseResponse:
        self.phases.append(trainer_pb2.Run.Phase.Name(request.phase).removeprefix("PHASE_"))
        return job_report_pb2.ReportPhaseResponse()

    async def ReportStep(self, request: Any, context: grpc.aio.ServicerContext) -> job_report_pb2.ReportStepResponse:
        await self._fence(request, context)
        self.steps[request.step.number] = request.step
        self.faults += request.platform_faults
        return job_report_pb2.ReportStepResponse(cancelled=self.cancelled)

    async def ReportCheckpoint(
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> job_report_pb2.ReportCheckpointResponse:
        await self._fence(request, context)
        self.checkpoints[request.checkpoint.step] = request.checkpoint
        return job_report_pb2.ReportCheckpointResponse()

    async def ReportFinished(
        self, request: Any, context: grpc.aio.ServicerContext
    ) -> job_report_pb2.ReportFinishedResponse:
        await self._fence(request, context)
        self.ending = request.failure.message
        return job_report_pb2.ReportFinishedResponse()

    async def until(self, job: ProcessGroup, condition: Callable[["Reports"], bool]) -> None:
        """Returns when the condition holds; fails when the job has died before."""
        async with asyncio.timeout(PATIENCE.total_seconds()):
            while not condition(self):
                assert job.returncode in (None, 0), f"the job ended with {job.returncode}"
                await asyncio.sleep(0.2)

    async def _fence(self, request: Any, context: grpc.aio.ServicerContext) -> None:
        if request.attempt != self.attempt:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"attempt {request.attempt} is over")


@dataclass(frozen=True)
class World:
    reports: Reports
    folder: Path
    trainer: str
    rollout: str
    sandbox: str

    def job(
        self,
        spec: RunSpec,
        attempt: int = 1,
        dtype: Dtype = "float32",
        name: str = "run",
        base: Path = STARTER,
        reward_model: str = "",
    ) -> JobConfig:
        return JobConfig(
            run_id=f"job_{name}",
            attempt=attempt,
            spec=spec,
            base_path=str(base),
            base_uri=str(base),
            reward_model_path=reward_model,
            work_dir=self.folder / name,
            trainer_target=self.trainer,
            rollout_target=self.rollout,
            sandbox_target=self.sandbox,
            dtype=dtype,
        )

    @asynccontextmanager
    async def running(self, job: JobConfig, **environment: str) -> AsyncIterator[ProcessGroup]:
        log = self.folder / f"{job.run_id}-{job.attempt}.log"
        async with process(log, str(TRAINER), "-m", "trainer_service.job", **job.to_env(), **environment) as group:
            yield group


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    reports = Reports()

    def add(server: grpc.aio.Server) -> list[str]:
        job_report_pb2_grpc.add_JobReportServiceServicer_to_server(reports, server)
        return ["ratchet.trainer.v1.JobReportService"]

    async with AsyncExitStack() as stack:
        targets = {}
        for name, python in (("rollout", str(ROLLOUT)), ("sandbox", str(LIGHT))):
            port = free_port()
            env = {f"RATCHET_{name.upper()}_PORT": str(port), f"RATCHET_{name.upper()}_METRICS_PORT": "0"}
            env["RATCHET_ROLLOUT_WORK_DIR"] = str(tmp_path / "rollout")
            env["RATCHET_SOURCES"] = "/"
            log = tmp_path / f"{name}.log"
            await stack.enter_async_context(process(log, python, "-m", f"{name}_service.main", **env))
            targets[name] = f"127.0.0.1:{port}"
        for target in targets.values():
            await wait_healthy(target, timedelta(minutes=2))
        trainer = await stack.enter_async_context(serving(add))
        yield World(reports, tmp_path, trainer, **targets)


@pytest.fixture
def run_spec(make_complete_spec: Callable[..., RunSpec]) -> Callable[..., RunSpec]:
    """A complete spec of four short steps."""

    def make(algorithm: str = "grpo", kl_coefficient: float = 0.0, **changes: Any) -> RunSpec:
        small = Hyperparameters(batch_size=4, max_prompt_tokens=64, max_response_tokens=72, warmup_steps=0)
        if algorithm not in ("sft", "dpo", "reward_model"):
            small = replace(small, group_size=4, kl_coefficient=kl_coefficient)
        spec: dict[str, Any] = {
            "problems": ProblemSetRef("" if algorithm in ("dpo", "reward_model") else "composed/train"),
            "validation_problems": ProblemSetRef("composed/validation", limit=8)
            if algorithm != "reward_model"
            else None,
            "steps": 4,
            "validate_every": 2,
            "reward": Reward() if algorithm in ("sft", "reward_model") else Reward("tests_fraction"),
        }
        return make_complete_spec(algorithm=algorithm, hyperparameters=small, **spec | changes)

    return make


@pytest.mark.timeout(900)  # three jobs
@pytest.mark.parametrize("max_staleness", [0, 1])
async def test_a_killed_job_resumes_and_ends_as_one_that_was_not_killed(
    world: World, run_spec: Any, max_staleness: int
) -> None:
    spec, reports = run_spec(), world.reports
    changing = replace(
        spec.hyperparameters, temperature_end=0.7, learning_rate_schedule="linear", max_staleness=max_staleness
    )
    spec = replace(spec, hyperparameters=changing)
    async with world.running(world.job(spec)) as job:
        # Step 3 is after the checkpoint of step 2: it is lost with the job, and done again.
        await reports.until(job, lambda now: 3 in now.steps)
        os.killpg(job.pid, signal.SIGKILL)
    reports.attempt = 2
    async with world.running(world.job(spec, attempt=2)) as job:
        await reports.until(job, lambda now: now.ending is not None)

    assert reports.ending == ""
    assert sorted(reports.steps) == [1, 2, 3, 4]
    assert [reports.steps[number].attempt for number in (1, 2, 3, 4)] == [1, 1, 2, 2]
    assert sorted(reports.checkpoints) == [2, 4]
    for checkpoint in reports.checkpoints.values():
        # The export is the very weights that generated, sampled with and were validated.
        assert policy_id.of_folder(Path(checkpoint.uri)) == checkpoint.policy_id
        assert checkpoint.policy_id == reports.steps[checkpoint.step].policy_id
        assert checkpoint.validation.low <= checkpoint.validation_score <= checkpoint.validation.high
    # Nothing is made ahead over the checkpoint of step 2.
    stale = [reports.steps[number].metrics["staleness_mean"] for number in (1, 2, 3, 4)]
    assert stale == [0, max_staleness, 0, max_staleness]
    for number, step in reports.steps.items():
        if number in (1, 3):
            assert step.metrics["logprob_diff_mean"] < 1e-3
        if max_staleness:
            assert step.metrics["importance_mean"] == pytest.approx(1, abs=1e-4 if number in (1, 3) else 0.1)
            assert ("time_overlapped_s" in step.metrics) == (number in (2, 4))
        assert (step.metrics["groups"], 0 <= step.metrics["verdict_passed"] <= 1) == (4, True)
    assert [reports.steps[number].metrics["temperature"] for number in (1, 2, 3, 4)] == pytest.approx(
        [1, 0.9, 0.8, 0.7]
    )
    rates = [reports.steps[number].metrics["learning_rate"] for number in (1, 2, 3, 4)]
    assert rates == pytest.approx([share * changing.learning_rate for share in (0.75, 0.5, 0.25, 0)])
    assert [number for number, step in sorted(reports.steps.items()) if "base_score" in step.metrics] == [1]
    base = reports.steps[1].metrics
    assert base["base_score_low"] <= base["base_score"] <= base["base_score_high"]
    validated = reports.steps[4].metrics
    assert validated["validation_problems"] == 8
    assert 0 <= validated["validation_score_low"] < validated["validation_score_high"] <= 1
    assert reports.faults == 0
    assert reports.phases[:5] == ["LOADING_MODEL", "LOADING_POLICY", "VALIDATING", "GENERATING", "UPDATING"]
    assert {"SAVING", "VALIDATING"} <= set(reports.phases)

    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()
    async with world.running(world.job(spec, name="whole")) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert (reports.policy_ids(), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # two jobs
@pytest.mark.parametrize("algorithm", ["grpo", "dapo_steps"])
async def test_episodes_of_several_answers(algorithm: str, world: World, run_spec: Any) -> None:
    """What is learned from are the tokens that were sampled, at their places: else the engine and the trainer would
    disagree about them."""
    spec, reports = run_spec(algorithm=algorithm, steps=3, environment=EnvironmentSpec("edits")), world.reports
    spec = replace(spec, hyperparameters=replace(spec.hyperparameters, max_response_tokens=192))
    async with world.running(world.job(spec)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    assert sorted(reports.steps) == [1, 2, 3]
    for step in reports.steps.values():
        assert step.metrics["logprob_diff_mean"] < 1e-3
        assert step.metrics["logprob_diff_max"] < 0.05
        assert 1 < step.metrics["turns_mean"] <= 3
        assert 0 <= step.metrics["first_answers_passed"] <= step.metrics["verdict_passed"] + 0.5
        assert step.metrics["response_tokens_max"] <= 192
    assert reports.faults == 0
    assert 1 < reports.steps[3].metrics["validation_turns_mean"] <= 3
    assert all(policy_id.of_folder(Path(one.uri)) == one.policy_id for one in reports.checkpoints.values())
    made, scores = reports.policy_ids(), reports.scores()
    reports.forget()
    async with world.running(world.job(spec, name="again")) as job:
        await reports.until(job, lambda now: now.ending is not None)
    if algorithm == "grpo":  # dynamic sampling draws as many prompts as end first
        assert (reports.policy_ids(), reports.scores()) == (made, scores)


@pytest.mark.timeout(900)  # two jobs
async def test_a_curriculum_goes_on_after_a_kill_with_what_it_knew(world: World, run_spec: Any) -> None:
    few = ProblemSetRef("composed/train", limit=24)
    stages = (Stage(max_difficulty=4, steps=2), Stage(min_difficulty=2))
    spec = run_spec(steps=6, validate_every=3, problems=few, curriculum=Curriculum(0.1, stages))
    reports = world.reports

    def found(number: int) -> list[object]:
        step = reports.steps[number]
        names = ("stage", "effective_problems", "estimated_pass_rate", "groups_without_signal", "reward_mean")
        return [step.policy_id, *(step.metrics[name] for name in names)]

    async with world.running(world.job(spec)) as job:
        # Steps 4 and 5 are after the checkpoint of step 3: they are lost with the job, and done again.
        await reports.until(job, lambda now: 5 in now.steps)
        os.killpg(job.pid, signal.SIGKILL)
    before = {number: found(number) for number in (4, 5)}
    reports.attempt = 2
    async with world.running(world.job(spec, attempt=2)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    assert [reports.steps[number].attempt for number in range(1, 7)] == [1, 1, 1, 2, 2, 2]
    assert {number: found(number) for number in (4, 5)} == before
    assert [reports.steps[number].metrics["stage"] for number in range(1, 7)] == [1, 1, 2, 2, 2, 2]
    kinds = [Kind(one.difficulty) for one in load(few.name, limit=24)]
    for step in reports.steps.values():
        selected = sum(map(stages[int(step.metrics["stage"]) - 1].selects, kinds))
        assert 1 <= step.metrics["effective_problems"] <= selected + 1e-6


@pytest.mark.timeout(900)  # three jobs
async def test_episodes_under_a_curriculum_are_made_ahead_and_again_after_a_kill(world: World, run_spec: Any) -> None:
    """Prompts are drawn by what the step before told, whose samples were of older weights than the step's own."""
    few, reports = ProblemSetRef("composed/train", limit=24), world.reports
    stages = (Stage(max_difficulty=4, steps=2), Stage(min_difficulty=2))
    curriculum, edits = Curriculum(0.1, stages), EnvironmentSpec("edits")
    spec = run_spec(steps=5, validate_every=3, problems=few, curriculum=curriculum, environment=edits)
    hyper = replace(spec.hyperparameters, max_staleness=1, max_response_tokens=192)
    spec = replace(spec, hyperparameters=hyper)

    def found(number: int) -> list[object]:
        step = reports.steps[number]
        names = ("staleness_mean", "stage", "effective_problems", "estimated_pass_rate", "turns_mean", "reward_mean")
        return [step.policy_id, *(step.metrics[name] for name in names)]

    async with world.running(world.job(spec)) as job:
        # Step 4 is after the checkpoint of step 3: it is lost with the job, and with what was made ahead of step 5.
        await reports.until(job, lambda now: 4 in now.steps)
        os.killpg(job.pid, signal.SIGKILL)
    reports.attempt = 2
    async with world.running(world.job(spec, attempt=2)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    assert [reports.steps[number].attempt for number in range(1, 6)] == [1, 1, 1, 2, 2]
    made, scores = [found(number) for number in range(1, 6)], reports.scores()
    assert [one[1] for one in made] == [0, 1, 1, 0, 1]
    assert [one[2] for one in made] == [1, 1, 2, 2, 2]
    assert all(1 < reports.steps[number].metrics["turns_mean"] <= 3 for number in range(1, 6))
    assert all(reports.steps[number].metrics["logprob_diff_mean"] < 1e-3 for number in (1, 4))
    assert reports.faults == 0
    reports.forget()
    async with world.running(world.job(spec, name="whole")) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert ([found(number) for number in range(1, 6)], reports.scores()) == (made, scores)


async def test_two_ranks_with_a_reference_policy_and_a_critic(world: World, run_spec: Any) -> None:
    spec = run_spec(
        algorithm="ppo",
        steps=2,
        kl_coefficient=0.01,
        resources=Resources(accelerators_per_node=2),
    )
    async with world.running(world.job(spec)) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1, 2]
    assert "value_loss" in world.reports.steps[2].metrics


async def test_in_bfloat16_as_on_gpus(world: World, run_spec: Any) -> None:
    async with world.running(world.job(run_spec(steps=1), dtype="bfloat16")) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1]


async def test_sft(world: World, run_spec: Any) -> None:
    spec = run_spec(algorithm="sft", steps=3, validate_every=2)
    async with world.running(world.job(spec)) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1, 2, 3]
    assert {2, 3} == set(world.reports.checkpoints)


@pytest.fixture
def pairs(tmp_path: Path) -> ProblemSetRef:
    """Of ten problems: the reference, and the same program without its last character; and one that has no room."""
    return pairs_of(load("composed/train", limit=10), tmp_path / "pairs.jsonl", {"rejected": "no " * 200})


def pairs_of(problems: Sequence[Problem], path: Path, last: Mapping[str, str]) -> ProblemSetRef:
    """`last`: another line, as the first one is but for this."""
    lines = [
        {"problem": one.prompt, "chosen": one.references[0], "rejected": one.references[0][:-1]} for one in problems
    ]
    lines.append(lines[0] | last)
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return ProblemSetRef(str(path))


@pytest.mark.timeout(900)  # three jobs
async def test_dpo_goes_on_after_a_kill_with_the_bases_log_probs(
    world: World, run_spec: Any, pairs: ProblemSetRef
) -> None:
    spec, reports = run_spec(algorithm="dpo", pairs=pairs), world.reports
    async with world.running(world.job(spec)) as job:
        await reports.until(job, lambda now: 3 in now.steps)
        os.killpg(job.pid, signal.SIGKILL)
    reports.attempt = 2
    async with world.running(world.job(spec, attempt=2)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    assert [reports.steps[number].attempt for number in (1, 2, 3, 4)] == [1, 1, 2, 2]
    first, last = reports.steps[1].metrics, reports.steps[4].metrics
    # At first it is its own reference: no margin, and so a loss of ln 2.
    assert first["loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert first["pair_margin"] == pytest.approx(0, abs=1e-4)
    assert last["pair_margin"] > 0.01
    assert (first["problems"], first["problems_left_out"], first["validation_left_out"]) == (11, 1, 0)
    assert 0 <= first["base_score_low"] <= first["base_score"] <= first["base_score_high"] <= 1
    assert sorted(reports.checkpoints) == [2, 4]
    for checkpoint in reports.checkpoints.values():
        assert policy_id.of_folder(Path(checkpoint.uri)) == checkpoint.policy_id
        assert checkpoint.validation.low <= checkpoint.validation_score <= checkpoint.validation.high

    made = [(step.metrics["loss"], step.policy_id) for _, step in sorted(reports.steps.items())]
    scores = reports.scores()
    reports.forget()
    async with world.running(world.job(spec, name="whole")) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert [(step.metrics["loss"], step.policy_id) for _, step in sorted(reports.steps.items())] == made
    assert reports.scores() == scores


@pytest.mark.timeout(900)  # two jobs
@pytest.mark.parametrize("algorithm", ["dpo", "reward_model"])
async def test_two_ranks_learn_from_pairs_as_one_does(
    world: World, run_spec: Any, pairs: ProblemSetRef, algorithm: str
) -> None:
    losses = []
    for ranks in (1, 2):
        some = Resources(accelerators_per_node=ranks)
        spec = run_spec(algorithm=algorithm, pairs=pairs, steps=2, validation_problems=None, resources=some)
        async with world.running(world.job(spec, name=f"ranks-{ranks}")) as job:
            await world.reports.until(job, lambda now: now.ending is not None)
        assert world.reports.ending == ""
        losses.append([world.reports.steps[number].metrics["loss"] for number in (1, 2)])
        world.reports.forget()
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


@pytest.mark.timeout(1200)  # four jobs
async def test_a_reward_model_goes_on_after_a_kill_and_then_rewards(
    world: World, run_spec: Any, pairs: ProblemSetRef, tmp_path: Path
) -> None:
    held_out = pairs_of(load("composed/validation", limit=9), tmp_path / "held-out.jsonl", {"rejected": "pass"})
    reports = world.reports
    spec = run_spec(algorithm="reward_model", pairs=pairs, validation_pairs=held_out, steps=10, validate_every=5)
    async with world.running(world.job(spec)) as job:
        await reports.until(job, lambda now: 6 in now.steps)
        os.killpg(job.pid, signal.SIGKILL)
    reports.attempt = 2
    async with world.running(world.job(spec, attempt=2)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    assert [reports.steps[number].attempt for number in (1, 5, 6, 10)] == [1, 1, 2, 2]
    assert reports.steps[1].metrics["problems_left_out"] == 1
    best = reports.checkpoints[10]
    assert best.validation.low < best.validation_score <= best.validation.high
    made = [(step.metrics["loss"], step.policy_id) for _, step in sorted(reports.steps.items())]
    assert sum(loss for loss, _ in made[-3:]) < 0.8 * sum(loss for loss, _ in made[:3])
    reports.forget()
    async with world.running(world.job(spec, name="whole")) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert [(step.metrics["loss"], step.policy_id) for _, step in sorted(reports.steps.items())] == made

    exported = reports.checkpoints[10].uri
    judged = Component("preference", 0.3, model=Location(exported))
    reports.forget()
    rewarded = run_spec(steps=2, reward=Reward(components=(Component("tests_passed", 0.7), judged)))
    async with world.running(world.job(rewarded, name="rewarded", reward_model=exported)) as job:
        await reports.until(job, lambda now: now.ending is not None)
    assert reports.ending == ""
    measured = [step.metrics for step in reports.steps.values()]
    assert all(0 < values["component_preference"] < 1 for values in measured)


@pytest.mark.timeout(900)  # two jobs
async def test_a_base_without_a_chat_template_learns_to_go_on_with_texts(world: World, run_spec: Any) -> None:
    base = world.folder / "base"
    shutil.copytree(STARTER, base, ignore=shutil.ignore_patterns("chat_template*"))
    few = ProblemSetRef("composed/train", limit=4)
    examples = run_spec(algorithm="sft", steps=12, validate_every=None, problems=few, prompt_form="completion")
    async with world.running(world.job(examples, name="sft", base=base)) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert world.reports.steps[12].metrics["loss"] < world.reports.steps[1].metrics["loss"] / 4
    learned = Path(world.reports.checkpoints[12].uri)
    world.reports.forget()
    spec = run_spec(steps=3, validate_every=None, problems=few, validation_problems=few, prompt_form="completion")
    async with world.running(world.job(spec, base=learned)) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1, 2, 3]
    # Without its form's prompts and ends it would pass nothing.
    assert world.reports.steps[1].metrics["verdict_passed"] > 0.2
    assert world.reports.checkpoints[3].validation_score > 0.2


async def test_a_sampler_and_a_loss_of_ones_own_train(
    world: World, run_spec: Any, install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin("sampler", "easy_first")
    site = str(install_plugin("loss", "unclipped"))
    monkeypatch.syspath_prepend(site)
    spec = run_spec(steps=3, validate_every=None, plugins=tuple(plugins.installed()))
    assert [plugin.name for plugin in spec.plugins] == ["easy_first", "unclipped"]
    async with world.running(world.job(spec), PYTHONPATH=site) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1, 2, 3]
    for step in world.reports.steps.values():
        assert step.metrics["plugin_unclipped_ratio"] == pytest.approx(1.0)  # learned from once


async def test_an_environment_of_ones_own_trains(
    world: World, run_spec: Any, install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = str(install_plugin("environment", "hints"))
    monkeypatch.syspath_prepend(site)
    (plugin,) = plugins.installed()
    spec = run_spec(steps=2, validate_every=None, environment=EnvironmentSpec("plugin:hints", 3, plugin.digest))
    spec = replace(spec, hyperparameters=replace(spec.hyperparameters, max_response_tokens=192))
    async with world.running(world.job(spec), PYTHONPATH=site) as job:
        await world.reports.until(job, lambda now: now.ending is not None)
    assert world.reports.ending == ""
    assert sorted(world.reports.steps) == [1, 2]
    for step in world.reports.steps.values():
        assert 1 < step.metrics["turns_mean"] <= 3
        assert step.metrics["logprob_diff_mean"] < 1e-3
    assert world.reports.faults == 0
    (samples,) = (world.folder / "run").rglob("step-2.json")
    assert "tests fail." in samples.read_text()  # what it told


async def test_a_cancelled_job_stops(world: World, run_spec: Any) -> None:
    world.reports.cancelled = True
    async with world.running(world.job(run_spec())) as job:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            assert await job.wait() == 0
    assert sorted(world.reports.steps) == [1]
    assert world.reports.ending is None
