"""A network that stands still, is slow, breaks connections, refuses or loses them, on each way between the services and
to Redis in turn, amid an evaluation and the making of versions: both end rightly, and no service ends by itself."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from .accepted import Evaluation, Versions
from .cable import Cable
from .judges import Judges, User

pytestmark = [pytest.mark.chaos, pytest.mark.e2e, pytest.mark.timeout(1500)]

WAYS = ("eval", "sandbox", "registry", "redis")
LASTS_S = 4.0


def is_slow(cable: Cable) -> None:
    cable.slow_down(0.3)


@pytest.mark.parametrize("disturb", [Cable.stand_still, is_slow, Cable.break_connections, Cable.cut, Cable.lose])
def test_what_was_accepted_is_done_rightly(judges: Judges, caller: User, disturb: Callable[[Cable], None]) -> None:
    evaluations, versions = [], []
    for way in WAYS:
        evaluations.append(Evaluation.begin(caller))
        for cable in judges.cables[way]:
            disturb(cable)
        with ThreadPoolExecutor(1) as other:  # it may have to wait for the way itself
            begun = other.submit(Versions.begin, caller, judges.folder, count=1)
            time.sleep(LASTS_S)
            for cable in judges.cables[way]:
                cable.mend()
            versions.append(begun.result())
    for evaluation in evaluations:
        evaluation.check(caller)
    for some in versions:
        some.check(caller)
    judges.are_up()
