"""People by their groups: which scopes and which project."""

from collections.abc import Mapping

import pytest

from gateway_service.domain.keys.identities import Identities, Oidc
from gateway_service.domain.keys.key import Scope
from ratchet_kit.errors import InvalidArgument, PermissionDenied, Unauthenticated

from ..world import World

OIDC = Oidc(
    "https://id.example.com",
    "ratchet",
    {"ml-leads": "admin", "acme-leads": "admin@acme", "acme": "train+release@acme", "lookers": "read"},
)


class Provider:
    async def claims(self, token: str) -> Mapping[str, object]:
        if not token.startswith("eyJ."):
            raise Unauthenticated("the token is not valid: no")
        return {"sub": "ana", "email": "ana@example.com", "exp": 2_000_000_000, "groups": token.split(".")[1:]}


@pytest.mark.parametrize(
    ("groups", "scopes", "project"),
    [
        ("acme", {Scope.TRAIN, Scope.RELEASE}, "acme"),
        ("x.acme.acme-leads", {Scope.ADMIN}, "acme"),
        ("lookers.ml-leads", {Scope.ADMIN}, ""),
        ("lookers", {Scope.READ}, ""),
    ],
)
async def test_the_first_grant_decides(groups: str, scopes: set[Scope], project: str) -> None:
    key = await Identities(Provider(), OIDC).identify(f"eyJ.{groups}")
    assert (key.scopes, key.project, key.name) == (scopes, project, "ana@example.com")
    assert key == await Identities(Provider(), OIDC).identify(f"eyJ.{groups}")


@pytest.mark.parametrize("groups", ["", "x", "Acme"])
async def test_who_is_in_no_group_may_nothing(groups: str) -> None:
    with pytest.raises(PermissionDenied, match="in no group that may use this platform"):
        await Identities(Provider(), OIDC).identify(f"eyJ.{groups}")


@pytest.mark.parametrize("text", ["", "boss", "admin@", "admin@Acme", "train,read", "read@default"])
def test_an_invalid_grant_stops_the_start(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Identities(Provider(), Oidc("https://id.example.com", "ratchet", {"a": text}))


async def test_a_token_is_taken_where_a_key_is(world: World) -> None:
    world.settings = world.settings.model_copy(update={"oidc": OIDC})
    world.identities = Provider()
    await world.start()

    async def status(token: str, verb: str, path: str, body: object = None) -> int:
        async with world.http() as http:
            http.headers["authorization"] = f"Bearer {token}"
            return (await http.request(verb, path, json=body)).status_code

    assert await status("eyJ.acme", "GET", "/api/v1/releases") == 200
    assert await status("eyJ.acme", "GET", "/api/v1/keys") == 403
    assert await status("eyJ.acme-leads", "POST", "/api/v1/keys", {"name": "app"}) == 200
    assert await status("eyJ.lookers", "POST", "/api/v1/releases/rel_1/pause", {}) == 403
    assert await status("eyJ.nobody", "GET", "/api/v1/releases") == 403
    assert await status("eyJforged", "GET", "/api/v1/releases") == 401
    async with world.http() as http:
        keys = (await http.get("/api/v1/keys")).json()["keys"]
    assert [key["project"] for key in keys if key["name"] == "app"] == ["acme"]
