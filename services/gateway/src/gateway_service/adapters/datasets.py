"""DataSets of the registry, through gRPC."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.times import timestamp_to_proto

if TYPE_CHECKING:
    from ratchet.registry.v1.dataset_pb2_grpc import DatasetServiceAsyncStub


class GrpcDataSets:
    def __init__(self, stub: "DatasetServiceAsyncStub") -> None:
        self._stub = stub

    async def forget(self, units: Mapping[str, datetime]) -> None:
        forgotten = [pb.ForgottenUnit(unit=unit, forget_time=timestamp_to_proto(time)) for unit, time in units.items()]
        with rpc_errors():
            await self._stub.ForgetUnits(pb.ForgetUnitsRequest(units=forgotten))
