"""Every request of the SDK is one that the protos offer over HTTP."""

from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.calls import Request, request_of


def test_the_protos_say_where_a_message_goes() -> None:
    assert request_of(trainer_pb2.GetRunRequest(id="run_1")) == Request("GET", "/api/v1/runs/run_1")
    assert request_of(registry_pb2.ListVersionsRequest(model="m", page_size=2)) == Request(
        "GET", "/api/v1/models/m/versions", query={"page_size": 2}
    )
    assert request_of(trainer_pb2.CancelRunRequest(id="a b")) == Request("POST", "/api/v1/runs/a%20b/cancel", body={})
