"""Workspaces of a sandbox-service that only these tests use (`sandbox_target`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from ratchet_environments.workspaces import Workspaces
from ratchet_kit.client import wait_healthy


@asynccontextmanager
async def served(target: str) -> AsyncIterator[Workspaces]:
    """Once it answers. Skips the test where its workspaces hold no processes."""
    await wait_healthy(target, timedelta(seconds=60))
    workspaces = Workspaces(target, "me")
    async with workspaces.open() as workspace:
        if "private-root" not in workspace.made.isolation_layers:
            pytest.skip("this machine has no namespaces: task folders need L2")
    yield workspaces
