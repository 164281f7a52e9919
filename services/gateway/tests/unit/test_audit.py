"""The audit log, through both doors: what changed, by whom, and how it ended."""

from google.protobuf import descriptor_pool

from gateway_service.audited import changes
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.errors import NotFound

from ..world import NoStub, World


class Trainer(NoStub):
    async def CreateRun(self, request):
        return trainer_pb2.CreateRunResponse(run=trainer_pb2.Run(id="run_1"))

    async def CancelRun(self, request):
        raise NotFound(f"run {request.id} does not exist")

    async def GetRun(self, request):
        return trainer_pb2.GetRunResponse(run=trainer_pb2.Run(id=request.id))


def test_changes_are_what_administrators_change() -> None:
    def is_change(name: str) -> bool:
        return changes(descriptor_pool.Default().FindMethodByName(f"ratchet.{name}"))

    assert all(
        map(
            is_change,
            [
                "trainer.v1.TrainerService.CreateRun",
                "registry.v1.RegistryService.SetAlias",
                "gateway.v1.KeyService.RevokeKey",
                "registry.v1.DatasetService.DeleteDataset",
            ],
        )
    )
    assert not any(
        map(
            is_change,
            [
                "trainer.v1.TrainerService.GetRun",
                "eval.v1.EvalService.CompareEvaluations",
                "gateway.v1.GatewayService.Complete",
                "gateway.v1.GatewayService.CreateFeedback",
                "sandbox.v1.ProgramService.Execute",
                "registry.v1.DatasetService.WriteDataset",
            ],
        )
    )


async def test_what_is_asked_over_rest_is_on_record(world: World) -> None:
    world.stubs |= {"ratchet.trainer.v1.TrainerService": Trainer()}
    await world.start()
    async with world.http() as http:
        await http.post("/api/v1/runs", json={"request_id": "r"}, headers={"x-request-id": "req_mine"})
        await http.post("/api/v1/runs/run_9/cancel", json={})
        await http.get("/api/v1/runs/run_1")
        made = (await http.post("/api/v1/keys", json={"name": "app"})).json()["key"]["id"]
        await http.delete(f"/api/v1/keys/{made}")
        entries = (await http.get("/api/v1/audit")).json()["entries"]
        by_nobody = (await http.get("/api/v1/audit", params={"actor": made})).json()
        app = await http.get("/api/v1/audit", headers={"Authorization": "Bearer rk_none"})
    assert [(entry["method"], entry["resource"], entry["code"]) for entry in entries] == [
        ("KeyService.RevokeKey", made, "OK"),
        ("KeyService.CreateKey", made, "OK"),
        ("TrainerService.CancelRun", "run_9", "NOT_FOUND"),
        ("TrainerService.CreateRun", "run_1", "OK"),
    ]
    assert {entry["actor_name"] for entry in entries} == {"bootstrap"}
    assert entries[-1]["request_id"] == "req_mine"
    assert by_nobody["entries"] == []
    assert app.status_code == 401


async def test_a_log_that_is_away_stops_nobody(world: World) -> None:
    async def fails(entry: object) -> None:
        raise ConnectionError("no database")

    world.audit.add = fails  # type: ignore[method-assign]
    async with world.http() as http:
        made = await http.post("/api/v1/keys", json={"name": "app"})
    assert made.status_code == 200


async def test_an_entry_can_be_stored_whatever_the_caller_named(world: World) -> None:
    await world.gateway.servicers.audit.record("KeyService.RevokeKey", "key\x00" + "9" * 10_000, "NOT_FOUND", "req_1")
    (entry,) = world.audit.entries
    assert (entry.resource[:4], len(entry.resource.encode())) == ("key\ufffd", 200)
