import asyncio
import sys

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from ratchet_testing import serving

# Two services, the first of which calls the second; a process of its own, since a process has one tracer provider.
PROGRAM = """
import asyncio, sys
from ratchet_kit import traces
from ratchet_kit.client import channel
from ratchet_kit.errors import NotFound
from ratchet_kit.settings import ServiceSettings
from ratchet_testing import serving
from ratchet_testing.echo import adding, method

async def fail(request, context):
    raise NotFound("nothing here")

async def stream(request, context):
    yield b"1"
    yield b"2"

async def main():
    stop = traces.configure("demo", sys.argv[1])
    async with serving(adding(unary_unary=fail, unary_stream=stream)) as back, channel(back) as to_back:
        async def ask(request, context):
            replies = [reply async for reply in method(to_back, "unary_stream")(request)]
            assert replies == [b"1", b"2"], replies
            return await method(to_back, "unary_unary")(request)
        async with serving(adding(unary_unary=ask)) as front, channel(front) as to_front:
            try:
                await method(to_front, "unary_unary")(b"")
            except Exception as error:
                print(error.code().name)
    stop()

asyncio.run(main())
"""


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.spans = []

    async def Export(self, request, context):
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans += scope.spans
        return trace_service_pb2.ExportTraceServiceResponse()


async def test_a_trace_goes_from_service_to_service():
    collector = Collector()

    def add(server) -> list[str]:
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)
        return []

    async with serving(add, wrappers=()) as target:  # a collector is no service of ours
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, f"http://{target}"),
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert out.decode().split() == ["INTERNAL"]  # a service's NOT_FOUND is not its caller's
    assert len({span.trace_id for span in collector.spans}) == 1
    # client and server of: the front's call, the stream and the failing call that it makes
    assert len(collector.spans) == 6
