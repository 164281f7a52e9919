"""The service as its users run it, with a real vLLM: one process tree, killed in all its parts."""

import copy
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import chat_pb2, generation_pb2
from ratchet.rollout.v1 import rollout_pb2 as pb
from ratchet.rollout.v1 import rollout_pb2_grpc
from ratchet_kit import policy_id, service_auth
from ratchet_policies import tensor_changes
from ratchet_protos.access import with_token

pytestmark = pytest.mark.vllm

PROMPT = [1, *range(20, 40)]


class Service:
    """`python -m rollout_service.main` on a port and folder of its own."""

    def __init__(self, work: Path, port: int) -> None:
        self.work = work
        self.log = work / "service.log"
        self.temporary = Path(tempfile.mkdtemp(prefix="rollout-"))  # a short path: sockets lie below it
        self._environment = os.environ | {
            "TMPDIR": str(self.temporary),
            "RATCHET_ROLLOUT_WORK_DIR": str(work),
            "RATCHET_ROLLOUT_PORT": str(port),
            "RATCHET_SOURCES": "/",
            "RATCHET_ROLLOUT_KV_CACHE_BYTES": str(64 << 20),
            "RATCHET_ROLLOUT_THREADS": "1",
            "RATCHET_ROLLOUT_MAX_ENGINE_SILENCE": "PT5S",
            "RATCHET_ROLLOUT_MAX_ENGINE_DEATHS": "10",  # these tests end it seven times
        }
        channel = with_token(grpc.insecure_channel(f"127.0.0.1:{port}"), service_auth.token())
        self.stub = rollout_pb2_grpc.RolloutServiceStub(channel)
        self.start()

    def start(self) -> None:
        with self.log.open("a") as log:
            command = [sys.executable, "-m", "rollout_service.main"]
            self.process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)

    def tree(self) -> dict[int, str]:
        """All processes below the service, by pid."""
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], stdout=subprocess.PIPE, text=True, check=True)
        rows = [line.split(None, 2) for line in listed.stdout.splitlines()]
        found, parents = dict[int, str](), [self.process.pid]
        for parent in parents:
            for pid, of, args in rows:
                if int(of) == parent:
                    parents.append(int(pid))
                    found[int(pid)] = args
        return found

    def pid_of(self, title: str) -> int:
        (pid,) = [pid for pid, args in self.tree().items() if args.startswith(title)]
        return pid

    def generate(self, prompt: Sequence[int] = PROMPT, **sampling: Any) -> pb.GenerateResponse:
        """Retries while the policy is not there, as clients do."""
        defaults = {"max_tokens": 24, "logprobs": True, "ignore_eos": True}
        request = pb.GenerateRequest(
            policy="p",
            prompt=generation_pb2.Prompt(tokens=generation_pb2.Tokens(ids=prompt)),
            sampling=generation_pb2.SamplingParams(**(defaults | sampling)),
        )
        end = time.monotonic() + 240
        while True:
            try:
                return self.stub.Generate(request, wait_for_ready=True, timeout=240)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def load(self, source: Path, name: str = "p") -> pb.Policy:
        self.stub.LoadPolicy(
            pb.LoadPolicyRequest(request_id=name, name=name, source_uri=str(source)), wait_for_ready=True, timeout=60
        )
        while True:
            policy = self.stub.GetPolicy(pb.GetPolicyRequest(name=name)).policy
            if policy.state != pb.Policy.STATE_LOADING:
                return policy
            time.sleep(0.1)

    def update(self, model: Any, base: Sequence[policy_id.Tensor] = ()) -> str:
        """Sends the weights of a transformers model, or what changed of those of `base`, and returns their id."""
        tensors = tensors_of(model)
        announced = policy_id.compute(tensors)
        before = {tensor.name: tensor.data for tensor in base}

        def messages() -> Iterator[pb.UpdateWeightsRequest]:
            header = pb.UpdateWeightsHeader(policy="p", policy_id=announced)
            if base:
                header.base_policy_id = policy_id.compute(base)
            yield pb.UpdateWeightsRequest(header=header)
            for name, dtype, shape, data in tensors:
                changes = tensor_changes.encode(before[name], data, 4) if base else None
                sha256 = hashlib.sha256(data).hexdigest()
                yield pb.UpdateWeightsRequest(
                    tensor=pb.TensorHeader(
                        name=name, dtype=dtype, shape=shape, sha256=sha256, changes=changes is not None
                    )
                )
                sent = data if changes is None else changes
                for start in range(0, len(sent), 1 << 16):
                    yield pb.UpdateWeightsRequest(chunk=bytes(sent[start : start + (1 << 16)]))

        response = self.stub.UpdateWeights(messages(), timeout=240)
        assert response.policy.policy_id == announced
        assert response.probe_error < 1e-5
        return announced


def tensors_of(model: Any) -> list[policy_id.Tensor]:
    return [
        policy_id.Tensor(name, "F32", list(tensor.shape), tensor.contiguous().numpy().tobytes())
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight" or not model.config.tie_word_embeddings
    ]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    pytest.importorskip("vllm", reason="needs the rollout environment")
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service = Service(tmp_path_factory.mktemp("rollout"), port)
    yield service
    tree = service.tree()
    service.process.terminate()
    assert service.process.wait(60) == 0
    assert not [args for pid, args in tree.items() if Path(f"/proc/{pid}").exists()]
    assert list((service.work / "models").iterdir()) == []
    assert list((service.work / "policies").iterdir()) == []
    assert os.listdir(service.temporary) == []
    service.temporary.rmdir()


@pytest.fixture(scope="module")
def model(service: Service, make_model: Callable[..., Path]) -> Any:
    """The loaded policy as a transformers model, whose weights the tests move and send."""
    transformers = pytest.importorskip("transformers")
    folder = make_model(tied=True)
    policy = service.load(folder)
    assert policy.state == pb.Policy.STATE_READY, policy.failure
    assert policy.policy_id == policy_id.of_folder(folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder)


def nudge(model: Any, share: float = 1) -> None:
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 1e-3 * (torch.rand_like(parameter) < share))


def worst_difference(model: Any, response: pb.GenerateResponse) -> float:
    """Between the log-probs of a completion and those that transformers gives to the same tokens."""
    import torch

    (completion,) = response.completions
    with torch.no_grad():
        log_probs = model(torch.tensor([PROMPT + list(completion.token_ids)])).logits[0].log_softmax(-1)
    start = len(PROMPT) - 1
    own = [float(log_probs[start + index, token]) for index, token in enumerate(completion.token_ids)]
    return max(abs(a - b) for a, b in zip(own, completion.log_probs, strict=True))


def test_log_probs_are_those_of_the_model(service: Service, model: Any) -> None:
    assert worst_difference(model, service.generate()) < 1e-3


def test_log_probs_are_those_of_the_new_weights_after_each_update(service: Service, model: Any) -> None:
    for _ in range(3):
        nudge(model)
        announced = service.update(model)
        response = service.generate()
        assert response.policy_id == announced
        assert worst_difference(model, response) < 1e-3


def test_more_prompts_at_a_time_than_a_pass_takes_have_seeds(service: Service, model: Any) -> None:
    """Together 4,000 tokens, of which some would be read in parts."""
    rows = [[1, *range(20, 120), row] for row in range(20, 60)]

    def sample(row: int) -> list[list[int]]:
        completions = service.generate(prompt=rows[row], n=4, seed=row, max_tokens=8).completions
        return [list(completion.token_ids) for completion in completions]

    with ThreadPoolExecutor(len(rows)) as pool:
        together = list(pool.map(sample, range(len(rows))))
    assert [sample(row) for row in (0, 20, 39)] == [together[row] for row in (0, 20, 39)]


def test_greedy_repeats_itself_and_a_seed_does(service: Service, model: Any) -> None:
    greedy = [list(service.generate(temperature=0).completions[0].token_ids) for _ in range(2)]
    seeded = [list(service.generate(seed=5).completions[0].token_ids) for _ in range(2)]
    free = [list(service.generate().completions[0].token_ids) for _ in range(2)]
    assert greedy[0] == greedy[1]
    assert seeded[0] == seeded[1]
    assert free[0] != free[1]


def test_a_chat_is_put_by_the_template_of_its_request(service: Service, model: Any) -> None:
    said = chat_pb2.ChatMessage(role="user", content=[chat_pb2.ContentPart(text="hi")])

    def read(template: str) -> list[int]:
        request = pb.GenerateRequest(policy="p", prompt=generation_pb2.Prompt(chat=chat_pb2.Chat(messages=[said])))
        request.chat_template = template
        request.sampling.max_tokens = 1
        return list(service.stub.Generate(request).prompt_token_ids)

    once, twice = (read("{{ messages[0]['content'] }}" * times) for times in (1, 2))
    assert twice == once * 2
    assert read("") not in (once, twice)
    with pytest.raises(grpc.RpcError, match="the chat template refuses them: no users"):
        read("{{ raise_exception('no users') }}")
    with pytest.raises(grpc.RpcError, match="the chat template refuses them: it takes more than 3 s"):
        read("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}")
    assert read("{{ messages[0]['content'] }}") == once, "the engine goes on"


def test_a_chat_goes_on_from_its_tokens(service: Service, model: Any) -> None:
    """Whatever they are: no text makes the engine sample anew what was sampled."""
    said = [
        chat_pb2.ChatMessage(role=role, content=[chat_pb2.ContentPart(text=text)])
        for role, text in (("user", "hi"), ("assistant", "yes"), ("user", "more"))
    ]
    template = "{% for m in messages %}{{ m.content }}{{ eos_token if m.role == 'assistant' }}{% endfor %}"

    def put(**begun: Any) -> pb.GenerateRequest:
        chat = chat_pb2.Chat(messages=said, begun=chat_pb2.Begun(**begun) if begun else None)
        sampling = generation_pb2.SamplingParams(max_tokens=3, logprobs=True)
        prompt = generation_pb2.Prompt(chat=chat)
        return pb.GenerateRequest(policy="p", prompt=prompt, sampling=sampling, chat_template=template)

    rendered = list(service.stub.Generate(put()).prompt_token_ids)
    asked = [9, 8, 7, 6]  # a cut answer, which the template's end follows
    pieces = list(service.stub.StreamGenerate(pb.StreamGenerateRequest(request=put(token_ids=asked, messages=2))))
    prompt = list(pieces[0].prompt_token_ids)
    assert prompt[:4] == asked
    assert rendered[-len(prompt[4:]) :] == prompt[4:]
    ended = [*asked, prompt[4]]
    assert list(service.stub.Generate(put(token_ids=ended, messages=2)).prompt_token_ids) == prompt
    for begun, wrong in (
        ({"token_ids": [1], "messages": 3}, "fewer than there are messages"),
        ({"token_ids": [1], "messages": 1}, "must count up to an answer"),
        ({"messages": 2}, "at least one token"),
        ({"token_ids": [1 << 20], "messages": 2}, "not in the model's vocabulary"),
    ):
        with pytest.raises(grpc.RpcError, match=wrong):
            service.stub.Generate(put(**begun))


def test_a_text_that_is_far_too_long_is_refused_before_its_tokens_are_counted(service: Service, model: Any) -> None:
    """For 15 MiB that took 43 s, in which the engine answered nobody."""
    with pytest.raises(grpc.RpcError) as refused:
        service.stub.Generate(pb.GenerateRequest(policy="p", prompt=generation_pb2.Prompt(text="a" * (15 << 20))))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert re.search(r"maximum context length is \d+ tokens, .* the prompt has at least \d+", refused.value.details())


def test_weights_that_do_not_fit_fail_the_policy_which_can_be_loaded_anew(
    service: Service, make_model: Callable[..., Path]
) -> None:
    folder = make_model(tied=False)
    assert service.load(folder, "other").state == pb.Policy.STATE_READY
    data = bytes(8)
    wrong = [("model.norm.weight", "F32", [2], data)]

    def messages() -> Iterator[pb.UpdateWeightsRequest]:
        header = pb.UpdateWeightsHeader(policy="other", policy_id=policy_id.compute(wrong))
        yield pb.UpdateWeightsRequest(header=header)
        sha256 = hashlib.sha256(data).hexdigest()
        yield pb.UpdateWeightsRequest(
            tensor=pb.TensorHeader(name="model.norm.weight", dtype="F32", shape=[2], sha256=sha256)
        )
        yield pb.UpdateWeightsRequest(chunk=data)

    with pytest.raises(grpc.RpcError) as refused:
        service.stub.UpdateWeights(messages(), timeout=240)
    assert refused.value.code() is grpc.StatusCode.DATA_LOSS
    assert service.stub.GetPolicy(pb.GetPolicyRequest(name="other")).policy.state == pb.Policy.STATE_FAILED
    service.stub.UnloadPolicy(pb.UnloadPolicyRequest(name="other"))


@pytest.mark.parametrize("title", ["VLLM::EngineCore", "ratchet-engine p", "ratchet-engine fork server"])
def test_a_killed_engine_comes_back_with_the_last_weights(service: Service, model: Any, title: str) -> None:
    nudge(model)
    announced = service.update(model)
    os.kill(service.pid_of(title), signal.SIGKILL)
    time.sleep(0.3)
    response = service.generate()
    assert response.policy_id == announced
    assert worst_difference(model, response) < 1e-3


def test_what_changed_is_applied_in_place(service: Service, model: Any) -> None:
    service.update(model)
    for _ in range(2):
        before = tensors_of(model)
        nudge(model, share=0.02)
        announced = service.update(model, before)
        response = service.generate()
        assert response.policy_id == announced
        assert worst_difference(model, response) < 1e-3
    (*_, last) = [line for line in service.log.read_text().splitlines() if "weights.replaced" in line]
    assert json.loads(last)["in_place"]


@pytest.mark.parametrize("seconds", [0.1, 0.3])
def test_an_engine_that_is_killed_amid_changes_has_the_old_weights_or_the_new(
    service: Service, model: Any, seconds: float
) -> None:
    old = service.update(model)
    before, previous = tensors_of(model), copy.deepcopy(model)
    nudge(model, share=0.02)
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(service.update, model, before)
        time.sleep(seconds)
        os.kill(service.pid_of("VLLM::EngineCore"), signal.SIGKILL)
        error = sending.exception(240)
    assert error is None or (isinstance(error, grpc.RpcError) and error.code() is grpc.StatusCode.UNAVAILABLE)
    response = service.generate()
    assert response.policy_id in (old, policy_id.compute(tensors_of(model)))
    assert worst_difference(previous if response.policy_id == old else model, response) < 1e-3
    if response.policy_id == old:
        service.update(model, before)
        assert worst_difference(model, service.generate()) < 1e-3


@pytest.mark.parametrize("title", ["VLLM::EngineCore", "ratchet-engine p"])
def test_an_engine_that_hangs_is_ended_and_comes_back(service: Service, model: Any, title: str) -> None:
    nudge(model)
    announced = service.update(model)
    hung = service.pid_of(title)
    os.kill(hung, signal.SIGSTOP)
    response = service.generate()
    assert response.policy_id == announced
    assert worst_difference(model, response) < 1e-3
    assert not Path(f"/proc/{hung}").exists()


def test_a_killed_service_comes_back_with_the_last_weights(service: Service, model: Any) -> None:
    nudge(model)
    announced = service.update(model)
    tree = service.tree()
    service.process.kill()
    service.process.wait()
    service.start()
    response = service.generate()
    assert response.policy_id == announced
    assert worst_difference(model, response) < 1e-3
    assert not [args for pid, args in tree.items() if Path(f"/proc/{pid}").exists()]
