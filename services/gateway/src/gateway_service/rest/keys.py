"""/api/v1/keys: API keys."""

from datetime import datetime

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from gateway_service.domain.keys import Doorkeeper, KeyRing, Scope
from gateway_service.rest.auth import requires


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
    secret: str = Field(description="Shown this once: it is not kept.")


class Keys(BaseModel):
    keys: list[Key]


def build(ring: KeyRing, doorkeeper: Doorkeeper) -> APIRouter:
    api = APIRouter(prefix="/api/v1/keys", tags=["keys"], dependencies=[requires(doorkeeper, Scope.ADMIN)])

    @api.post("")
    async def create_key(body: CreateKey) -> CreatedKey:
        new = await ring.create(body.name, body.scopes)
        return CreatedKey(key=Key.model_validate(new.key), secret=new.secret)

    @api.get("")
    async def list_keys() -> Keys:
        return Keys(keys=[Key.model_validate(key) for key in await ring.list()])

    @api.delete("/{key_id}")
    async def revoke_key(key_id: str) -> Key:
        return Key.model_validate(await ring.revoke(key_id))

    return api
