"""/api/v1/keys: API keys."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from gateway_service.auth import http_auth
from gateway_service.domain.keys.authenticator import Authenticator
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.keys.keys import Keys


class CreateKey(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    scopes: list[str] = Field(default=[Scope.INFERENCE], description="Of: inference, admin.")


class Key(BaseModel):
    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    hint: str = Field(description="How the key begins.")
    scopes: list[str]
    create_time: datetime
    revoke_time: datetime | None


class CreatedKey(BaseModel):
    key: Key
    secret: str = Field(description="Shown only now: it is not stored.")


class KeyList(BaseModel):
    keys: list[Key]


def build(api_keys: Keys, authenticator: Authenticator) -> APIRouter:
    api = APIRouter(prefix="/api/v1/keys", tags=["keys"], dependencies=[http_auth(authenticator, Scope.ADMIN)])

    @api.post("")
    async def create_key(body: CreateKey) -> CreatedKey:
        new = await api_keys.create(body.name, body.scopes)
        return CreatedKey(key=Key.model_validate(new.key), secret=new.secret)

    @api.get("")
    async def list_keys() -> KeyList:
        return KeyList(keys=[Key.model_validate(key) for key in await api_keys.list()])

    @api.delete("/{key_id}")
    async def revoke_key(key_id: str) -> Key:
        return Key.model_validate(await api_keys.revoke(key_id))

    return api
