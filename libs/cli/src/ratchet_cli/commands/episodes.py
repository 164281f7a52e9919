"""`ratchet episode`: a command that calls models, on a task folder, with a model of the local platform."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from ratchet.registry.v1 import registry_pb2 as pb
from ratchet.registry.v1 import registry_pb2_grpc
from ratchet_cli.commands import options
from ratchet_cli.commands.options import HarnessFiles, own_files, refusing
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, print_fields, print_json, printable, say
from ratchet_client import address
from ratchet_environments import EnvironmentSpec
from ratchet_environments.folders import folder
from ratchet_environments.spec import TOOLS
from ratchet_environments.workspaces import Done, Workspaces
from ratchet_episodes import Episode, Harness, harness_of, record, run
from ratchet_kit import client, logs
from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_kit.ids import new_id
from ratchet_kit.names import AliasRef, BareModel, Location, ModelRef, VersionRef
from ratchet_kit.tool_servers import ToolServer, ToolServers
from ratchet_local import control
from ratchet_local.home import Home
from ratchet_policies import PolicySpec, Sampling, ensure_ready, unload
from ratchet_policies.fleet import Fleet
from ratchet_sessions.door import Seat

_LOAD_TIMEOUT = timedelta(minutes=15)
_SHOWN = 4000


def episode(
    path: Annotated[Path, typer.Argument(help="Task folder.")],
    model: Annotated[str, typer.Option(help="Model that answers: starter, starter@2, starter:champion or a folder.")],
    command: Annotated[
        list[str] | None, typer.Argument(help="Command that works on it, after --; none: the model, with tools.")
    ] = None,
    files: HarnessFiles = None,
    environment: Annotated[
        str, typer.Option(help="tools, or tools=NUMBER of answers: the command then serves more tools (MCP).")
    ] = "",
    temperature: Annotated[float, typer.Option(help="Temperature of all answers.", min=0, max=2)] = 1.0,
    forgeable: Annotated[
        bool, typer.Option("--forgeable", help="Give a reward that the program could have written, as well.")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="File for the record: calls with tokens, as JSON.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a command that calls models on a task, in a workspace, and judge what it did. It finds the model by
    OPENAI_BASE_URL and OPENAI_API_KEY, or ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY, and the task in
    /tmp/instruction.md. Exits 1 if the task is not solved."""
    if url := address.elsewhere():
        raise CommandError(
            f"Episodes ask sandbox-service and rollout-service themselves, which {url}, a gateway, does not offer: run "
            "it where `ratchet up` runs, without RATCHET_URL.",
            2,
        )
    logs.configure("ratchet", "WARNING")
    with refusing():
        ports = control.running_state(Home.default()).ports
        task, harness = folder.read(path), _harness(command, files, environment)
        targets = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        sampling = Sampling(temperature=temperature)
        found = asyncio.run(_run(targets, task, harness, model, sampling, forgeable=forgeable))
        said = _summary(found)
        if output is not None:
            output.write_text(json.dumps(record.to_json(record.record_of(task, found))))
    if as_json:
        print_json(said)
    else:
        say(_shown(found.done))
        print_fields(
            (name.replace("_", " "), "; ".join(value) if isinstance(value, list) else value)
            for name, value in said.items()
            if value not in (None, "", []) and name not in ("stdout", "stderr")
        )
    if found.judged is None or not found.judged.passed:
        raise CommandError(f"The task is not solved: {said['judge'] or said['fault']}.")


def _harness(command: list[str] | None, files: Path | None, environment: str) -> Harness:
    tree, named = own_files(command, files), options.environment(environment)
    if named and named.name != TOOLS:
        raise CommandError(f"--environment {named.name}: a command is a harness, or serves {TOOLS}.", 2)
    servers = _tool_servers()
    if command and not named:
        return Harness(tuple(command), tree, tool_servers=servers)
    turns = named.max_turns if named and named.HasField("max_turns") else None
    wanted, faults = EnvironmentSpec(TOOLS, turns, command=tuple(command or ())), Faults()
    wanted.check_tool_servers(faults, servers)
    faults.raise_if_any("the model can't be given the tools")
    ours = harness_of(wanted, servers)
    return replace(ours, files={**tree, **ours.files})


def _tool_servers() -> Mapping[str, ToolServer]:
    try:
        return TypeAdapter(ToolServers).validate_python(os.environ.get("RATCHET_TOOL_SERVERS") or {})
    except ValidationError as error:
        raise CommandError(f"RATCHET_TOOL_SERVERS: {error.errors()[0]['msg']}", 2) from error


async def _run(
    targets: dict[str, str],
    task: folder.TaskFolder,
    harness: Harness,
    model: str,
    sampling: Sampling,
    *,
    forgeable: bool,
) -> Episode:
    async with AsyncExitStack() as stack:
        workspaces = Workspaces(targets["sandbox"])
        fleet = await stack.enter_async_context(Fleet.of(targets["rollout"]))
        spec = await _spec(model, targets["registry"])
        seat = await stack.enter_async_context(_seat(fleet, spec, sampling))
        return await run(workspaces, task, harness, {"": seat}, forgeable=forgeable)


async def _spec(model: str, registry: str) -> PolicySpec:
    """A version's policy is the one that the gateway serves. Raises InvalidArgument, NotFound, FailedPrecondition."""
    match ModelRef.parse(model):
        case Location(uri):
            source = uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))  # noqa: ASYNC240
            return PolicySpec(new_id("episode"), source)
        case VersionRef(known, number):
            request = pb.GetVersionRequest(model=known, number=number)
        case AliasRef(known, alias):
            request = pb.GetVersionRequest(model=known, alias=alias)
        case BareModel(known) as bare:
            request = pb.GetVersionRequest(model=known, alias=bare.champion.alias)
    async with client.channel(registry) as channel:
        with rpc_errors():
            version = (await registry_pb2_grpc.RegistryServiceStub(channel).GetVersion(request)).version
    if version.state != pb.Version.STATE_READY:
        raise FailedPrecondition(f"{model} is not ready: its weights are not there yet")
    return PolicySpec(str(VersionRef(known, version.ref.number)), version.artifact_uri, version.policy_id)


@asynccontextmanager
async def _seat(fleet: Fleet, spec: PolicySpec, sampling: Sampling) -> AsyncIterator[Seat]:
    """A version stays loaded for the next episode, until its place is needed; a folder's model is unloaded."""
    try:
        policy = await ensure_ready(fleet, spec, timeout=_LOAD_TIMEOUT)
        yield Seat(fleet, policy.name, sampling, policy.policy_id)
    finally:
        if not spec.policy_id:
            await unload(fleet, spec.name)


def _summary(found: Episode) -> dict[str, Any]:
    calls = found.session.calls
    return {
        "ended": found.done.ending,
        "calls": len(calls),
        "failures": [one.reason for one in found.session.failed],
        "branches": max(0, len(found.session.branches) - 1),
        "prompt_tokens": sum(len(call.prompt_ids) for call in calls),
        "sampled_tokens": sum(len(call.token_ids) for call in calls),
        "seconds": round(found.done.exit.wall_time.ToTimedelta().total_seconds(), 1),
        "policy_id": calls[0].policy_id if calls else "",
        "reward": found.reward,
        "judge": found.judged.reason if found.judged else "",
        "fault": found.fault,
        "stdout": found.done.stdout[-_SHOWN:].decode("utf-8", "replace"),
        "stderr": found.done.stderr[-_SHOWN:].decode("utf-8", "replace"),
    }


def _shown(done: Done) -> str:
    """The end of what it printed."""
    return printable((done.stdout + done.stderr)[-_SHOWN:].decode("utf-8", "replace")).rstrip()
