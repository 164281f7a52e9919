"""Which runtime a program gets, and what it's told when there's none."""

import pytest

from ratchet_kit.errors import FailedPrecondition, InvalidArgument, Unimplemented
from sandbox_service.domain.capabilities import Capabilities, Runtime
from sandbox_service.domain.program import CallTest, CheckTest, Program, StdioTest
from sandbox_service.domain.runtimes import foreign_imports, is_plain, settle

NUMPY = frozenset({"numpy"})
SCIENCE = frozenset({"numpy", "pandas", "sklearn", "scipy"})
HERE = Capabilities(
    (),
    "3.11",
    2,
    runtimes=(
        Runtime("python", "python", "3.11"),
        Runtime("science", "python", "3.11", modules=SCIENCE),
        Runtime("numpy", "python", "3.11", modules=NUMPY),
        Runtime("cpp", "cpp", "12"),
    ),
    missing_languages={"go": "install golang"},
    processes=True,
)


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os, sys\nfrom collections import Counter", set()),
        ("import numpy as np", {"numpy"}),
        ("import os, numpy.linalg as la, pandas", {"numpy", "pandas"}),
        ("from sklearn.linear_model import LinearRegression", {"sklearn"}),
        ("def f():\n    import numpy", {"numpy"}),
        ("if True: import numpy\nimport pandas", {"numpy", "pandas"}),
        ('"""\nimport numpy\n"""', set()),
        ("from . import numpy", set()),
        ("import numpy\ndef (", {"numpy"}),
        ("x = 'import numpy'", set()),
        ("import numpy\n" + "x = 1\n" * 20_000, {"numpy"}),
        ("import numpy\n" + "(" * 500, {"numpy"}),
        ("import numpy\nx = '\0'", {"numpy"}),
    ],
)
def test_foreign_imports(source: str, found: set[str]) -> None:
    assert foreign_imports(source) == found


@pytest.mark.parametrize(
    ("source", "runtime"),
    [
        ("import math", "python"),
        ("import numpy", "numpy"),
        ("import numpy, pandas", "science"),
        ("from scipy import stats", "science"),
        ("import nobody_has_this", "python"),
        ("import numpy, nobody_has_this", "numpy"),
    ],
)
def test_imports_choose_the_smallest_that_has_them(source: str, runtime: str) -> None:
    assert settle(Program("p", source), HERE).runtime == runtime


def test_the_tests_imports_count() -> None:
    program = Program("p", "f = sum", "f", (CheckTest("import numpy\nassert f([1]) == 1"), CallTest(([1],), 1)))
    assert settle(program, HERE).runtime == "numpy"


def test_what_is_named_is_taken() -> None:
    assert settle(Program("p", "import math", runtime="science"), HERE).runtime == "science"


def test_a_runtime_that_is_not_here() -> None:
    with pytest.raises(
        Unimplemented,
        match=r"runtime 'torch' is not on this node; it has python, science, numpy.*setup.sh sandbox-torch",
    ):
        settle(Program("p", "", runtime="torch"), HERE)


@pytest.mark.parametrize("name", ["cpp", "CPP", "c++", "C++"])
def test_names_of_a_language(name: str) -> None:
    assert settle(Program("p", "", language=name), HERE).language == "cpp"


def test_a_language_that_could_be_here() -> None:
    with pytest.raises(Unimplemented, match="language 'go' is not on this node: install golang; it has cpp, python"):
        settle(Program("p", "", language="golang"), HERE)


def test_what_another_language_cannot_have() -> None:
    stdio, call = StdioTest("", ""), CallTest((), 1)
    with pytest.raises(InvalidArgument) as caught:
        settle(Program("p", "", tests=(stdio, call), language="cpp"), HERE)
    assert [violation.field for violation in caught.value.violations] == ["program.tests[1]"]
    main = "int main() { f(); }"
    apart, beside = CheckTest(main), CheckTest(main, shared=True)
    with pytest.raises(InvalidArgument, match="takes stdio tests, and check tests that are shared"):
        settle(Program("p", "", tests=(beside, apart), language="cpp"), HERE)
    with pytest.raises(InvalidArgument, match=r"tests\[0\]: must have a main function in cpp"):
        settle(Program("p", "", tests=(CheckTest("f();", shared=True),), language="cpp"), HERE)
    with pytest.raises(InvalidArgument, match=r"program\.runtime: 'numpy' is not a runtime of cpp"):
        settle(Program("p", "", language="cpp", runtime="numpy"), HERE)


def test_processes_where_they_cannot_be_held() -> None:
    without = Capabilities((), "3.11", 2)
    with pytest.raises(FailedPrecondition, match="processes: programs may start processes only where"):
        settle(Program("p", "", processes=True), without)


@pytest.mark.parametrize(
    ("program", "plain"),
    [
        (Program("p", "import os, re\nx = 1"), True),
        (Program("p", "import numpy"), False),
        (Program("p", "", tests=(CheckTest("import numpy"),)), False),
        (Program("p", "", language="cpp"), False),
        (Program("p", "", processes=True), False),
        (Program("p", "", runtime="numpy"), False),
    ],
)
def test_most_programs_are_plain(program: Program, plain: bool) -> None:
    assert is_plain(program) is plain
