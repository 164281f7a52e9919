"""RewardStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Row, and_, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Aborted
from ratchet_kit.idempotency import Request
from ratchet_kit.names import RewardRef
from ratchet_kit.sql import Database, insert_if_absent
from registry_service.adapters.sql.tables import reward_names, reward_uses, rewards
from registry_service.domain.reward import Reward, RewardSpec, not_there

_SHOWN = [column for column in rewards.c if column.name != "source"]


class SqlRewardStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, spec: RewardSpec, actor: str, now: datetime, request: Request) -> Reward:
        try:
            async with self._database.writing() as connection:
                row: dict[str, Any] = {
                    "name": spec.name,
                    "number": await _next_number(connection, spec.name),
                    "source": spec.source,
                    "digest": spec.digest,
                    "size_bytes": len(spec.source.encode()),
                    "description": spec.description,
                    "create_time": now,
                    "actor": actor,
                    "runs": 0,
                    "last_run_id": "",
                }
                if not await insert_if_absent(connection, rewards, row | request.columns):
                    raise _IsThere  # the number is not used up
        except _IsThere:
            return await self._there(spec, request)
        return Reward(**row)

    async def _there(self, spec: RewardSpec, request: Request) -> Reward:
        made = await self.find(request)
        same = select(rewards).where(rewards.c.name == spec.name, rewards.c.digest == spec.digest)
        row = None if made else await self._database.first(same)
        if made is None and row is None:
            raise Aborted(f"reward {spec.name} was deleted at the same time; send the request again")
        return made or _to_reward(row)

    async def find(self, request: Request) -> Reward | None:
        row = await self._database.made_by(request, select(rewards), "reward")
        return None if row is None else _to_reward(row)

    async def get(self, ref: RewardRef) -> Reward:
        async with self._database.reading() as connection:
            return await _reward_of(connection, ref)

    async def page(self, name: str | None, limit: int, after: Sequence[Any] | None) -> Sequence[Reward]:
        query = select(*_SHOWN).order_by(rewards.c.name, rewards.c.number.desc())
        if name is not None:
            query = query.where(rewards.c.name == name)
        if after is not None:
            last, number = after
            behind = and_(rewards.c.name == last, rewards.c.number < number)
            query = query.where(or_(rewards.c.name > last, behind))
        found = await self._database.readable(query, _to_reward, limit)
        if name is not None and not found:
            await self.get(RewardRef(name))
        return found

    async def use(self, ref: RewardRef, run_id: str, now: datetime) -> None:
        async with self._database.writing() as connection:
            await _reward_of(connection, ref, locked=True)
            row = {"name": ref.name, "number": ref.number, "run_id": run_id, "create_time": now}
            if await insert_if_absent(connection, reward_uses, row):
                counted = update(rewards).where(rewards.c.name == ref.name, rewards.c.number == ref.number)
                await connection.execute(counted.values(runs=rewards.c.runs + 1, last_run_id=run_id))

    async def delete(self, ref: RewardRef, *, force: bool) -> Reward:
        async with self._database.writing() as connection:
            reward = await _reward_of(connection, ref, locked=True)
            reward.check_deletable(force=force)
            for table in (reward_uses, rewards):
                is_it = and_(table.c.name == ref.name, table.c.number == ref.number)
                await connection.execute(delete(table).where(is_it))
        return reward


class _IsThere(Exception):
    """The source has a number, or the same request, sent twice at once, has made it."""


async def _next_number(connection: AsyncConnection, name: str) -> int:
    """From here to the end of the transaction nobody else gives a number of this name."""
    await insert_if_absent(connection, reward_names, {"name": name, "latest_number": 0})
    counted = update(reward_names).where(reward_names.c.name == name)
    counted = counted.values(latest_number=reward_names.c.latest_number + 1)
    return int((await connection.execute(counted.returning(reward_names.c.latest_number))).scalar_one())


async def _reward_of(connection: AsyncConnection, ref: RewardRef, *, locked: bool = False) -> Reward:
    """Nobody else changes it (`locked`) before the end of the transaction. Raises NotFound."""
    of_name = rewards.c.name == ref.name
    query = select(rewards).where(of_name).order_by(rewards.c.number.desc()).limit(1)
    if ref.number is not None:
        query = query.where(rewards.c.number == ref.number)
    row = (await connection.execute(query.with_for_update() if locked else query)).first()
    if row is None:
        numbers = (
            await connection.execute(select(rewards.c.number).where(of_name).order_by(rewards.c.number))
        ).scalars()
        names = (await connection.execute(select(rewards.c.name).distinct().order_by(rewards.c.name))).scalars()
        raise not_there(ref, numbers.all(), names.all())
    return _to_reward(row)


def _to_reward(row: Row[Any] | None) -> Reward:
    assert row is not None
    values = dict(row._mapping)
    return Reward(**{name: value for name, value in values.items() if name not in ("request_id", "fingerprint")})
