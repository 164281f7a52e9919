"""The page of a run: of one that goes on, has failed, learns by rewards, from examples or from pairs."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.common.v1 import problem_pb2, usage_pb2, verdict_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_reports import run_files, training
from ratchet_reports.errors import ReportError

PART = 7
"""Bytes of one answer: files come in several."""


class Runs:
    """What the client says of one run."""

    def __init__(self, run: pb.Run, steps: list[pb.Step], files: Mapping[str, str], checkpoints: list[pb.Checkpoint]):
        self._run, self._steps, self._checkpoints = run, steps, checkpoints
        self.kept: list[pb.TrainingSample] = []
        self._files = {name: text.encode() for name, text in files.items()}

    def get(self, id: str) -> pb.Run:
        return self._run

    def steps(self, id: str) -> list[pb.Step]:
        return self._steps

    def checkpoints(self, id: str) -> list[pb.Checkpoint]:
        return self._checkpoints

    def samples(self, id: str) -> Iterator[pb.TrainingSample]:
        return iter(self.kept)

    def files(self, id: str) -> list[pb.RunFile]:
        return [pb.RunFile(name=name, size_bytes=len(data)) for name, data in self._files.items()]

    def read_file(self, id: str, name: str, offset: int = 0) -> pb.ReadRunFileResponse:
        data = self._files[name]
        return pb.ReadRunFileResponse(data=data[offset : offset + PART], size_bytes=len(data))


def _client(run: pb.Run, steps: Any = (), files: Any = {}, checkpoints: Any = ()) -> Any:  # noqa: B006
    return SimpleNamespace(runs=Runs(run, list(steps), files, list(checkpoints)))


def _run(algorithm: str, state: str, **fields: Any) -> pb.Run:
    spec = pb.RunSpec(
        display_name="<my> run",
        algorithm=f"ALGORITHM_{algorithm}",  # type: ignore[arg-type]
        steps=4,
        problems=problem_pb2.ProblemSetRef(name="composed/train", digest="sha256:t"),
    )
    return pb.Run(id="run_1", spec=spec, state=f"STATE_{state}", **fields)  # type: ignore[arg-type]


def _steps(**metrics: float) -> list[pb.Step]:
    return [
        pb.Step(number=number, attempt=1, metrics={name: value * number for name, value in metrics.items()})
        for number in (1, 2, 3)
    ]


RL = {"reward_mean": 0.2, "kl": 0.01, "entropy": 0.3, "time_step_s": 4.0, "time_generate_s": 2.0, "time_update_s": 1.5}
KINDS: dict[str, tuple[pb.Run, list[pb.Step]]] = {
    "rl": (
        _run("GRPO", "RUNNING", step=3),
        _steps(
            **RL, validation_score=0.1, validation_score_low=0.05, validation_score_high=0.2, memory_bytes_max=2**30
        ),
    ),
    "sft": (_run("SFT", "SUCCEEDED", step=4), _steps(loss=0.5, validation_score=-0.4, time_step_s=3)),
    "dpo": (_run("DPO", "SUCCEEDED", step=4), _steps(loss=0.5, pair_accuracy=0.2, pair_margin=0.1)),
    "failed early": (_run("PPO", "FAILED", failure={"code": "INTERNAL", "message": "the job <died>"}), []),
    "queued": (_run("GRPO", "QUEUED"), []),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_made_of_every_run_and_loads_nothing(kind: str, tmp_path: Path) -> None:
    run, steps = KINDS[kind]
    run.notices.append(pb.Notice(step=2, guard="kl", message="KL is <high>"))
    training.write(training.gather(_client(run, steps), "run_1"), tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "&lt;my&gt; run" in page
    assert "KL is &lt;high&gt;" in page
    assert not re.search(r"<script|<link|<img|src=|url\(|@import", page.replace("url(#", ""))
    assert ("<svg" in page) == bool(steps)
    if kind == "failed early":
        assert "It failed at step 0 of 4: the job &lt;died&gt;" in page


def test_a_page_says_what_the_run_used_and_cost(tmp_path: Path) -> None:
    usage = usage_pb2.Usage(prompt_tokens=1200, completion_tokens=3400, cost=4.1, currency="EUR")
    usage.wall_time.FromSeconds(100)
    usage.wait_time.FromSeconds(31)
    run = _run("GRPO", "SUCCEEDED", usage=usage)
    training.write(training.gather(_client(run), "run_1"), tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    for said in ("1,200 tokens in, 3,400 out", "31% of 1 min 40 s waiting for samples", "4.10 EUR"):
        assert said in page


def test_a_page_has_config_samples_and_traces(tmp_path: Path) -> None:
    run, steps = KINDS["rl"]
    files = {
        "config/attempt-1.yaml": "old: 1",
        "config/attempt-2.yaml": "lr: <5e-5>",
        "profile/step2.json.gz": "x",
    }
    client = _client(run, steps, files)
    test = pb.FailedTest(test="f(<1>)", got="3", expected="2")
    client.runs.kept = [
        pb.TrainingSample(
            step=3,
            problem_id="p1",
            prompt="Add <two>",
            completion="a + b",
            verdict=verdict_pb2.VERDICT_FAILED,
            reward=0.25,
            components={"tests": 0.2, "brevity": 0.7},
            failed_tests=[test],
            held_out_failed=2,
        ),
        pb.TrainingSample(step=2, problem_id="older"),
    ]
    training.write(training.gather(client, "run_1"), tmp_path / "run.html")
    page = (tmp_path / "run.html").read_text()
    assert "p1: FAILED, reward 0.250 (brevity 0.7, tests 0.2)" in page
    assert "f(&lt;1&gt;): 3, not 2; 2 held-out tests failed" in page
    assert "older" not in page
    assert "lr: &lt;5e-5&gt;" in page
    assert "old: 1" not in page
    assert "Add &lt;two&gt;" in page
    assert "profile/step2.json.gz" in page


def test_the_seconds_of_a_step_add_up() -> None:
    step = pb.Step(metrics={"time_step_s": 10, "time_generate_s": 5, "time_update_s": 3, "time_checkpoint_s": 1})
    assert training.parts(step) == pytest.approx(
        {"generation and judging": 5, "update": 3, "checkpoint": 1, training.OTHER: 1}
    )
    assert training.parts(pb.Step(metrics={"loss": 1})) == {}


def test_a_config_is_of_the_last_attempt_unless_another_is_asked_for() -> None:
    files = {"config/attempt-9.yaml": "nine: of nine", "config/attempt-10.yaml": "ten: of ten"}
    client = _client(pb.Run(), files=files)
    assert run_files.config(client, "run_1") == "ten: of ten"
    assert run_files.config(client, "run_1", 9) == "nine: of nine"
    with pytest.raises(ReportError, match="no config of attempt 3"):
        run_files.config(client, "run_1", 3)
    with pytest.raises(ReportError, match="no config yet"):
        run_files.config(_client(pb.Run()), "run_1")


def test_files_are_written_under_their_names_and_nowhere_else(tmp_path: Path) -> None:
    client = _client(pb.Run(), files={"profile/a.json.gz": "trace", "../../evil": "x"})
    (path,) = run_files.download(client, "run_1", ["profile/"], tmp_path)
    assert path == tmp_path / "profile/a.json.gz"
    assert path.read_text() == "trace"
    with pytest.raises(ReportError, match="outside"):
        list(run_files.download(client, "run_1", [".."], tmp_path))
    with pytest.raises(ReportError, match="no file config/"):
        list(run_files.download(client, "run_1", ["config/"], tmp_path))
