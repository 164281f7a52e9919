"""Stage 5 of 5: the score of an evaluation whose samples are judged."""

import asyncio
from dataclasses import replace

from eval_service.domain.measuring.attempt import Attempt
from eval_service.domain.score import Score, check_complete, score, tallies
from eval_service.domain.spec import Kind


async def final_score(attempt: Attempt) -> Score:
    """Raises FailedPrecondition where a problem has fewer samples than pass@k needs."""
    if attempt.is_imported:
        await _leave_out_unsolved(attempt)
    facts, counts = await attempt.facts(), await attempt.counts()
    check_complete(attempt.spec, facts, counts)
    found = await asyncio.to_thread(score, attempt.spec, facts, counts, ended=True)
    if attempt.spec.kind is Kind.FOLDERS:
        return replace(found, episodes=await attempt.store.means(attempt.id))
    return found


async def _leave_out_unsolved(attempt: Attempt) -> None:
    """Leaves out problems to which no sample was added, and those with a fault that no sample passed."""
    counts = await attempt.counts()
    added, found = {count.key for count in counts}, tallies(await attempt.facts(), counts)
    without = {key: "no sample of it was added" for key in attempt.sets.problems if key not in added}
    await attempt.store.exclude(attempt.id, without)
    await attempt.leave_out(
        {key: reason for key, reason in attempt.faults.items() if key not in found or not found[key].passed}
    )
