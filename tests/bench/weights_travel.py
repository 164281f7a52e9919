"""What new weights cost on their way to the engine, whole and as changes: `python -m tests.bench.weights_travel`.

A random Llama of a billion parameters in bfloat16 (`--small`: of 30 million), served by a real rollout service with
vLLM; the trainer's side is `trainer_service.job.policy`. One step of Adam at lr 1e-6 moves each float32 weight
by about that much (arXiv:1412.6980, section 2.1); bfloat16 takes what it can tell apart. First all weights are sent,
then what the step changed, then all again. The service computes the id of what it has each time, and the last two must
answer alike, bit for bit. Beside it somebody asks for one token after another: the longest answer is the pause from
outside.

`--road`: no engine, but the processor time of the way from the rank's memory to the service's disk, per GB of weights,
of a model with the shapes of Qwen2-0.5B in which 1.8 % of the values change. The bound is what cannot be left out: each
side hashes the weights, and the service writes them.
"""

import argparse
import asyncio
import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import numpy as np
from numpy.typing import NDArray

from ratchet.common.v1 import generation_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit import service_auth
from ratchet_kit.allowed_sources import Places
from ratchet_kit.policy_id import Tensor, read_safetensors
from ratchet_policies import PolicySpec
from ratchet_policies.fleet import Fleet
from ratchet_protos.access import with_token
from rollout_service.adapters.folders import DiskModelFolders
from rollout_service.adapters.receiving import SHARD_BYTES, Files
from rollout_service.convert import weight_update_from_proto
from trainer_service.job.policy.policy import RunPolicy
from trainer_service.job.policy.stream_transport import StreamTransport, messages
from trainer_service.job.policy.transport import Weights

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs/rollout/bin/python"
WANTED_BYTES, WANTED_PAUSE = 0.05, 1 / 3
LEARNING_RATE = 1e-6
TEN_MINUTES = timedelta(minutes=10)

MAKE = """
import sys, torch, transformers
folder, hidden, inner, layers = sys.argv[1], *map(int, sys.argv[2:])
transformers.AutoTokenizer.from_pretrained({starter!r}).save_pretrained(folder)
config = transformers.AutoConfig.from_pretrained({starter!r})
config = transformers.LlamaConfig(
    vocab_size=config.vocab_size, hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
    num_attention_heads=hidden // 64, num_key_value_heads=hidden // 128, max_position_embeddings=512,
    tie_word_embeddings=True, bos_token_id=1, eos_token_id=2)
transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
"""


class RecordingFleet(Fleet):
    """Keeps the last reply, which says how long each part took."""

    reply = pb.UpdateWeightsResponse()

    async def update(
        self, name: str, messages: Callable[[str], AsyncIterator[pb.UpdateWeightsRequest]], timeout: float
    ) -> Sequence[pb.UpdateWeightsResponse]:
        replies = await super().update(name, messages, timeout)
        self.reply = replies[-1]
        return replies


class User:
    """Asks for one token after another."""

    def __init__(self, target: str) -> None:
        channel = with_token(grpc.insecure_channel(target), service_auth.token())
        self._stub = rollout_pb2_grpc.RolloutServiceStub(channel)

    def answer(self, tokens: int) -> tuple[list[int], list[float]]:
        """The likeliest tokens, and their log-probs."""
        request = pb.GenerateRequest(
            policy="p",
            prompt=generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=[1, *range(20, 40)])),
            sampling=generation_pb2.SamplingParams(max_tokens=tokens, temperature=0, logprobs=True, ignore_eos=True),
        )
        (completion,) = self._stub.Generate(request, timeout=600).completions
        return list(completion.token_ids), list(completion.log_probs)

    @contextmanager
    def waiting(self) -> Iterator[list[float]]:
        """Inside, it asks; afterwards the list has how long each answer took, in seconds."""
        ended, took = threading.Event(), list[float]()

        def ask() -> None:
            while not ended.is_set():
                started = time.perf_counter()
                self.answer(1)
                took.append(time.perf_counter() - started)

        asking = threading.Thread(target=ask)
        asking.start()
        try:
            yield took
        finally:
            ended.set()
            asking.join()


@contextmanager
def service(work: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "RATCHET_ROLLOUT_WORK_DIR": str(work / "rollout"),
        "RATCHET_ROLLOUT_PORT": str(port),
        "RATCHET_SOURCES": str(work),
        "RATCHET_ROLLOUT_KV_CACHE_BYTES": str(64 << 20),
    }
    with (work / "rollout.log").open("w") as log:
        process = subprocess.Popen([PYTHON, "-m", "rollout_service.main"], env=environment, stdout=log, stderr=log)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def stepped(tensor: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """A tensor whose float32 weights lie anywhere between bfloat16's, and what a step makes of it."""
    random = np.random.default_rng(seed)
    whole = values_of(tensor).astype(np.uint32) << 16
    exact = (whole | random.integers(0, 1 << 16, len(whole), np.uint32)).view(np.float32)
    moved = exact + np.float32(LEARNING_RATE) * random.choice(np.array([-1, 1], np.float32), len(exact))
    return tensor._replace(data=bfloat16(exact)), tensor._replace(data=bfloat16(moved))


def values_of(tensor: Tensor) -> NDArray[np.uint16]:
    """The bits of bfloat16."""
    return np.frombuffer(tensor.data, np.uint16)


def bfloat16(values: NDArray[np.float32]) -> bytes:
    """Rounded to nearest, ties to even."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()


def made(folder: Path, small: bool) -> list[Path]:
    """The weights of a new model."""
    shape = ("512", "1408", "8") if small else ("2048", "5632", "20")
    make = MAKE.format(starter=str(ROOT / "models" / "starter"))
    subprocess.run([PYTHON, "-c", make, folder, *shape], check=True)
    return sorted(folder.glob("*.safetensors"))


async def main(small: bool) -> int:
    with tempfile.TemporaryDirectory(prefix="rat-weights-") as folder, service(Path(folder)) as target:
        model = Path(folder) / "model"
        files = made(model, small)
        tensors = [one._replace(data=bytes(one.data)) for file in files for one in read_safetensors(file)]
        pairs = [stepped(one, seed) for seed, one in enumerate(tensors)]
        before, after = Weights.of([one for one, _ in pairs]), Weights.of([one for _, one in pairs])
        moved = sum(np.count_nonzero(values_of(one) != values_of(other)) for one, other in pairs) / (
            before.size_bytes / 2
        )
        del tensors, pairs
        print(
            f"{before.size_bytes / 2e6:.0f} million parameters in bfloat16; a step at lr {LEARNING_RATE:g} changes"
            f" {moved:.1%} of them"
        )
        spec = PolicySpec("p", str(model), dtype="bfloat16", max_model_len=256)
        async with RecordingFleet.of(target) as fleet:
            policy = RunPolicy(fleet, StreamTransport(fleet), spec, TEN_MINUTES, load_timeout=TEN_MINUTES)
            await policy.ensure_loaded()
            user, rows, answers = User(target), {}, []
            for name, weights, base in (
                ("whole, the first", before, None),
                ("changes", after, before),
                ("whole again", after, None),
            ):
                started = time.perf_counter()
                with user.waiting() as took:
                    sync = await policy.push(weights, 1, base)
                seconds = time.perf_counter() - started
                rows[name] = (sync.sent_bytes, fleet.reply.load_duration.ToTimedelta().total_seconds())
                answers.append(await asyncio.to_thread(user.answer, 32))
                print(
                    f"{name:17} {sync.sent_bytes / 1e6:8.1f} MB sent in {seconds:5.1f} s, generation paused for"
                    f" {rows[name][1]:5.2f} s (the longest of {len(took)} answers beside it took {max(took):.2f} s),"
                    f" id {sync.policy_id[:15]}, probe {sync.probe_error:.2g}",
                    flush=True,
                )
            await policy.unload()
    byte_share = rows["changes"][0] / rows["whole again"][0]
    pause_share = rows["changes"][1] / rows["whole again"][1]
    print(f"bytes  {byte_share:.3f} of the whole (wanted {WANTED_BYTES})")
    print(f"pause  {pause_share:.2f} of the whole's (wanted {WANTED_PAUSE:.2f})")
    same = answers[1] == answers[2]
    print(f"answers after changes and after all of the same weights: {'alike' if same else 'NOT ALIKE'}, bit for bit")
    return 0 if same else 1


def of_qwen() -> tuple[list[Tensor], list[Tensor]]:
    """Random weights before and after a step."""
    hidden, inner, random = 896, 4864, np.random.default_rng(0)
    layer = [("q", (hidden, hidden)), ("k", (128, hidden)), ("v", (128, hidden)), ("o", (hidden, hidden))]
    layer += [("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner))]
    shapes = [("model.embed_tokens.weight", (151936, hidden))]
    shapes += [(f"model.layers.{number}.{name}.weight", shape) for number in range(24) for name, shape in layer]
    before: list[Tensor] = []
    after: list[Tensor] = []
    for name, shape in shapes:
        size = shape[0] * shape[1]
        bits = (random.standard_normal(size, np.float32) * np.float32(0.02)).view(np.uint32) >> 16
        moved = bits + (random.random(size, np.float32) < 0.018)
        for kept, values in ((before, bits), (after, moved)):
            kept.append(Tensor(name, "BF16", shape, values.astype(np.uint16).tobytes()))
    return before, after


@contextmanager
def counted(row: dict[str, float], name: str, size_gb: float) -> Iterator[None]:
    """Processor time a GB."""
    began, worked = time.perf_counter(), time.process_time()
    yield
    row[name] = (time.process_time() - worked) / size_gb
    row[f"{name}, seconds"] = time.perf_counter() - began


async def road() -> int:
    before, after = of_qwen()
    size = sum(len(one.data) for one in before) / 1e9
    print(f"{size:.2f} GB in bfloat16, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="rat-weights-") as work:
        folder = Path(work) / "model"
        files = Files(folder, SHARD_BYTES)
        (Path(work) / "bound").mkdir()
        bound: dict[str, float] = {}
        with counted(bound, "bound", size):
            for one in before:
                hashlib.sha256(one.data).digest()
                hashlib.sha256(one.data).digest()
                files.place(one.name, one.dtype, one.shape, len(one.data)).write(one.data, 0)
        files.end()
        files.close()
        shutil.copy(ROOT / "models/starter/config.json", folder)
        folders = DiskModelFolders(Path(work) / "made", Places([work]))
        base, known = await folders.fetch(str(folder)), Weights.of(before)
        for name, sent_of in (("changes", known), ("whole", None)):
            row: dict[str, float] = {}
            with counted(row, "hash", size):
                weights = Weights.of(after)
            header = pb.UpdateWeightsHeader(policy="p", policy_id=weights.policy_id, step=1)
            with counted(row, "send", size):
                _, parts = await weight_update_from_proto(wire(messages(header, weights, sent_of)))
                received = await folders.receive(base, parts, changes=sent_of is not None)
            assert received.policy_id == weights.policy_id
            await folders.release(received)
            both = row["hash"] + row["send"]
            print(
                f"{name:8} {both:5.2f} core-seconds a GB, {both / bound['bound']:.1f} times the bound of"
                f" {bound['bound']:.2f}; hashed in {row['hash, seconds']:.1f} s, there in {row['send, seconds']:.1f} s"
            )
    return 0


async def wire(sent: AsyncIterator[pb.UpdateWeightsRequest]) -> AsyncIterator[pb.UpdateWeightsRequest]:
    """As messages arrive in another process."""
    async for message in sent:
        yield pb.UpdateWeightsRequest.FromString(message.SerializeToString())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="30 million parameters: a minute")
    parser.add_argument("--road", action="store_true", help="the way to the service's disk alone: a minute, no engine")
    options = parser.parse_args()
    raise SystemExit(asyncio.run(road() if options.road else main(options.small)))
