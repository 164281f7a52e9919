"""Releases and experiments as rows, and what of a model is under way."""

from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway_service.adapters.sql.tables import experiments, releases
from gateway_service.domain.experiments.experiment import Experiment
from gateway_service.domain.releases.release import Release
from gateway_service.domain.releases.under_way import UnderWay
from ratchet_kit.sql import read_each

release_documents = TypeAdapter(Release)
experiment_documents = TypeAdapter(Experiment)


def to_release(row: Row[Any]) -> Release:
    return release_documents.validate_python(row.document)


def to_experiment(row: Row[Any]) -> Experiment:
    return experiment_documents.validate_python(row.document)


async def lock(connection: AsyncConnection, model: str) -> UnderWay:
    """What is under way. Nobody else starts anything of the model before the transaction's end: SQLite has one writer
    at a time, PostgreSQL a lock for the model."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"gateway start {model}"))))
    found_releases, found_experiments = list[Release](), list[Experiment]()
    read_each(
        await connection.execute(select(releases).where(releases.c.active_model == model)), to_release, found_releases
    )
    active = select(experiments).where(experiments.c.active, experiments.c.model == model)
    read_each(await connection.execute(active), to_experiment, found_experiments)
    return UnderWay(next(iter(found_releases), None), found_experiments)
