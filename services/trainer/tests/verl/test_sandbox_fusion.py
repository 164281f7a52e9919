"""verl's own code rewards, as a verl run calls them, against the sandbox's door for SandboxFusion's clients."""

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

import requests
from verl.utils.reward_score import default_compute_score

pytestmark = pytest.mark.verl

PYTHON = Path(__file__).parents[4] / ".venvs" / "light" / "bin" / "python"
SUM = "Thinking.\n```python\na, b = map(int, input().split())\nprint(a + b)\n```"
CASES = json.dumps({"inputs": [f"{i} 2\n" for i in range(8)], "outputs": [f"{i + 2}\n" for i in range(8)]})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"RATCHET_SANDBOX_PORT": "0", "RATCHET_SANDBOX_HTTP_PORT": str(port), "RATCHET_SANDBOX_LANES": "2"}
    process = subprocess.Popen([PYTHON, "-m", "sandbox_service.main"], env=os.environ | settings)
    try:
        for _ in range(300):
            assert process.poll() is None, "the sandbox ended"
            try:
                assert requests.get(f"http://127.0.0.1:{port}/v1/ping", timeout=5).json() == "pong"
                break
            except requests.ConnectionError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/run_code"
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.parametrize("source", ["codecontests", "apps", "codeforces", "taco"])
@pytest.mark.parametrize(
    ("answer", "score"),
    [(SUM, 1.0), (SUM.replace("a + b", "a * b"), 0.125), ("no code", 0.0), (SUM.replace("print", "exit"), 0.0)],
)
def test_the_score_of_a_run(url: str, source: str, answer: str, score: float) -> None:
    got = default_compute_score(
        source,
        answer,
        CASES,
        sandbox_fusion_url=url,
        concurrent_semaphore=threading.Semaphore(64),
        memory_limit_mb=1024,
    )
    assert got == pytest.approx(score)
