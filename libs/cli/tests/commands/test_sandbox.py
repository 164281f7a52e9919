"""`ratchet sandbox` against a scripted sandbox."""

import json
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from ratchet.common.v1 import verdict_pb2
from ratchet.sandbox.v1 import diagnostics_pb2 as pb
from ratchet.sandbox.v1 import diagnostics_pb2_grpc, program_pb2, program_pb2_grpc
from ratchet_testing.gateway import ScriptedGateway


class Sandbox(program_pb2_grpc.ProgramServiceServicer, diagnostics_pb2_grpc.DiagnosticsServiceServicer):
    def __init__(self) -> None:
        self.findings: list[pb.AuditResponse] = []

    def add(self, server: grpc.Server) -> None:
        program_pb2_grpc.add_ProgramServiceServicer_to_server(self, server)
        diagnostics_pb2_grpc.add_DiagnosticsServiceServicer_to_server(self, server)

    def GetCapabilities(self, request: Any, context: Any) -> program_pb2.GetCapabilitiesResponse:
        return program_pb2.GetCapabilitiesResponse(
            level=program_pb2.ISOLATION_LEVEL_L2, missing_layers=["L3 lacks cgroup: be root"]
        )

    def Audit(self, request: pb.AuditRequest, context: Any) -> Iterator[pb.AuditResponse]:
        for one in self.findings:
            if not request.attacks or one.attack in request.attacks:
                yield one


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox()


@pytest.fixture
def audit(ratchet: Any, target: str) -> Any:
    return lambda *arguments: ratchet("sandbox", "audit", "--target", target, *arguments)


def finding(name: str, caught: bool) -> pb.AuditResponse:
    verdict = verdict_pb2.VERDICT_FAILED if caught else verdict_pb2.VERDICT_PASSED
    detail = "" if caught else "it got through"
    return pb.AuditResponse(
        attack=name,
        kind=pb.ATTACK_KIND_BREAK_OUT,
        title="Tries [it].",
        caught=caught,
        verdict=verdict,
        detail=detail,
        total=2,
    )


def test_elsewhere_a_command_says_that_it_asks_a_sandbox_itself(ratchet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_URL", "http://far:8700")
    monkeypatch.delenv("RATCHET_SERVICE_TOKEN")
    for command in (("audit",), ("bench",), ("batches", "list")):
        result = ratchet("sandbox", *command)
        assert result.returncode == 2
        assert "asks a sandbox itself, and http://far:8700 is a gateway: give --target" in " ".join(
            result.stderr.split()
        )


def test_elsewhere_the_gateway_says_which_runtimes_there_are(
    ratchet: Any, gateway: ScriptedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    monkeypatch.delenv("RATCHET_SERVICE_TOKEN")
    gateway.answers({"runtimes": [{"name": "numpy", "language": "python", "version": "3.11"}]})
    assert "numpy" in ratchet("sandbox", "runtime", "list").stdout
    assert gateway.received[0].path == "/api/v1/programs/capabilities"


def test_all_caught(sandbox: Sandbox, audit: Any) -> None:
    sandbox.findings = [finding("fork", True), finding("sockets", True)]
    result = audit()
    assert result.returncode == 0, result.stderr
    assert "Level L2: 2 of 2 attacks caught, 0 of 0 honest runs right." in result.stdout
    assert "L3 lacks cgroup: be root" in result.stdout
    assert "Tries [it]." in result.stdout
    assert "break-out" in result.stdout


def test_one_that_gets_through_is_a_failure(sandbox: Sandbox, audit: Any) -> None:
    sandbox.findings = [finding("fork", True), finding("sockets", False)]
    result = audit()
    assert result.returncode == 1
    assert "1 of 2 attacks caught," in result.stdout
    assert "1 went wrong: sockets." in result.stderr


def test_an_honest_program_judged_wrong_is_a_failure(sandbox: Sandbox, audit: Any) -> None:
    right = pb.AuditResponse(attack="go/Scan", title="an honest program", caught=True, detail="skipped: no go here")
    wrong = pb.AuditResponse(attack="idioms/lambda", title="an honest program", detail="NameError")
    sandbox.findings = [finding("fork", True), right, wrong]
    result = audit()
    assert result.returncode == 1
    assert "1 of 1 attacks caught, 1 of 2 honest runs right." in result.stdout
    assert "go/Scan skipped: no go here." in result.stdout
    assert "WRONG" in result.stdout
    assert "1 went wrong: idioms/lambda." in result.stderr


def test_json_and_names(sandbox: Sandbox, audit: Any) -> None:
    sandbox.findings = [finding("fork", True), finding("sockets", False)]
    told = json.loads(audit("fork", "--json").stdout)
    assert (told["level"], told["caught"], told["total"]) == ("L2", 1, 1)
    assert told["attacks"][0]["attack"] == "fork"
    assert audit("--json").returncode == 1
