"""The honest programs that ship: named once each, of every kind, and such as the service takes."""

from collections import Counter

from ratchet.common.v1 import problem_pb2
from sandbox_service import honest
from sandbox_service.convert import Bounds, programs_from_proto
from sandbox_service.settings import Settings

LANGUAGES = {"", "bash", "c", "cpp", "go", "java", "javascript", "rust"}


def test_what_ships() -> None:
    cases = honest.cases()
    assert len(cases) > 850
    assert len({case.id for case in cases}) == len(cases)
    kinds = Counter(case.tests[0].WhichOneof("kind") for case in cases)
    assert min(kinds["call"], kinds["check"], kinds["stdio"]) >= 100
    assert {case.language for case in cases} == LANGUAGES
    gradings = {case.tests[0].check.grading for case in cases if case.tests[0].HasField("check")}
    assert gradings == {problem_pb2.CheckTest.GRADING_STRICT, problem_pb2.CheckTest.GRADING_SHARED}


def test_the_service_takes_them() -> None:
    bounds = Bounds(Settings().max_limits, Settings().max_source_bytes)
    for case in honest.cases():
        (program,) = programs_from_proto([case], bounds, 0)
        assert program.id == case.id


def test_a_wrong_twin_defines_the_entry_point_and_answers_wrong() -> None:
    twins = [twin for case in honest.cases() if (twin := honest.wrong(case))]
    assert len(twins) >= 400
    for twin in twins:
        owner, _, method = twin.entry_point.rpartition(".")
        namespace: dict[str, object] = {"__name__": "twin"}
        exec(twin.source, namespace)
        if twin.entry_point:
            found = getattr(namespace[owner](), method) if owner else namespace[method]  # type: ignore[operator]
            assert found(1, x=2) == "wrong"
