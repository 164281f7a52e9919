"""ExperimentStore on SQLite and PostgreSQL."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql import under_way, webhooks
from gateway_service.adapters.sql.tables import experiments, replay_prompts
from gateway_service.adapters.sql.under_way import experiment_documents, to_experiment
from gateway_service.domain.experiments.experiment import Experiment, State
from gateway_service.domain.experiments.replay import ReplayPrompt
from gateway_service.domain.webhooks.event import event_of_experiment
from ratchet_kit import sql
from ratchet_kit.errors import Aborted, NotFound
from ratchet_kit.idempotency import Request
from ratchet_kit.sql import Database

_prompts = TypeAdapter(ReplayPrompt)


class SqlExperimentStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, experiment: Experiment, request: Request, prompts: Sequence[ReplayPrompt] = ()
    ) -> Experiment:
        rows = [
            {"experiment_id": experiment.id, "number": number, "document": _prompts.dump_python(prompt, mode="json")}
            for number, prompt in enumerate(prompts)
        ]
        async with self._database.writing() as connection:
            if await sql.insert_if_absent(connection, experiments, _row(experiment) | request.columns):
                await sql.insert_all_if_absent(connection, replay_prompts, rows)
                return experiment
        existing = await self.find(request)
        assert existing is not None, "ids are unique, so the request made it"
        return existing

    async def find(self, request: Request) -> Experiment | None:
        row = await self._database.made_by(request, select(experiments), "experiment")
        return None if row is None else to_experiment(row)

    async def prompts(self, experiment_id: str, start: int, limit: int) -> Sequence[ReplayPrompt]:
        p = replay_prompts.c
        query = select(p.document).where(p.experiment_id == experiment_id, p.number >= start)
        rows = await self._database.rows(query.order_by(p.number).limit(limit))
        return [_prompts.validate_python(row.document) for row in rows]

    async def get(self, experiment_id: str) -> Experiment:
        row = await self._database.first(select(experiments).where(experiments.c.id == experiment_id))
        if row is None:
            raise NotFound(f"experiment {experiment_id} does not exist")
        return to_experiment(row)

    async def active(self) -> Sequence[Experiment]:
        query = select(experiments).where(experiments.c.active).order_by(experiments.c.start_time, experiments.c.id)
        return await self._database.readable(query, to_experiment)

    async def page(self, model: str, limit: int, after: str | None, name: str = "") -> Sequence[Experiment]:
        query = select(experiments).order_by(experiments.c.id.desc()).limit(limit)
        if model:
            query = query.where(experiments.c.model == model)
        if name:
            named = experiments.c.document["spec"]["display_name"].as_string()
            query = query.where(named.icontains(name, autoescape=True))
        if after is not None:
            query = query.where(experiments.c.id < after)
        return [to_experiment(row) for row in await self._database.rows(query)]

    async def start(self, experiment: Experiment) -> Experiment:
        async with self._database.writing() as connection:
            (await under_way.lock(connection, experiment.model)).check_experiment(experiment)
            return await _save(connection, experiment)

    async def save(self, experiment: Experiment) -> Experiment:
        async with self._database.writing() as connection:
            return await _save(connection, experiment)

    async def delete(self, experiment: Experiment) -> None:
        e, own = experiments.c, replay_prompts.c.experiment_id == experiment.id
        async with self._database.writing() as connection:
            is_it = delete(experiments).where(e.id == experiment.id, e.revision == experiment.revision)
            if (await connection.execute(is_it)).rowcount != 1:
                raise _changed(experiment)
            await connection.execute(delete(replay_prompts).where(own))


async def _save(connection: AsyncConnection, experiment: Experiment) -> Experiment:
    saved = replace(experiment, revision=experiment.revision + 1)
    e = experiments.c
    change = update(experiments).where(e.id == experiment.id, e.revision == experiment.revision)
    result = await connection.execute(change.values(_row(saved)))
    if result.rowcount != 1:
        raise _changed(experiment)
    if event := event_of_experiment(saved):
        await webhooks.announce(connection, [event], event.create_time)
    if saved.state in (State.CONCLUDED, State.STOPPED):
        own = replay_prompts.c.experiment_id == experiment.id
        await connection.execute(delete(replay_prompts).where(own))
    return saved


def _changed(experiment: Experiment) -> Aborted:
    return Aborted(f"experiment {experiment.id} was changed by someone else at the same time")


def _row(experiment: Experiment) -> dict[str, Any]:
    return {
        "id": experiment.id,
        "model": experiment.model,
        "active": experiment.active,
        "start_time": experiment.start_time,
        "revision": experiment.revision,
        "document": experiment_documents.dump_python(experiment, mode="json"),
    }
