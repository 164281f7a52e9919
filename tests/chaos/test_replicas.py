"""Two of each service that takes calls, one of them killed or stopped for good amid an evaluation and the making of
versions: the others finish both, rightly, and whoever comes back spoils nothing."""

import signal

import pytest

from ratchet_testing.replicas import Replica

from .accepted import Evaluation, Versions
from .judges import Judges, User

pytestmark = [pytest.mark.chaos, pytest.mark.e2e, pytest.mark.timeout(1500)]


def victim(judges: Judges, service: str, evaluation: Evaluation) -> Replica:
    """The one that has most to lose."""
    return judges.holder(evaluation.id) if service == "eval" else judges.replicas[service][0]


@pytest.mark.parametrize("service", ["gateway", "eval", "sandbox", "registry"])
def test_one_of_two_is_killed(judges: Judges, caller: User, service: str) -> None:
    evaluation = Evaluation.begin(caller)
    lost = victim(judges, service, evaluation)
    lost.kill()
    versions = Versions.begin(caller, judges.folder)
    evaluation.check(caller)
    versions.check(caller)
    lost.start()


@pytest.mark.parametrize("service", ["gateway", "eval", "sandbox", "registry"])
def test_one_of_two_stands_still_until_the_work_is_done(judges: Judges, caller: User, service: str) -> None:
    """It then finds its work done by another, and leaves it as it is."""
    evaluation = Evaluation.begin(caller)
    versions = Versions.begin(caller, judges.folder)
    lost = victim(judges, service, evaluation)
    lost.signal(signal.SIGSTOP)
    try:
        evaluation.check(caller)
        versions.check(caller)
    finally:
        lost.signal(signal.SIGCONT)
    judges.are_up()
    evaluation.check(caller)
    versions.check(caller)
