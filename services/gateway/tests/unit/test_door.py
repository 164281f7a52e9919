"""The HTTP door: the key before the body, bodies and series of a known size, limits by key."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from starlette.requests import ClientDisconnect

from gateway_service.domain.keys.usage import KeyLimits
from gateway_service.settings import Settings

from ..world import ADMIN_KEY, World

HI = {"model": "starter", "messages": [{"role": "user", "content": "say hi"}]}
MIB = 1 << 20


class Body:
    """Chunks of a MiB, counted as they are taken."""

    def __init__(self, chunks: int) -> None:
        self.taken = 0
        self._chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._chunks):
            self.taken += 1
            yield b"x" * MIB


async def call(world: World, path: str, headers: dict[str, str], body: Body) -> int:
    """The status of a request whose body is taken only as far as the application reads it."""
    chunks = aiter(body)
    statuses = []

    async def receive() -> dict[str, Any]:
        chunk = await anext(chunks, b"")
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": ("gateway", 80),
        "client": ("127.0.0.1", 1),
    }
    await world.gateway.http(scope, receive, send)
    (status,) = statuses
    return status


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/api/v1/keys", "/api/v1/runs", "/v1/no"])
@pytest.mark.parametrize("authorization", ["", "Bearer rk_wrong", "Basic x"])
async def test_nothing_of_a_body_is_read_before_the_key_is_known(world: World, path: str, authorization: str) -> None:
    body = Body(200)
    headers = {"content-type": "application/json"} | ({"authorization": authorization} if authorization else {})
    assert await call(world, path, headers, body) == 401
    assert body.taken == 0


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v1/keys"])
async def test_a_body_has_a_size(world: World, path: str) -> None:
    headers = {"authorization": f"Bearer {ADMIN_KEY}", "content-type": "application/json"}
    announced = Body(200)
    assert await call(world, path, headers | {"content-length": str(200 * MIB)}, announced) == 413
    assert announced.taken == 0
    streamed = Body(200)
    assert await call(world, path, headers, streamed) == 413
    assert streamed.taken <= 17


async def test_413_has_the_shape_of_its_api(world: World) -> None:
    async with world.http() as http:
        openai = await http.post("/v1/completions", content=b"x" * (17 * MIB))
        api = await http.post("/api/v1/keys", content=b"x" * (17 * MIB))
    assert (openai.status_code, api.status_code) == (413, 413)
    assert openai.json()["error"]["type"] == "invalid_request_error"
    assert api.json()["error"]["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("sent", [b"\xe9\xff", "é".encode(), b"a\tb", b"", b"x" * 5000])
async def test_a_request_id_that_can_go_on_does(world: World, sent: bytes) -> None:
    async with world.http() as http:
        answer = await http.post("/v1/chat/completions", json=HI, headers={b"x-request-id": sent})
    assert answer.status_code == 200
    id = answer.headers["x-request-id"]
    assert id.isascii()
    assert len(id) <= 100


@pytest.mark.parametrize("path", ["/api/v1/keys", "/v1/models"])
async def test_of_two_keys_none_is_taken(world: World, path: str) -> None:
    mine = ("Authorization", f"Bearer {ADMIN_KEY}")
    async with world.http() as http:
        del http.headers["Authorization"]
        for headers in ([mine, mine], [mine, ("Authorization", "Bearer rk_x")], [("Authorization", "Basic x"), mine]):
            assert (await http.get(path, headers=headers)).status_code == 401


async def test_who_leaves_amid_a_body_is_no_fault(world: World) -> None:
    class Left(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"{"
            raise ClientDisconnect

    headers = {"authorization": f"Bearer {ADMIN_KEY}", "content-type": "application/json"}
    for path in ("/v1/chat/completions", "/api/v1/keys"):
        assert await call(world, path, headers, Left(1)) == 499


@pytest.mark.parametrize("path", ["/api/v1/keys/", "/api/v1/keys%2F", "/v1/models//"])
async def test_nobody_is_sent_elsewhere_with_a_key(world: World, path: str) -> None:
    async with world.http() as http:
        answer = await http.get(path, headers={"host": "evil.example"})
    assert answer.status_code in (400, 404)
    assert "location" not in answer.headers


async def test_an_error_is_short_whatever_it_quotes(world: World) -> None:
    async with world.http() as http:
        answers = [
            await http.post("/api/v1/feedback", json={"completion_id": "x" * MIB, "score": 1}),
            await http.post("/api/v1/keys", json={"name": "n", "models": ["X"] * 10_000}),
            await http.post("/v1/completions", json=HI | {"prompt": [["x"]] * 10_000}),
        ]
    assert [answer.status_code for answer in answers] == [404, 400, 400]
    assert max(len(answer.content) for answer in answers) < 50_000


LONG = "x" * 2001
VARIANTS = [{"name": name, "version": {"model": "starter", "number": number}} for number, name in ((1, "a"), (2, "b"))]
SPEC = {"variants": VARIANTS, "primary": {"measure": "MEASURE_QUALITY"}}


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("keys", {"name": LONG}, "name"),
        ("keys", {"name": "n", "models": ["m"] * 10_000}, "models"),
        *(
            (f"releases/rel_1/{verb}", {"reason": LONG}, "reason")
            for verb in ("pause", "resume", "promote", "rollback")
        ),
        *((f"experiments/exp_1/{verb}", {"reason": LONG}, "reason") for verb in ("pause", "stop", "conclude")),
        ("experiments", {"spec": SPEC | {"description": LONG}}, "spec.description"),
    ],
)
async def test_what_is_kept_for_good_has_a_length(world: World, path: str, body: dict[str, Any], field: str) -> None:
    async with world.http() as http:
        reply = await http.post(f"/api/v1/{path}", json=body)
    assert reply.status_code == 400, reply.text
    assert field in [violation["field"] for violation in reply.json()["error"]["violations"]]


def series() -> int:
    return sum(1 for metric in REGISTRY.collect() for _ in metric.samples)


async def test_invented_methods_paths_and_models_make_no_series(world: World) -> None:
    async with world.http() as http:

        async def invent(number: int) -> None:
            await http.request(f"X{number}", "/v1/models")
            await http.get(f"/none-{number}")
            for model in (f"model-{number}", f"starter@{number + 1000}"):
                await http.post("/v1/chat/completions", json=HI | {"model": model})

        await invent(0)
        before = series()
        for number in range(1, 50):
            await invent(number)
    assert series() == before


async def test_of_versions_that_there_are_not_little_is_kept(world: World) -> None:
    async with world.http() as http:
        for number in range(30):
            reply = await http.post("/v1/chat/completions", json=HI | {"model": f"starter@{number + 1000}"})
            assert reply.status_code == 404
            world.clock.advance(timedelta(seconds=1))
    assert world.gateway.serving.remembered <= 12


async def limited(world: World, limits: KeyLimits) -> None:
    """Starts the gateway again with these limits."""
    world.settings = world.settings.model_copy(update={"key_limits": limits})
    await world.start()


async def test_too_many_requests_are_429_with_retry_after(world: World) -> None:
    await limited(world, KeyLimits(requests_per_minute=3))
    async with world.http() as http:
        for _ in range(3):
            assert (await http.get("/v1/models")).status_code == 200
        for path in ("/v1/models", "/api/v1/keys"):
            refused = await http.get(path)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "20")
        world.clock.advance(timedelta(seconds=20))
        assert (await http.get("/v1/models")).status_code == 200


async def test_used_tokens_are_429(world: World) -> None:
    await limited(world, KeyLimits(tokens_per_minute=2))
    async with world.http() as http:
        assert (await http.post("/v1/chat/completions", json=HI)).status_code == 200
        for stream in (False, True):
            assert (await http.post("/v1/chat/completions", json=HI | {"stream": stream})).status_code == 429
        assert (await http.get("/v1/models")).status_code == 200


async def test_a_key_that_used_its_month_is_told_so_and_listed(world: World) -> None:
    async with world.http() as http:
        asked = {"name": "app", "monthly_tokens": 2, "scopes": ["SCOPE_INFERENCE"]}
        made = (await http.post("/api/v1/keys", json=asked)).json()
        assert (await http.post("/api/v1/keys", json=asked | {"monthly_tokens": -1})).status_code == 400
        own = {"Authorization": f"Bearer {made['secret']}"}
        assert (await http.post("/v1/chat/completions", json=HI, headers=own)).status_code == 200
        refused = await http.post("/v1/chat/completions", json=HI, headers=own)
        assert refused.status_code == 429
        assert "has used its 2 tokens of " in refused.json()["error"]["message"]
        assert (await http.post("/v1/chat/completions", json=HI)).status_code == 200, "another key's are its own"
        [listed] = [one for one in (await http.get("/api/v1/keys")).json()["keys"] if one["name"] == "app"]
        assert listed["monthly_tokens"] == "2"
        assert int(listed["tokens_this_month"]) > 2


@pytest.mark.parametrize("secret", ["a", "rk_admin", "x" * 31])
def test_the_bootstrap_key_is_no_short_one(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GATEWAY_ADMIN_KEY", secret)
    with pytest.raises(ValueError, match="32 characters") as refused:
        Settings()
    assert f"'{secret}'" not in str(refused.value)


def test_limits_are_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GATEWAY_KEY_LIMITS__TOKENS_PER_MINUTE", "7")
    assert Settings().key_limits == replace(KeyLimits(), tokens_per_minute=7)


def test_half_of_tls_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RATCHET_GATEWAY_TLS_CERT_FILE", "/cert")
    with pytest.raises(ValueError, match="TLS_KEY_FILE"):
        Settings()


@pytest.mark.parametrize("stream", [False, True])
async def test_prompts_times_choices_are_what_a_key_has_at_once(world: World, stream: bool) -> None:
    limits = KeyLimits(concurrent_requests=16)
    world.settings = world.settings.model_copy(update={"key_limits": limits})
    await world.start()
    async with world.http() as http:
        for prompts, choices, status in ((8, 2, 200), (16, 1, 200), (1, 16, 200), (9, 2, 400), (128, 64, 400)):
            body = {"model": "starter", "prompt": [f"say {n}" for n in range(prompts)], "n": choices, "stream": stream}
            reply = await http.post("/v1/completions", json=body)
            assert reply.status_code == status, (prompts, choices)
            if status == 400:
                assert reply.json()["error"]["param"] == "n"
        assert (await http.post("/v1/chat/completions", json=HI | {"n": 17, "stream": stream})).status_code == 400
        assert (await http.post("/v1/chat/completions", json=HI | {"n": 16, "stream": stream})).status_code == 200
