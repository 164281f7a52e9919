"""One executor with two lanes for all modules that only grade."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio

from sandbox_service.adapters.zygotes import ZygoteExecutor, ZygoteOptions
from sandbox_service.domain.sandbox import Sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def executor() -> AsyncIterator[ZygoteExecutor]:
    options = ZygoteOptions(lanes=2, idle_extra=timedelta(seconds=0.5))
    async with ZygoteExecutor(options) as executor:
        yield executor


@pytest.fixture
def sandbox(executor: ZygoteExecutor) -> Sandbox:
    return Sandbox(executor, queue_limit=1000)
