"""LangChain's, LiteLLM's and Anthropic's clients, unmodified, against /v1 behind a socket: `make test-clients`.

Each runs its suite in an environment of their own: LiteLLM takes no openai of version 3, which is the one that
test_openai_client.py uses.
"""

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.errors import ResourceExhausted

from ..world import ADMIN_KEY, World

PYTHON = Path(sys.prefix).parent / "clients" / "bin" / "python"
SUITES = Path(__file__).parent / "clients"
NO_INTERNET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LANGSMITH_TRACING": "false"}


@pytest.mark.clients
@pytest.mark.integration
@pytest.mark.parametrize("client", ["langchain", "litellm", "anthropic"])
async def test_a_client_passes_its_suite(world: World, url: str, client: str) -> None:
    if not PYTHON.exists():
        pytest.skip("needs the environment of the clients: scripts/setup.sh clients")

    def is_busy(name: str) -> None:
        if name == "starter@3":
            raise ResourceExhausted("too many requests wait", timedelta(seconds=3))

    world.engine.before_answer = is_busy
    world.engine.breaks_off_after = {"starter@2": 2}
    one_loop = ("-o", "asyncio_default_test_loop_scope=session")  # clients keep connections from test to test
    options = ("-q", "-p", "no:cacheprovider", *one_loop, "--confcutdir", SUITES)
    running = await asyncio.create_subprocess_exec(
        *(PYTHON, "-m", "pytest", *options, SUITES / f"{client}_suite.py"),
        env=os.environ | NO_INTERNET | {"CLIENT_URL": url, "CLIENT_KEY": ADMIN_KEY},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await running.communicate()
    assert running.returncode == 0, said.decode()
    assert client == "anthropic" or any('"said"' in (one.json_schema or "") for one in world.engine.samplings)
