"""Task folders as SWE-bench has them: a repository with its history in an image, a fault to be mended, tests."""

import os
import subprocess
from pathlib import Path

from ratchet_testing import images

NAME = "swe/calc:1"
_WRONG = "def mean(numbers):\n    return sum(numbers) / len(numbers)\n"
_RIGHT = "def mean(numbers):\n    return sum(numbers) / len(numbers) if numbers else 0\n"
_PATCH = f"""--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def mean(numbers):
-    return sum(numbers) / len(numbers)
+{_RIGHT.splitlines()[1]}
"""
_SOLVE = "git apply /solution/fix.patch && git rm -q legacy.py && git -c user.name=a -c user.email=a commit -qam fix"
_KEPT = (
    "[ ! -e /testbed/legacy.py ] && [ -e /testbed/data/x.txt ] && git -C /testbed diff --quiet HEAD -- data conftest.py"
)
_REWARD = "echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"
_TOML = """[metadata.ratchet]
judge = "{judge}"
[environment]
docker_image = "{image}"
workdir = "/testbed"
"""
TESTS = {
    "program": "\n".join([
        "run() { subject run python3 -c \"import calc; print(repr(calc.mean($1)))\"; }",
        f"[ \"$(run '[1, 2, 6]')\" = 3.0 ] && [ \"$(run '[]')\" = 0 ] && [ \"$(run '[5]')\" = 5.0 ] && {_REWARD}",
    ]),
    "files": f"{_KEPT} && [ \"$(git -C /testbed rev-list --count HEAD)\" = 3 ] && {_REWARD}",
    "process": f"cp /tests/test_calc.py . && python3 -m unittest -q test_calc && {_REWARD}",
}  # fmt: skip
_UNITTEST = """import unittest
import calc
class Calc(unittest.TestCase):
    def test_it(self):
        self.assertEqual((calc.mean([1, 2, 6]), calc.mean([])), (3, 0))
"""


def save_image(folder: Path, name: str = NAME, with_its_fix: bool = False) -> None:
    """`with_its_fix`: a branch of its repository has the solution, as a careless image does."""
    repository = folder.parent / f"repository-{name.replace('/', '-').replace(':', '-')}"
    (repository / "data").mkdir(parents=True)

    def commit(words: str, **files: str) -> None:
        for file, text in files.items():
            (repository / file.replace("__", "/").replace("_txt", ".txt").replace("_py", ".py")).write_text(text)
        for command in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", words]):
            subprocess.run(["git", "-C", repository, *command], check=True, env=os.environ | {"HOME": str(folder)})

    subprocess.run(["git", "init", "-q", "-b", "main", repository], check=True)
    commit("begin", calc_py="def mean(numbers):\n    pass\n", conftest_py="", data__x_txt="x", legacy_py="")
    commit("mean", calc_py=_WRONG)
    if with_its_fix:
        subprocess.run(["git", "-C", repository, "checkout", "-qb", "fix"], check=True)
        commit("fix", calc_py=_RIGHT)
        subprocess.run(["git", "-C", repository, "checkout", "-q", "main"], check=True)
    layers = [images.of_machine(), images.of_folder(repository, "testbed")]
    images.save(folder / f"{name.partition('/')[2].replace(':', '-')}.tar", name, layers, workdir="/testbed")


def make(folder: Path, judge: str, image: str = NAME) -> Path:
    path = folder / f"{judge}-{image.partition('/')[2].partition(':')[0]}"
    texts = {
        "task.toml": _TOML.format(judge=judge, image=image),
        "instruction.md": "mean([]) must be 0. Remove legacy.py.",
        "solution/solve.sh": _SOLVE,
        "solution/fix.patch": _PATCH,
        "tests/test.sh": TESTS[judge],
        "tests/test_calc.py": _UNITTEST,
    }
    for name, text in texts.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path
