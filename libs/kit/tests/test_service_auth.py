"""The token between services, and their certificates."""

import asyncio
import re
import stat
import subprocess
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ratchet_kit import service_auth
from ratchet_kit.client import channel, wait_healthy
from ratchet_kit.errors import FailedPrecondition, Unauthenticated
from ratchet_kit.grpc_errors import rpc_errors
from ratchet_protos.access import TOKEN_HEADER
from ratchet_testing import serving
from ratchet_testing.echo import adding, method

KINDS = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]


def silent(kind: str):
    """A handler that must not be reached."""

    async def single(request, context):
        pytest.fail("it was answered")

    async def streaming(request, context):
        pytest.fail("it was answered")
        yield b""

    return adding(**{kind: streaming if kind.endswith("stream") else single})


async def echo(request, context):
    return request


async def unsent():
    await asyncio.Event().wait()
    yield b""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sent", [None, "", "wrong", "x" * 64])
async def test_without_the_token_nothing_answers(kind: str, sent: str | None) -> None:
    metadata = [] if sent is None else [(TOKEN_HEADER, sent)]
    async with serving(silent(kind)) as target, grpc.aio.insecure_channel(target) as bare:
        # refused before it has sent anything; and gRPC forgets why where a bare client is just writing
        request = unsent() if kind.startswith("stream") else b"a"
        call = method(bare, kind)(request, metadata=metadata)
        with pytest.raises(Unauthenticated), rpc_errors():
            [reply async for reply in call] if kind.endswith("stream") else await call


async def test_health_answers_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(adding(unary_unary=echo)) as target, grpc.aio.insecure_channel(target) as bare:
        reply = await health_pb2_grpc.HealthStub(bare).Check(health_pb2.HealthCheckRequest(), timeout=5)
    assert reply.status == health_pb2.HealthCheckResponse.SERVING


async def test_our_clients_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(adding(unary_unary=echo)) as target:
        async with channel(target) as door:
            assert await method(door, "unary_unary")(b"a") == b"a"
        monkeypatch.setenv(service_auth.TOKEN, service_auth.new_token())
        async with channel(target) as other:
            with pytest.raises(Unauthenticated), rpc_errors():
                await method(other, "unary_unary")(b"a")


async def test_a_server_may_know_the_digest_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    token = service_auth.token()
    monkeypatch.setenv(service_auth.DIGEST, service_auth.digest_of(token))
    monkeypatch.setenv(service_auth.TOKEN, service_auth.new_token())
    async with serving(adding(unary_unary=echo)) as target:
        monkeypatch.setenv(service_auth.TOKEN, token)
        async with channel(target) as door:
            assert await method(door, "unary_unary")(b"a") == b"a"


def test_the_token_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    environ = {"RATCHET_HOME": str(tmp_path)}
    token = service_auth.token(environ)
    assert len(token) == 64
    assert service_auth.token(environ) == token
    assert stat.S_IMODE((tmp_path / "service.token").stat().st_mode) == 0o600


def test_a_token_from_a_file_and_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t" * 40 + "\n")
    assert service_auth.token({service_auth.TOKEN_FILE: str(tmp_path / "token")}) == "t" * 40
    for environ in ({service_auth.TOKEN: "short"}, {service_auth.TOKEN_FILE: str(tmp_path / "none")}):
        with pytest.raises(FailedPrecondition):
            service_auth.token(environ)


ROOT = Path(__file__).parents[3]


def steps() -> list[str]:
    """The commands of docs/keeping.md that change the token, without its pauses."""
    text = (ROOT / "docs/keeping.md").read_text()
    return [line for line in text.splitlines() if line.startswith("    ") and re.search(r"# [1-5]\. ", line)]


async def test_the_token_is_changed_by_the_page_while_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller, a service and the sandbox, which knows digests alone, go on at each step; at the end the old one is
    refused by both."""
    old, file, digest = "o" * 64, tmp_path / "service.token", tmp_path / "service.digest"
    file.write_text(old)
    digest.write_text(service_auth.digest_of(old))
    monkeypatch.setattr(service_auth, "PERIOD", 0.0)
    monkeypatch.delenv(service_auth.TOKEN)
    monkeypatch.setenv(service_auth.TOKEN_FILE, str(file))
    shown: list[str] = []

    async def note(request, context):
        shown.append(dict(context.invocation_metadata())[TOKEN_HEADER])
        return request

    async with serving(adding(unary_unary=note)) as service:
        monkeypatch.setenv(service_auth.DIGEST_FILE, str(digest))
        async with serving(adding(unary_unary=note)) as sandbox, channel(service) as one, channel(sandbox) as other:
            calls = [method(one, "unary_unary"), method(other, "unary_unary")]
            assert len(steps()) == 5
            for step in steps():
                await asyncio.to_thread(subprocess.run, ["bash", "-ec", step], cwd=tmp_path, check=True)
                for call in calls:
                    assert await call(b"a") == b"a", step
            new = file.read_text().strip()
            assert shown == [old] * 4 + [new] * 6
            for call in calls:
                with pytest.raises(Unauthenticated), rpc_errors():
                    await call(b"a", metadata=[(TOKEN_HEADER, old)])


async def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_auth, "PERIOD", 0.0)
    file = tmp_path / "token"
    file.write_text("a" * 40)
    fresh = service_auth.Fresh(lambda: service_auth.token({service_auth.TOKEN_FILE: str(file)}))
    for content in ("", "short", "b" * 40 + " short"):
        file.write_text(content)
        assert fresh() == "a" * 40
    file.unlink()
    assert fresh() == "a" * 40
    file.write_text("b" * 40)
    assert fresh() == "b" * 40


def certificates(folder: Path) -> dict[str, str]:
    """A CA, and a certificate of it for every service."""
    openssl = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-batch", "-x509"]
    ca = ["-keyout", folder / "ca-key", "-out", folder / "ca", "-subj", "/CN=ca", "-days", "2"]
    leaf = ["-keyout", folder / "key", "-out", folder / "cert", "-subj", "/CN=service", "-days", "1"]
    issued = [
        "-CA",
        folder / "ca",
        "-CAkey",
        folder / "ca-key",
        "-addext",
        f"subjectAltName=DNS:{service_auth.TLS_NAME}",
    ]
    for command in ([*openssl, *ca], [*openssl, *leaf, *issued]):
        subprocess.run(command, check=True, capture_output=True)
    return {f"RATCHET_TLS_{name.upper()}_FILE": str(folder / name) for name in ("ca", "cert", "key")}


async def test_with_certificates_a_stranger_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in certificates(tmp_path).items():
        monkeypatch.setenv(name, value)
    async with serving(adding(unary_unary=echo)) as target:
        await wait_healthy(target)
        async with channel(target) as door:
            assert await method(door, "unary_unary")(b"a") == b"a"
        root = grpc.ssl_channel_credentials((tmp_path / "ca").read_bytes())
        named = [("grpc.ssl_target_name_override", service_auth.TLS_NAME)]
        async with (
            grpc.aio.insecure_channel(target) as plain,
            grpc.aio.secure_channel(target, root, options=named) as without,
        ):
            for stranger in (plain, without):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await method(stranger, "unary_unary")(
                        b"a", metadata=[(TOKEN_HEADER, service_auth.token())], timeout=5
                    )
                assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_certificates_are_changed_while_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both authorities, then the new certificate, then the new authority alone: the same channel goes on, and who has
    the old certificate is not heard any more."""
    monkeypatch.setattr(service_auth, "PERIOD", 0.0)
    old, new, used = tmp_path / "old", tmp_path / "new", tmp_path / "used"
    for folder in (old, new, used):
        folder.mkdir()
    certificates(old)
    certificates(new)
    for name in ("ca", "cert", "key"):
        (used / name).write_bytes((old / name).read_bytes())
        monkeypatch.setenv(f"RATCHET_TLS_{name.upper()}_FILE", str(used / name))
    stale = service_auth.certificates()
    assert stale is not None
    async with serving(adding(unary_unary=echo)) as target, channel(target) as door:
        call = method(door, "unary_unary")
        assert await call(b"a") == b"a"
        (used / "ca").write_bytes((old / "ca").read_bytes() + (new / "ca").read_bytes())
        assert await call(b"a") == b"a"
        for name in ("key", "cert"):
            (used / name).write_bytes((new / name).read_bytes())
            assert await call(b"a") == b"a", "what does not belong together is not taken"
        (used / "ca").write_bytes((new / "ca").read_bytes())
        assert await call(b"a") == b"a"
        named = [("grpc.ssl_target_name_override", service_auth.TLS_NAME)]
        credentials = service_auth.channel_credentials(stale._replace(ca=(used / "ca").read_bytes()))
        async with grpc.aio.secure_channel(target, credentials, options=named) as stranger:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(stranger, "unary_unary")(b"a", metadata=[(TOKEN_HEADER, service_auth.token())], timeout=5)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_half_of_tls_is_a_mistake() -> None:
    with pytest.raises(FailedPrecondition, match="all of"):
        service_auth.certificates({"RATCHET_TLS_CA_FILE": "/ca"})
