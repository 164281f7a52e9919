"""FindingStore on SQLite and PostgreSQL."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, insert, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from ratchet_kit.errors import Aborted
from ratchet_kit.names import DatasetRef
from ratchet_kit.sql import Database, insert_all_if_absent, row_of, value_of
from registry_service.adapters.sql.tables import dataset_decisions as decisions
from registry_service.adapters.sql.tables import dataset_findings as findings
from registry_service.adapters.sql.tables import datasets
from registry_service.domain.dataset import State
from registry_service.domain.finding import Decision, Finding, FindingState, Kind, Rule

_AT_ONCE = 5_000
"""Rows of a statement."""
_SAME = ("kind", "split", "problem", "other_set", "other", "detail")
"""Columns by which a finding of one version is that of another."""


class SqlFindingStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def replace(
        self, ref: DatasetRef, digests: Mapping[str, str], found: Iterable[Finding], made_of: DatasetRef | None
    ) -> None:
        async with self._examining(ref) as connection:
            await connection.execute(delete(findings).where(_of(ref)))
        numbered, key = enumerate(found, 1), {"name": ref.name, "number": ref.number}
        while batch := [_row(it, place, digests) | key for place, it in islice(numbered, _AT_ONCE)]:
            async with self._examining(ref) as connection:  # a million rows at once would hold up all others
                await insert_all_if_absent(connection, findings, batch)
        if made_of is None:
            return
        before = findings.alias()
        same = and_(*(before.c[name] == findings.c[name] for name in _SAME), before.c.decision_id.is_not(None))
        of_it = and_(before.c.name == made_of.name, before.c.number == made_of.number)
        decision = select(before.c.decision_id).where(of_it, same).limit(1).scalar_subquery()
        async with self._examining(ref) as connection:
            await connection.execute(update(findings).where(_of(ref)).values(decision_id=decision))

    @asynccontextmanager
    async def _examining(self, ref: DatasetRef) -> AsyncIterator[AsyncConnection]:
        """A transaction while the version is EXAMINING. Raises Aborted."""
        async with self._database.writing() as connection:
            of_version = and_(datasets.c.name == ref.name, datasets.c.number == ref.number)
            state = await connection.execute(select(datasets.c.state).where(of_version).with_for_update())
            if state.scalar_one_or_none() != State.EXAMINING:
                raise Aborted(f"data set {ref} is not examined any more")
            yield connection

    async def report(self, ref: DatasetRef, digest: str, found: Sequence[Finding]) -> None:
        async with self._database.writing() as connection:
            of_version = and_(datasets.c.name == ref.name, datasets.c.number == ref.number)
            await connection.execute(select(datasets.c.name).where(of_version).with_for_update())  # one after another
            reported = and_(_of(ref), _selected(Rule(Kind.UNSOUND, ref.split)))
            await connection.execute(delete(findings).where(reported, findings.c.decision_id.is_(None)))
            decided = set((await connection.execute(select(findings.c.problem).where(reported))).scalars())
            last = (await connection.execute(select(func.max(findings.c.place)).where(_of(ref)))).scalar() or 0
            key, digests = {"name": ref.name, "number": ref.number}, {ref.split: digest}
            new = [finding for finding in found if finding.problem not in decided]
            if rows := [_row(finding, place, digests) | key for place, finding in enumerate(new, last + 1)]:
                await connection.execute(insert(findings), rows)

    async def page(
        self, ref: DatasetRef, rule: Rule, state: FindingState | None, limit: int, after: int | None
    ) -> Sequence[Finding]:
        query = _joined().where(_of(ref), _selected(rule), _decided(state))
        query = query.where(findings.c.place > (after or 0)).order_by(findings.c.place)
        return await self._database.readable(query, _to_finding, limit)

    async def decide(self, decision: Decision) -> int:
        ref, rule = decision.dataset, decision.rule
        async with self._database.writing() as connection:
            row = row_of(
                decision, decisions, name=ref.name, number=ref.number, **asdict(rule) | {"kind": rule.kind or ""}
            )
            await connection.execute(insert(decisions).values(row))
            change = update(findings).where(_of(ref), _selected(rule)).values(decision_id=decision.id)
            number = (await connection.execute(change)).rowcount
            if not number:
                await connection.execute(delete(decisions).where(decisions.c.id == decision.id))
        return number

    async def accepted(self, digest: str) -> Sequence[Finding]:
        near = and_(findings.c.digest == digest, findings.c.kind == Kind.NEAR_DUPLICATE)
        query = _joined().where(near, decisions.c.state == FindingState.ACCEPTED)
        order = findings.c.name, findings.c.number, findings.c.place
        return await self._database.readable(query.order_by(*order), _to_finding)


def _joined() -> Select[Any]:
    """Findings with what was decided of each."""
    decided = [column.label(f"decision_{column.name}") for column in decisions.c if column.name != "id"]
    both = findings.outerjoin(decisions, findings.c.decision_id == decisions.c.id)
    return select(findings, *decided).select_from(both)


def _of(ref: DatasetRef) -> ColumnElement[bool]:
    return and_(findings.c.name == ref.name, findings.c.number == ref.number)


def _selected(rule: Rule) -> ColumnElement[bool]:
    return and_(true(), *(findings.c[name] == value for name, value in asdict(rule).items() if value))


def _decided(state: FindingState | None) -> ColumnElement[bool]:
    if state is None:
        return true()
    same = decisions.c.state == state
    return or_(findings.c.decision_id.is_(None), same) if state is FindingState.OPEN else same


def _row(finding: Finding, place: int, digests: Mapping[str, str]) -> dict[str, Any]:
    return row_of(finding, findings, place=place, digest=digests[finding.split], decision_id=None)


def _to_finding(row: Row[Any]) -> Finding:
    decision = _to_decision(row) if row.decision_id else None
    return value_of(Finding, row, kind=Kind(row.kind), decision=decision)


def _to_decision(row: Row[Any]) -> Decision:
    kind = Kind(row.decision_kind) if row.decision_kind else None
    return Decision(
        id=row.decision_id,
        dataset=DatasetRef(row.decision_name, row.decision_number),
        rule=Rule(kind, row.decision_split, row.decision_problem, row.decision_other_set),
        state=FindingState(row.decision_state),
        reason=row.decision_reason,
        actor=row.decision_actor,
        create_time=row.decision_create_time,
    )
