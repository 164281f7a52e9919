"""Which handlers of test code swallow an assertion that fails.."""

import ast
import textwrap

import pytest

from sandbox_service.cage.test_code import caught


def swallowing(code: str) -> list[int]:
    """The lines of handlers that do."""
    tree = ast.parse(textwrap.dedent(code))
    found = caught.Handlers(tree.body).swallowing
    return sorted(one.lineno for one in ast.walk(tree) if id(one) in found)


@pytest.mark.parametrize("kind", ["Exception", "BaseException", "AssertionError", "(KeyError, AssertionError)"])
@pytest.mark.parametrize(
    "does", ["pass", "continue", "print('wrong')", "failed += 1", "log.error('x')", "return False"]
)
def test_what_goes_no_further_is_swallowed(kind: str, does: str) -> None:
    code = f"""
    def test_f():
        for x in (1, 2):
            try:
                assert f(x) == 2
            except {kind}:
                {does}
        print(failed)
    """
    assert swallowing(code) == [6]


@pytest.mark.parametrize(
    "after", ["assert not failed", "if failed: raise ValueError", "sys.exit(failed)", "self.assertFalse(failed)"]
)
def test_what_is_kept_and_compared_is_judged(after: str) -> None:
    code = "failed = 0\ntry:\n    assert f(1) == 2\nexcept AssertionError:\n    failed += 1\n"
    assert (swallowing(code), swallowing(code + after)) == ([4], [])


@pytest.mark.parametrize("does", ["raise", "assert f(1) == 3", "self.fail()", "sys.exit(1)", "assert False, 'x'"])
def test_what_judges_by_itself(does: str) -> None:
    assert swallowing(f"try:\n    assert f(1) == 2\nexcept Exception:\n    {does}\n") == []


def test_the_end_of_a_search_judges() -> None:
    code = "for want in (2, 3):\n    try:\n        assert f(1) == want\n        break\n"
    code += "    except AssertionError:\n        pass\n"
    assert (swallowing(code), swallowing(code + "else:\n    raise Exception\n")) == ([5], [])


@pytest.mark.parametrize(
    "does", ["raise AssertionError('equal')", "self.fail()", "assert False", "pytest.fail('equal')"]
)
def test_a_failure_that_is_wanted(does: str) -> None:
    """BigCodeBench/887."""
    code = "try:\n    assert_frame_equal(f(1), f(2))\nexcept AssertionError:\n    pass\n"
    assert swallowing(f"{code}else:\n    {does}\n") == []
    assert swallowing(f"{code}else:\n    assert f(2) == 3\n") == [3]


def test_what_a_helper_returns_is_judged_elsewhere() -> None:
    helper = "def holds(x):\n    try:\n        assert f(x)\n        return True\n"
    helper += "    except AssertionError:\n        return False\n"
    assert swallowing(helper + "print(holds(1))\n") == [5]
    assert swallowing(helper + "assert holds(1)\n") == []


def test_a_comparison_that_is_swallowed_judges_nothing() -> None:
    one = "try:\n    assert f(1) == 2\n    passed += 1\nexcept AssertionError:\n    print('wrong')\n"
    assert swallowing(one + one) == [4, 9]


def test_handlers_of_other_exceptions_are_left_alone() -> None:
    assert swallowing("try:\n    assert f(1) == 2\nexcept (ValueError, errors.Mine):\n    pass\n") == []
