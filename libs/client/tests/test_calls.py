"""Every request of the SDK is one that the protos offer over HTTP."""

import pytest

from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError
from ratchet_client.calls import Request, request_of


def test_the_protos_say_where_a_message_goes() -> None:
    assert request_of(trainer_pb2.GetRunRequest(id="run_1")) == Request("GET", "/api/v1/runs/run_1")
    assert request_of(registry_pb2.ListVersionsRequest(model="m", page_size=2)) == Request(
        "GET", "/api/v1/models/m/versions", query={"page_size": 2}
    )
    assert request_of(trainer_pb2.CancelRunRequest(id="a b")) == Request("POST", "/api/v1/runs/a%20b/cancel", body={})
    assert request_of(trainer_pb2.ResumeRunRequest(id="r")) == Request("POST", "/api/v1/runs/r/resume", body={})


@pytest.mark.parametrize("name", ["", ".", "..", "starter/versions/1", "/"])
def test_a_name_that_would_make_another_path_is_refused(name: str) -> None:
    """DELETE /api/v1/models/starter%2Fversions%2F1 deletes a version: the gateway sees the slashes."""
    with pytest.raises(ApiError, match="name must be a name or an id") as caught:
        request_of(registry_pb2.DeleteModelRequest(name=name))
    assert caught.value.code == "INVALID_ARGUMENT"
