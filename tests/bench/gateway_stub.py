"""What stands behind the gateways that are measured: an engine that answers at once.

`python -m tests.bench.gateway_stub GRPC_PORT HTTP_PORT`: over gRPC as rollout-service and registry, with one model
"stub"; over HTTP as OpenAI's API. Every answer is made before the first request comes.
"""

import asyncio
import json
import sys
from typing import Any

import grpc
import httptools
import uvloop

from ratchet.common.v1 import generation_pb2, model_pb2, node_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.rollout.v1 import rollout_pb2
from ratchet_kit.times import SystemClock, timestamp_to_proto

TOKENS = 32
WORD = "word "
POLICY_ID = "sha256:" + "0" * 64


def grpc_answers() -> dict[str, list[bytes]]:
    """The replies to each method, as bytes; a stream has several."""
    now = timestamp_to_proto(SystemClock().now())
    ref = model_pb2.VersionRef(model="stub", number=1)
    policy = rollout_pb2.Policy(name="stub@1", state=rollout_pb2.Policy.STATE_READY, policy_id=POLICY_ID)
    whole = generation_pb2.Completion(
        token_ids=range(TOKENS), text=WORD * TOKENS, finish_reason=generation_pb2.FINISH_REASON_LENGTH
    )
    pieces = [generation_pb2.Completion(token_ids=[index], text=WORD) for index in range(TOKENS)]
    pieces[-1].finish_reason = generation_pb2.FINISH_REASON_LENGTH
    model = registry_pb2.Model(name="stub", aliases={"champion": 1}, create_time=now)
    version = registry_pb2.Version(
        ref=ref, state=registry_pb2.Version.STATE_READY, artifact_uri="/stub", policy_id=POLICY_ID, create_time=now
    )
    engine = node_pb2.Node.Engine(policy="stub@1", state=node_pb2.Node.Engine.STATE_READY, policy_id=POLICY_ID)
    node = node_pb2.Node(state=node_pb2.Node.STATE_SERVING, capacity=1, engines=[engine])
    replies: dict[str, list[Any]] = {
        "GetNode": [rollout_pb2.GetNodeResponse(node=node)],
        "LoadPolicy": [rollout_pb2.LoadPolicyResponse(policy=policy)],
        "GetPolicy": [rollout_pb2.GetPolicyResponse(policy=policy)],
        "Generate": [
            rollout_pb2.GenerateResponse(completions=[whole], policy_id=POLICY_ID, prompt_token_ids=range(16))
        ],
        "StreamGenerate": [
            rollout_pb2.StreamGenerateResponse(delta=piece, policy_id=POLICY_ID, prompt_tokens=0 if index else 16)
            for index, piece in enumerate(pieces)
        ],
        "GetModel": [registry_pb2.GetModelResponse(model=model)],
        "ListModels": [registry_pb2.ListModelsResponse(models=[model])],
        "GetVersion": [registry_pb2.GetVersionResponse(version=version)],
    }
    return {name: [reply.SerializeToString() for reply in each] for name, each in replies.items()}


class Engine(grpc.GenericRpcHandler):
    """Answers by the method's name alone, without reading the request."""

    def __init__(self) -> None:
        self._answers = grpc_answers()

    def service(self, handler_call_details: Any) -> Any:
        replies = self._answers[handler_call_details.method.rsplit("/", 1)[1]]

        async def one(request: bytes, context: Any) -> bytes:
            return replies[0]

        async def several(request: bytes, context: Any) -> Any:
            for reply in replies:
                yield reply

        if len(replies) == 1:
            return grpc.unary_unary_rpc_method_handler(one)
        return grpc.unary_stream_rpc_method_handler(several)


def _http_answers() -> tuple[bytes, bytes]:
    usage = {"prompt_tokens": 16, "completion_tokens": TOKENS, "total_tokens": 16 + TOKENS}
    head = {"id": "chatcmpl-stub", "created": 1, "model": "stub"}
    choice = {"index": 0, "message": {"role": "assistant", "content": WORD * TOKENS}, "finish_reason": "length"}
    body = json.dumps(head | {"object": "chat.completion", "choices": [choice], "usage": usage}).encode()
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    chunks = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    for index in range(TOKENS):
        delta = {"content": WORD} | ({} if index else {"role": "assistant"})
        reason = "length" if index == TOKENS - 1 else None
        piece = head | {
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        chunks += _chunk(f"data: {json.dumps(piece)}\n\n".encode())
    return whole, chunks + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class OpenAi(asyncio.Protocol):
    """Answers each HTTP request; a body with "stream": true gets the stream."""

    whole, chunks = _http_answers()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        streams = b'"stream":true' in self._body.replace(b" ", b"")
        self._body = b""
        self._transport.write(self.chunks if streams else self.whole)


async def main(grpc_port: int, http_port: int) -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Engine(),))
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()
    http = await asyncio.get_running_loop().create_server(OpenAi, "127.0.0.1", http_port, backlog=1024)
    print("ready", flush=True)
    await asyncio.gather(server.wait_for_termination(), http.serve_forever())


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
