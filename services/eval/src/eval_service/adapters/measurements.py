"""What evaluations measured the same problems, from SQL."""

from collections.abc import Sequence

from sqlalchemy import and_, exists, func, insert, or_, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from eval_service.adapters.rows import to_evaluation
from eval_service.adapters.tables import deleted_evaluations, deleted_problems, evaluations, problems, samples
from eval_service.domain.evaluation import Evaluation, State
from eval_service.domain.measurement import Measurement, measurement_of
from eval_service.domain.parallel import parts
from ratchet_kit.sql import Database, insert_if_absent

_IN_A_QUERY = 500

_JUDGED = exists().where(
    samples.c.evaluation_id == problems.c.evaluation_id,
    samples.c.benchmark == problems.c.benchmark,
    samples.c.problem_id == problems.c.problem_id,
    samples.c.verdict != "",
)
_OPEN = [str(State.RUNNING), str(State.SUCCEEDED)]


async def measurements_of(database: Database, id: str) -> Sequence[Measurement]:
    """See `EvaluationStore.measurements`."""
    asked = select(problems.c.fingerprint, problems.c.tests).where(
        problems.c.evaluation_id == id, problems.c.excluded == "", problems.c.fingerprint != ""
    )
    wanted = asked.subquery()
    matches = []
    for table in (problems, deleted_problems):
        same_prompt = table.c.fingerprint == wanted.c.fingerprint
        same_tests = and_(table.c.tests == wanted.c.tests, wanted.c.tests != "")
        for same in (same_prompt, same_tests):  # not either of them: each has an index
            match = select(table.c.evaluation_id, wanted.c.fingerprint).join_from(wanted, table, same)
            if table is problems:
                match = match.join(evaluations, evaluations.c.id == problems.c.evaluation_id)
                match = match.where(problems.c.excluded == "", or_(evaluations.c.state.in_(_OPEN), _JUDGED))
            matches.append(match)
    found = union(*matches).subquery()
    counted = select(found.c.evaluation_id, func.count().label("number")).group_by(found.c.evaluation_id)
    counts = {row.evaluation_id: row.number for row in await database.rows(counted)}
    measured: list[Measurement] = []
    for some in parts(sorted(counts), _IN_A_QUERY):
        for row in await database.rows(select(evaluations).where(evaluations.c.id.in_(some))):
            one = measurement_of(to_evaluation(row), counts[row.id])
            if one is not None:
                measured.append(one if row.has_texts else one.kept())
        gone = select(deleted_evaluations).where(deleted_evaluations.c.evaluation_id.in_(some))
        measured += [
            Measurement(
                row.evaluation_id,
                row.model_name,
                row.policy_id,
                row.start_time,
                row.setup,
                row.evaluation_id,
                counts[row.evaluation_id],
            )
            for row in await database.rows(gone)
        ]
    return measured


async def keep_measurement(connection: AsyncConnection, evaluation: Evaluation) -> None:
    """Before its evaluation is deleted: of the problems that have a judged sample."""
    measured = measurement_of(evaluation)
    if measured is None:
        return
    row = {
        "evaluation_id": evaluation.id,
        "model_name": measured.model,
        "policy_id": measured.policy_id,
        "start_time": measured.start_time,
        "setup": measured.setup,
    }
    if await insert_if_absent(connection, deleted_evaluations, row):
        seen = select(problems.c.evaluation_id, problems.c.fingerprint, problems.c.tests).where(
            problems.c.evaluation_id == evaluation.id, problems.c.excluded == "", _JUDGED
        )
        await connection.execute(
            insert(deleted_problems).from_select(["evaluation_id", "fingerprint", "tests"], seen.distinct())
        )
