"""The caller's side of a workspace, without a node."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

from ratchet.sandbox.v1 import workspace_pb2 as pb
from ratchet.sandbox.v1 import workspace_pb2_grpc
from ratchet_environments.workspaces import Workspaces
from ratchet_testing import serving


class Node(workspace_pb2_grpc.WorkspaceServiceServicer):
    def __init__(self) -> None:
        self.left: list[float] = []

    async def CreateWorkspace(self, request: Any, context: Any) -> pb.CreateWorkspaceResponse:
        return pb.CreateWorkspaceResponse(workspace=pb.Workspace(id="ws"))

    async def DeleteWorkspace(self, request: Any, context: Any) -> pb.DeleteWorkspaceResponse:
        return pb.DeleteWorkspaceResponse()

    async def Exec(self, requests: Any, context: Any) -> AsyncIterator[pb.ExecResponse]:
        self.left.append(context.time_remaining())
        yield pb.ExecResponse(exit=pb.ExecExit(end=pb.ExecExit.END_EXITED))


async def test_a_program_may_run_as_long_as_a_task_may_last() -> None:
    """Else an agent of more than an hour was the platform's fault, however often it was tried again."""
    node = Node()

    def add(server: Any) -> list[str]:
        workspace_pb2_grpc.add_WorkspaceServiceServicer_to_server(node, server)
        return ["ratchet.sandbox.v1.WorkspaceService"]

    async with serving(add) as target, Workspaces(target).open() as workspace:
        await workspace.exec("true", wall_time=timedelta(hours=24))
    assert node.left[0] > timedelta(hours=24).total_seconds()
