"""The path of a GPU from end to end: `python -m tests.bench.gpu`, below four minutes with the starter on one GPU.

On a platform of its own: an engine loads; log-probs, seeds and streams; weights whole, as changes, and whole again,
each proven by its policy id, the last two by answers that are alike bit for bit; the engine is killed and READY again;
three steps of GRPO to the run's end: checkpoint, export, registration, evaluation. With `--model FOLDER` it then
generates with a larger model, beside vLLM alone, and trains it for three steps; with `--trl PYTHON`, the interpreter of
an environment with TRL (and vLLM, for a GPU), beside TRL's. Without a GPU it is skipped; `--device
cpu` makes the same checks there, so that the script is known to be right where no GPU is.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil

from ratchet.common.v1 import generation_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client
from ratchet_kit.policy_id import Tensor, read_safetensors
from ratchet_kit.service_auth import TOKEN
from ratchet_local import starter
from ratchet_local.processes import marked
from ratchet_policies import PolicySpec
from ratchet_problems import load
from ratchet_protos.access import with_token
from tests.bench.training_speed import write
from tests.bench.weights_travel import PYTHON, ROOT, TEN_MINUTES, RecordingFleet, bfloat16, stepped
from tests.e2e.conftest import Platform, running
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.policy.stream_transport import StreamTransport
from trainer_service.job.policy.transport import Weights

ON_GPU = {
    "RATCHET_TRAINER_DEVICE": "cuda",
    "RATCHET_ROLLOUT_DEVICE": "cuda",
    "RATCHET_ROLLOUT_GPU_MEMORY_UTILIZATION": "0.4",
}
PROMPT = [1, *range(20, 40)]
PROMPTS, COMPLETIONS = 16, 8
LEARNING_RATE = 1e-6
BARE = """
import json, sys, time
from vllm import LLM, SamplingParams
model, dtype, tokens, n, prompts = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5])
llm = LLM(model, dtype=dtype, max_model_len=tokens + 128, gpu_memory_utilization=0.3, disable_log_stats=True)
params = SamplingParams(n=n, max_tokens=tokens, temperature=1.0, logprobs=0, ignore_eos=True)
for turn in range(2):
    began = time.perf_counter()
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in prompts], params, use_tqdm=False)
    made = sum(len(one.token_ids) for output in outputs for one in output.outputs)
    print(json.dumps({"rate": made / (time.perf_counter() - began)}), flush=True)
"""


class Engine:
    """The policy "p" of a rollout service, as its callers have it."""

    def __init__(self, platform: Platform, dtype: str) -> None:
        self.target, self.dtype = platform.target("rollout"), dtype
        channel = with_token(grpc.insecure_channel(self.target), platform.home.service_token())
        self.stub = rollout_pb2_grpc.RolloutServiceStub(channel)

    def spec(self, model: Path, most: int) -> PolicySpec:
        return PolicySpec("p", str(model), dtype=self.dtype, max_model_len=most)

    def load(self, model: Path, most: int) -> None:
        """Loads it, and waits until it is READY."""
        dtype = pb.Dtype.Value(f"DTYPE_{self.dtype.upper()}")
        options = pb.EngineOptions(dtype=dtype, max_model_len=most)
        self.stub.LoadPolicy(
            pb.LoadPolicyRequest(request_id=f"p-{model}", name="p", source_uri=str(model), options=options)
        )
        while (policy := self.policy()).state == pb.Policy.STATE_LOADING:
            time.sleep(0.1)
        require(policy.state == pb.Policy.STATE_READY, f"it is not READY: {policy.failure.message}")

    def policy(self) -> pb.Policy:
        found: pb.Policy = self.stub.GetPolicy(pb.GetPolicyRequest(name="p")).policy
        return found

    def request(self, prompt: list[int] = PROMPT, **sampling: Any) -> pb.GenerateRequest:
        return pb.GenerateRequest(
            policy="p",
            prompt=generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=prompt)),
            sampling=generation_pb2.SamplingParams(**{"logprobs": True, "ignore_eos": True, **sampling}),
        )

    def generate(self, prompt: list[int] = PROMPT, **sampling: Any) -> pb.GenerateResponse:
        reply: pb.GenerateResponse = self.stub.Generate(self.request(prompt, **sampling), timeout=600)
        return reply


def require(holds: bool, fault: str) -> None:
    if not holds:
        raise SystemExit(f"FAILED: {fault}")


@contextmanager
def timed(what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    print(f"{time.perf_counter() - began:7.1f} s  {what}", flush=True)


def check_answers(engine: Engine) -> None:
    first, again = (engine.generate(max_tokens=48, n=4, seed=7, temperature=1.0) for _ in range(2))
    require(first.policy_id == engine.policy().policy_id, "an answer is of other weights")
    for one in first.completions:
        require(len(one.log_probs) == len(one.token_ids) == 48, "a token has no log-prob")
        require(max(one.log_probs) <= 0, "a log-prob is above 0")
    tokens = [[list(one.token_ids) for one in reply.completions] for reply in (first, again)]
    require(tokens[0] == tokens[1], "one seed gave two answers")
    stream = engine.stub.StreamGenerate(
        pb.StreamGenerateRequest(request=engine.request(max_tokens=32, temperature=0.0)), timeout=120
    )
    pieces = [list(piece.delta.token_ids) for piece in stream]
    require(len(pieces) > 1 and sum(map(len, pieces)) == 32, f"the stream has {len(pieces)} pieces")


def two_versions(model: Path, dtype: str) -> tuple[Weights, Weights]:
    """The weights of a folder, and what a step makes of them."""
    files = sorted(model.glob("*.safetensors"))
    tensors = [one._replace(data=bytes(one.data)) for file in files for one in read_safetensors(file)]
    pairs = [stepped(_in_bfloat16(one), seed) for seed, one in enumerate(tensors)]
    if dtype == "float32":
        pairs = [(_in_float32(one), _in_float32(other)) for one, other in pairs]
    return Weights.of([one for one, _ in pairs]), Weights.of([one for _, one in pairs])


async def check_weights(engine: Engine, model: Path, most: int) -> None:
    before, after = await asyncio.to_thread(two_versions, model, engine.dtype)
    answers = []
    async with RecordingFleet.of(engine.target) as fleet:
        policy = RunPolicy(fleet, StreamTransport(fleet), engine.spec(model, most), TEN_MINUTES)
        for name, weights, base in (
            ("whole", before, None),
            ("changes", after, before),
            ("whole again", after, None),
        ):
            began = time.perf_counter()
            sync = await policy.push(weights, 1, base)
            seconds = time.perf_counter() - began
            pause = fleet.reply.load_duration.ToTimedelta().total_seconds()
            require(sync.policy_id == weights.policy_id, "the engine has other weights than it was sent")
            reply = await asyncio.to_thread(engine.generate, max_tokens=32, temperature=0.0)
            answers.append([*reply.completions[0].token_ids, *reply.completions[0].log_probs])
            print(
                f"{seconds:7.1f} s  weights, {name}: {sync.sent_bytes / 1e6:.1f} of {weights.size_bytes / 1e6:.1f} MB,"
                f" paused for {pause:.2f} s, probe {sync.probe_error:.1g}",
                flush=True,
            )
    require(answers[1] == answers[2], "answers after changes are not those after all of the same weights")


def _in_bfloat16(tensor: Tensor) -> Tensor:
    if tensor.dtype == "BF16":
        return tensor
    return tensor._replace(dtype="BF16", data=bfloat16(np.frombuffer(tensor.data, np.float32)))


def _in_float32(tensor: Tensor) -> Tensor:
    bits = np.frombuffer(tensor.data, np.uint16).astype(np.uint32) << 16
    return tensor._replace(dtype="F32", data=bits.tobytes())


def check_killed(platform: Platform, engine: Engine) -> None:
    before = engine.policy().policy_id
    processes = {one for service in marked(platform.home.path) for one in (service, *service.children(recursive=True))}
    (process,) = [one for one in processes if " ".join(one.cmdline()).startswith("ratchet-engine p")]
    os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs([process], 30)
    while True:
        try:
            reply = engine.generate(max_tokens=4)
            break
        except grpc.RpcError as error:
            require(error.code() is grpc.StatusCode.UNAVAILABLE, f"the engine does not come back: {error.details()}")
            time.sleep(0.2)
    require(reply.policy_id == before, "it came back with other weights")


def check_run(client: Client, base: model_pb2.ModelRef, most: int) -> float:
    """Three steps to the run's end. Prints what each took, and returns the seconds of the last."""
    hyper = trainer_pb2.Hyperparameters(
        batch_size=PROMPTS,
        group_size=COMPLETIONS,
        learning_rate=LEARNING_RATE,
        warmup_steps=0,
        max_prompt_tokens=64,
        max_response_tokens=most,
    )
    run = client.runs.create(
        trainer_pb2.RunSpec(
            base=base,
            algorithm=trainer_pb2.ALGORITHM_GRPO,
            problems=problem_pb2.ProblemSetRef(name="composed/train"),
            validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=16),
            reward=trainer_pb2.RewardSpec(name="tests_passed"),
            steps=3,
            hyperparameters=hyper,
            output_model="gpu",
        )
    )
    for seen in client.runs.watch(run.id):
        run = seen.run
    require(run.state == trainer_pb2.Run.STATE_SUCCEEDED, f"the run failed: {run.failure.message}")
    require(run.platform_faults == 0, f"{run.platform_faults} samples were lost")
    steps = sorted(client.runs.steps(run.id), key=lambda step: step.number)
    for step in steps:
        names = ("time_step_s", "time_generate_s", "time_update_s", "time_sync_s", "memory_bytes_max")
        shown = {name: round(step.metrics[name], 2) for name in names if name in step.metrics}
        print(f"           step {step.number}: {json.dumps(shown)}", flush=True)
    version = client.models.version(run.version.model, run.version.number)
    require(version.policy_id == run.best_checkpoint.policy_id, "what is registered is not what was trained")
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=run.version),
        problems=problem_pb2.ProblemSetRef(name="composed/test", limit=32),
        samples_per_problem=1,
        max_tokens=most,
    )
    made = client.evaluations.create(spec)
    *_, made = client.evaluations.watch(made.id)
    require(made.state == eval_pb2.Evaluation.STATE_SUCCEEDED, f"the evaluation failed: {made.failure.message}")
    require(made.policy_id == version.policy_id, "what was measured is not what is registered")
    return steps[-1].metrics["time_step_s"]


def compare_rates(engine: Engine, model: Path, tokens: int) -> None:
    """New tokens a second of 16 prompts of 8 completions: of the service, and of vLLM alone."""
    prompts = [[2 + (11 * place + at) % 300 for at in range(64)] for place in range(PROMPTS)]

    def ask(prompt: list[int]) -> int:
        reply = engine.generate(prompt, n=COMPLETIONS, max_tokens=tokens, temperature=1.0)
        return sum(len(one.token_ids) for one in reply.completions)

    rates = []
    for _ in range(2):
        with ThreadPoolExecutor(PROMPTS) as pool:
            began = time.perf_counter()
            rates.append(sum(pool.map(ask, prompts)) / (time.perf_counter() - began))
    command = [str(PYTHON), "-c", BARE, str(model), engine.dtype, str(tokens), str(COMPLETIONS), json.dumps(prompts)]
    bare = subprocess.run(command, capture_output=True, text=True)
    require(bare.returncode == 0, f"vLLM alone: {bare.stderr.strip()[-1000:]}")
    alone = [json.loads(line)["rate"] for line in bare.stdout.splitlines() if line.startswith('{"rate"')]
    print(
        f"           {max(rates):.0f} new tokens/s, {max(rates) / max(alone):.2f} of vLLM alone ({max(alone):.0f});"
        " wanted at least 0.90",
        flush=True,
    )


def compare_steps(python: Path, model: Path, tokens: int, cuda: bool, ours: float) -> None:
    """A step of TRL's GRPOTrainer on the same problems, after its first two."""
    settings = {
        "prompts": PROMPTS,
        "completions": COMPLETIONS,
        "max_tokens": tokens,
        "learning_rate": LEARNING_RATE,
        "steps": 3,
        "passes": 8 if cuda else 1,
        "threads": len(os.sched_getaffinity(0)),
        "cuda": cuda,
    }
    with tempfile.TemporaryDirectory(prefix="rat-trl-") as work:
        prompts = Path(work) / "prompts.jsonl"
        write(prompts, load("composed/train", limit=3 * PROMPTS))
        command = [
            str(python),
            str(Path(__file__).with_name("trl_steps.py")),
            str(model),
            str(prompts),
            json.dumps(settings),
        ]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=work)
    require(ended.returncode == 0, f"TRL: {ended.stderr.strip()[-1000:]}")
    last = [json.loads(line)["seconds"] for line in ended.stdout.splitlines() if line.startswith('{"seconds"')][-1]
    print(
        f"           a step of {ours:.2f} s, {ours / last:.2f} of TRL's ({last:.2f} s); wanted at most 0.75", flush=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--model", type=Path, help="folder of a larger model, which is measured too")
    parser.add_argument("--tokens", type=int, default=512, help="new ones of its completions")
    parser.add_argument(
        "--trl", type=Path, help="interpreter with TRL, whose steps of the larger model are measured, too"
    )
    options = parser.parse_args()
    if options.device == "cuda" and not shutil.which("nvidia-smi"):
        print("skipped: this machine has no NVIDIA GPU; --device cpu makes the same checks without one")
        return 0
    environment = dict(ON_GPU) if options.device == "cuda" else {}
    if options.model:
        options.model = options.model.resolve()
        environment["RATCHET_SOURCES"] = str(options.model)
    dtype = "bfloat16" if options.device == "cuda" else "float32"
    with (
        timed("all of it"),
        running(environment) as platform,
        platform.client() as client,
    ):
        os.environ[TOKEN] = platform.home.service_token()
        engine, model = Engine(platform, dtype), ROOT / "models" / "starter"
        with timed("the starter's engine is READY"):
            engine.load(model, 256)
        with timed("log-probs, seeds and streams hold"):
            check_answers(engine)
        asyncio.run(check_weights(engine, model, 256))
        with timed("killed, it answers again with its weights"):
            check_killed(platform, engine)
        engine.stub.UnloadPolicy(pb.UnloadPolicyRequest(name="p"))
        starter.ensure_registered(client)
        with timed("three steps, checkpoint, export, version and evaluation"):
            check_run(client, model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")), 72)
        if options.model:
            with timed(f"the engine of {options.model.name} is READY"):
                engine.load(options.model, options.tokens + 128)
            compare_rates(engine, options.model, options.tokens)
            engine.stub.UnloadPolicy(pb.UnloadPolicyRequest(name="p"))
            with timed(f"three steps of {options.model.name} to the run's end"):
                ours = check_run(client, model_pb2.ModelRef(uri=str(options.model)), options.tokens)
    if options.model and options.trl:
        with timed("three steps of TRL"):
            compare_steps(options.trl, options.model, options.tokens, options.device == "cuda", ours)
    return 0


if __name__ == "__main__":
    sys.exit(main())
