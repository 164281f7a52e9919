from ratchet_kit.errors import Unavailable
from ratchet_policies import Engine, Node, NodeReport, NodeState, PolicyState, Purpose
from ratchet_policies.breaker import LIMIT
from ratchet_policies.member import Member

from .nodes import MemoryNode


def report(*policies: str) -> NodeReport:
    engines = tuple(Engine(name, PolicyState.READY, "sha256:1", Purpose.SERVING, 0) for name in policies)
    return NodeReport(Node("a", NodeState.SERVING, 4, engines, {}), ())


def fail(member: Member, policy: str) -> None:
    for _ in range(LIMIT):
        try:
            with member.serving(policy, 1):
                raise Unavailable("the engine died")
        except Unavailable:
            pass


def test_a_breaker_stays_as_long_as_its_engine() -> None:
    member = Member("a", MemoryNode("a"))
    fail(member, "starter@2")
    member.answered(report("starter@2"))
    assert not member.allows("starter@2")
    member.answered(report())
    assert member.allows("starter@2"), "what is loaded anew is a new engine"


def test_requests_under_way_are_its_load_whatever_it_reports() -> None:
    member = Member("a", MemoryNode("a"))
    with member.serving("starter@2", 3):
        member.answered(report("starter@2"))
        assert member.load("starter@2") == 3
    assert member.load("starter@2") == 0
