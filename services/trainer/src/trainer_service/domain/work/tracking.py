"""Shows runs in trackers, such as MLflow, TensorBoard and W&B: what the store has of a run is sent on, in order.

A tracker is no part of a run. Each has a task of its own here, which reads the store and sends what the tracker has not
had yet; one that is away, or hangs, is noticed on the run, and asked again. How far it has come is stored with the run
(`Track`), so a restart, another attempt or a resumed run goes on where it was: a step is sent once.
"""

from dataclasses import replace
from datetime import timedelta

from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_kit.logs import bound, get_logger
from ratchet_kit.times import Clock
from trainer_service.domain.run.ports import RunFiles, RunStore
from trainer_service.domain.run.run import Run, Step, Track
from trainer_service.domain.work.ports import Shown, Tracker

log = get_logger(__name__)

AT_ONCE = 500
"""Steps."""
PATIENCE = timedelta(days=1)
"""After the end of a run a tracker that does not take the rest of it is given up."""
MAX_FILE_BYTES = 4 << 20
"""The largest file that trackers are given: configs are smaller, traces are not."""


class Tracking:
    def __init__(self, store: RunStore, files: RunFiles, clock: Clock) -> None:
        self._store = store
        self._files = files
        self._clock = clock

    async def send(self, tracker: Tracker) -> None:
        """What `tracker` has not had yet, of all runs that it is to show. A run that it does not take has a notice;
        where the tracker is away, the others wait for the next call."""
        for run in await self._store.tracked():
            track = run.track(tracker.name)
            if track is None or track.is_done:
                continue
            with bound(run_id=run.id, tracker=tracker.name):
                try:
                    while await self._show(run, track, tracker):
                        run = await self._store.get(run.id)
                        track = run.track(tracker.name) or track
                except RatchetError as error:
                    log.warning("run.not_tracked", reason=error.message)
                    await self._missed(run, track, error.message)
                    if isinstance(error, Unavailable):
                        return

    async def _show(self, run: Run, track: Track, tracker: Tracker) -> bool:
        """Whether there is more."""
        steps = await self._store.steps(run.id, AT_ONCE, track.step)
        seen = f"{run.attempt} {run.state}"
        checkpoints = await self._store.checkpoints(run.id, AT_ONCE, -1)
        last = steps[-1].number if steps else track.step
        scored = [one for one in checkpoints if one.evaluation_id and one.is_scored and one.step <= last]
        late = [
            Step(one.step, one.metrics, one.policy_id, one.create_time, run.attempt)
            for one in scored
            if one.step not in track.scored
        ]
        if not steps and not late and seen == track.seen:
            return False
        files = {
            one.name: await self._files.read(run.id, one.name, 0, MAX_FILE_BYTES)
            for one in await self._files.files(run.id)
            if one.size_bytes <= MAX_FILE_BYTES and not one.name.startswith("profile/")
        }
        key = await tracker.show(Shown(run, steps, checkpoints, files, late), track.key)
        whole = len(steps) < AT_ONCE
        sent = Track(
            tracker.name,
            last,
            key,
            seen if whole else "",
            tuple(one.step for one in scored),
            is_done=whole and run.state.is_final,
        )
        if track.fault:
            log.info("run.tracked_again")
        await self._store.change(run.id, lambda now: now.tracked(sent))
        return not whole

    async def _missed(self, run: Run, track: Track, fault: str) -> None:
        """Said once, until it is taken again."""
        now = self._clock.now()
        given_up = run.end_time is not None and now - run.end_time > PATIENCE
        if track.fault and not given_up:
            return
        missed = replace(track, fault=fault, is_done=given_up)
        end = "it is given up" if given_up else "the run goes on, and is sent when it answers"
        notice = f"{track.tracker} does not show the run: {fault}; {end}"
        await self._store.change(run.id, lambda run: run.tracked(missed).noticed(notice, now))
