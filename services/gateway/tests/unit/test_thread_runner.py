"""What plans say, done in a thread: for a valid key alone, and with faults that are said as the domain knows them."""

from datetime import timedelta

import pytest

from gateway_service.adapters.thread_runner import Inside, ThreadRunner
from gateway_service.domain.keys.key import Scope
from gateway_service.domain.workflows.workflow import Plan, Workflow
from ratchet_kit.errors import InvalidArgument, Unauthenticated
from ratchet_kit.idempotency import Request
from ratchet_workflows.kinds import Kind, Outcome

from ..world import World

PLAN = """\
model: starter
train: {problems: composed/train, reward: loud.py=1, step: 3}
evaluate: {problems: composed/test}
"""
TURN = Plan(Kind.TURN, "improve.yaml", PLAN.replace("loud.py=1", "tests").replace("step:", "steps:"))


def runner(world: World) -> ThreadRunner:
    return ThreadRunner(world.workflows, Inside(world.gateway.http), world.gateway.authenticator.of_id, world.clock)


async def test_every_fault_of_a_plan_is_a_violation_and_no_file_of_this_machine_is_read(world: World) -> None:
    key = (await world.gateway.keys.create("", "boss", [Scope.ADMIN])).key
    with pytest.raises(InvalidArgument) as raised:
        await runner(world).check(Plan(Kind.TURN, "improve.yaml", PLAN), key.id)
    assert [(one.field, one.description) for one in raised.value.violations] == [
        ("plan.text", "improve.yaml:2: train.reward names a file, 'loud.py=1', which is not here: write its content."),
        ("plan.text", "improve.yaml:2: train.step is not a field; did you mean steps?"),
    ]


async def test_a_workflow_whose_key_was_revoked_fails_and_says_so(world: World) -> None:
    key = (await world.gateway.keys.create("", "gone", [Scope.ADMIN])).key
    made = Workflow("flow_1", TURN, key.id, world.clock.now(), "starter", 1)
    await world.workflows.create(made, Request.of("r"))
    claim = await world.workflows.change("flow_1", lambda one: one.claim("a", world.clock.now(), timedelta(seconds=30)))
    await world.gateway.keys.revoke(key.id)
    ending = await runner(world).work(claim, "a")
    assert (ending.outcome, ending.sentence) == (
        Outcome.FAILED,
        f"It acts for {key.id}, which created it: the API key is not known or was revoked.",
    )
    with pytest.raises(Unauthenticated):
        await runner(world).check(TURN, key.id)
