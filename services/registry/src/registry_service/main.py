"""Builds registry-service and runs it: `python -m registry_service.main`."""

from collections.abc import Sequence

import grpc

from ratchet.registry.v1 import registry_pb2, registry_pb2_grpc
from ratchet_kit import client, server, sql
from ratchet_kit.times import SystemClock
from registry_service.adapters.artifacts import FsspecArtifactStore
from registry_service.adapters.evaluations import GrpcEvaluationSource
from registry_service.adapters.sql import SqlModelStore
from registry_service.domain.aliases import Aliases
from registry_service.domain.catalog import Catalog
from registry_service.domain.gatekeeping import Gates
from registry_service.servicer import RegistryServicer
from registry_service.settings import Settings
from registry_service.sweeper import Sweeper

SERVICE = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].full_name


async def run(settings: Settings) -> None:
    await sql.migrate(settings.database_url, "registry_service")
    engine = sql.create_engine(settings.database_url)
    try:
        async with client.channel(settings.eval_target) as evaluations:
            clock = SystemClock()
            store = SqlModelStore(engine)
            catalog = Catalog(store, FsspecArtifactStore(f"{settings.artifact_url.rstrip('/')}/models"), clock)
            gates = Gates(store, GrpcEvaluationSource(evaluations), clock)
            servicer = RegistryServicer(catalog, Aliases(store, clock), gates)

            def add(to: grpc.aio.Server) -> Sequence[str]:
                registry_pb2_grpc.add_RegistryServiceServicer_to_server(servicer, to)
                return [SERVICE]

            sweeper = Sweeper(catalog, settings.sweep_interval, settings.upload_expiry)
            await server.serve(settings, "registry", add, background=[sweeper.run])
    finally:
        await engine.dispose()


def main() -> None:
    server.launch("registry", Settings(), run)


if __name__ == "__main__":
    main()
