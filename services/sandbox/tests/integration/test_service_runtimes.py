"""Languages, runtimes, processes and files as a caller of the API sees them."""

from collections.abc import AsyncIterator

import grpc
import pytest
import pytest_asyncio

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import program_pb2 as pb
from ratchet_kit.client import channel
from sandbox_service.settings import Settings

from ..node import Stubs, serving

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stub() -> AsyncIterator[Stubs]:
    settings = Settings(port=0, lanes=1, http_port=0)
    async with serving(settings) as address:
        async with channel(address) as door:
            yield Stubs.of(door)


async def run(stub: Stubs, program: pb.Program) -> pb.Execution:
    return (await stub.programs.Execute(pb.ExecuteRequest(program=program))).execution


async def test_what_is_offered_is_what_runs(stub: Stubs) -> None:
    offered = await stub.programs.GetCapabilities(pb.GetCapabilitiesRequest())
    languages = {runtime.language for runtime in offered.runtimes}
    assert "python" in languages
    assert all(runtime.version for runtime in offered.runtimes)
    assert not languages & set(offered.missing_languages)
    if "bash" not in languages:
        pytest.skip("other languages can't run here: that takes namespaces")
    source = "cat in.txt | tr a-z A-Z > out.txt\nexit 3\n"
    asked = pb.Program(source=source, language="bash", files=[pb.File(name="in.txt", content=b"word")])
    asked.fetch_files.append("out.txt")
    execution = await run(stub, asked)
    assert (execution.verdict, execution.exit_status) == (verdict_pb2.VERDICT_RUNTIME_ERROR, 3), execution
    assert execution.runtime == "bash"
    assert [(file.name, file.content) for file in execution.files] == [("out.txt", b"WORD")]


async def test_what_is_missing_is_unimplemented(stub: Stubs) -> None:
    for program in (pb.Program(source="DISPLAY 1.", language="cobol"), pb.Program(source="1", runtime="cobol")):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await run(stub, program)
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "cobol" in (refused.value.details() or "")


async def test_many_files_there_and_back(stub: Stubs) -> None:
    files = [pb.File(name=f"d{i % 5}/f{i}", content=bytes([i]) * 60_000) for i in range(200)]
    program = pb.Program(source="", files=files, fetch_files=[file.name for file in files])
    execution = await run(stub, program)
    assert list(execution.files) == files
