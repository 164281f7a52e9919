"""What a completion means, told by running it."""

import ast
import gzip
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ratchet_problems import outline, scripts
from ratchet_problems.extraction import extract_code, first_block, source_for
from ratchet_problems.languages import LANGUAGES

FUNCTION = "def add(a, b):\n    return a + b\n"
STUB = 'from typing import List\n\ndef add(a: int, b: int) -> int:\n    """Adds."""\n'

ANSWERS = {
    "a program": FUNCTION,
    "a program with CRLF": FUNCTION.replace("\n", "\r\n"),
    "a fence": f"```python\n{FUNCTION}```",
    "words and a fence": f"Sure! Here it is:\n\n```python\n{FUNCTION}```\nHope that helps.",
    "a heading and a fence": f"# Solution\n\nHere it is.\n\n```python\n{FUNCTION}```",
    "an open fence": f"```python\n{FUNCTION}",
    "tildes": f"~~~ python\n{FUNCTION}~~~",
    "four ticks around three": f'````python\nTEXT = """\n```\n"""\n{FUNCTION}````\nend',
    "a fence in a list": "1. First:\n   ```python\n   def add(a, b):\n       return a + b\n   ```\n2. done",
    "code away from the margin": "```python\n    def add(a, b):\n        return a + b\n```",
    "a fence behind words": f"Here: ```python\n{FUNCTION}```",
    "a fence that ends the code's last line": "```python\ndef add(a, b):\n    return a + b```",
    "a fence that the prompt opened": f"{FUNCTION}```\nThis adds two numbers.",
    "and another one after it": f"{FUNCTION}```\nThis adds two numbers:\n```python\nprint(add(1, 2))\n```",
    "markdown in a fence": f"```markdown\n# Title\n```python\n{FUNCTION}```\n```",
    "words before": f"Here is the function:\n{FUNCTION}",
    "words after": f"{FUNCTION}\nThis adds the two numbers and returns their sum.",
    "words with brackets and apostrophes": f"Sure, here's the code (as you asked:\n\n{FUNCTION}\nIt's O(1) time.",
    "markdown without a fence": f"**Solution**\n\n{FUNCTION}\n**Explanation**: it's easy\n- uses +\n- O(1)\n",
    "words of another script": f"以下是代码：\n{FUNCTION}这个函数返回两个数的和。",
    "a last word": f"{FUNCTION}\nDone\n",
    "an indented block": "Here you go\n\n    def add(a, b):\n        return a + b\n",
    "tags": f"[PYTHON]\n{FUNCTION}[/PYTHON]\n[TESTS]\nassert add(1, 2) == 4\n[/TESTS]",
    "a special token after": f"{FUNCTION}<|im_end|>",
    "special tokens around": f"<|assistant|>\n```python\n{FUNCTION}```</s>",
    "the next turn": f"```python\n{FUNCTION}```<|im_end|>\n<|im_start|>user\nthanks",
    "a thought": f"<think>maybe ```python\ndef add(): pass\n``` no</think>\n{FUNCTION}",
    "a thought that the prompt opened": f"```python\ndef add(a, b): pass\n```\n</think>\n\n```python\n{FUNCTION}```",
    "two thoughts": f"<think>a</think>\n<think>b</think>\n{FUNCTION}",
    "a thought after it": f"```python\n{FUNCTION}```\n<reasoning>\n```python\ndef add(): pass\n```\n</reasoning>",
    "a fence in a block quote": "So:\n> ```python\n> def add(a, b):\n>     return a + b\n> ```\n> That is all.\n",
    "an answer in tags": f"<answer>{FUNCTION}</answer>",
    "an answer in tags on one line": "So:\n<answer>def add(a, b): return a + b</answer>",
    "an answer in tags with a fence": f"```python\ndef add(): pass\n```\n<answer>\n```python\n{FUNCTION}```\n</answer>",
    "an answer in tags that is words": f"```python\n{FUNCTION}```\n<answer>See above.</answer>",
    "words behind the closing fence": f"```python\n{FUNCTION}``` That is all.",
    "words behind it and more": f"```python\n{FUNCTION}``` Use it so:\n```python\nprint(add(1, 2))\n```",
    "a language behind a space": f"```python\ndef add(): pass\n```\n``` python\n{FUNCTION}```",
    "a correction": f"First:\n```python\ndef add(a, b):\n    return a\n```\nBetter:\n```python\n{FUNCTION}```",
    "a command after it": f"```python\n{FUNCTION}```\nRun it:\n```bash\npython add.py\n```",
    "an example after it": f"```python\n{FUNCTION}```\nUse:\n```python\nprint(add(1, 2))\n```",
    "output after it": f"```\n{FUNCTION}```\nOutput:\n```\n5\n```",
    "a helper in a block before": "```python\nimport math\ndef floor(x): return math.floor(x)\n```\nand\n"
    "```python\ndef add(a, b):\n    return floor(a) + b\n```",
    "cut off in what comes next": f"```python\n{FUNCTION}\ndef other(x):\n    return (x +",
    "cut off without a fence": f"{FUNCTION}\ndef other(x):\n    return (x +",
    "a fence in a string": 'def add(a, b):\n    """\n    >>> x = "```"\n    """\n    return a + b\n',
    "a fence in a docstring": 'def add(a, b):\n    """\n```\nadd(1)\n```\n    """\n    return a + b\n',
    "a torn docstring before": f"```python\ndef add(a, b):\n    '''doc\n    pass\n```\nNo:\n```python\n{FUNCTION}```",
    "a lambda": "add = lambda a, b: a + b",
    "a choice of definitions": "try:\n    from math import no\nexcept ImportError:\n    def add(a, b): return a + b\n",
    "decorators": "import functools\n@functools.lru_cache(maxsize=None)\ndef add(a, b):\n    return a + b",
    "statements of every kind": f"if (n := 5) > 3: k = 1\nmatch n:\n    case 1:\n        y = 2\nfirst, *rest = 1, 2\n"
    f"x = [1,\n2]\n{FUNCTION}\nassert add(1, 2) == 3\nprint(add(2, 2), end='')\nif __name__ == '__main__':\n  add()\n",
    "golf": "def add(a,b):return a+b if 1else 0\nx=[1if i else 0for i in(1,2)]\n",
}


def call(source: str, name: str, *arguments: object) -> object:
    scope: dict = {"__name__": "program"}
    exec(source, scope)
    return scope[name](*arguments)


@pytest.mark.filterwarnings("ignore::SyntaxWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("completion", ANSWERS.values(), ids=ANSWERS)
def test_finds_the_function(completion: str) -> None:
    code = extract_code(completion, "add")
    assert call(code, "add", 2, 3) == 5
    assert extract_code(code, "add") == code
    assert call(source_for(STUB, "add", completion), "add", 2, 3) == 5


STRINGS = {
    "html": ("'<s>' + 'x' + '</s>'", "<s>x</s>"),
    "padding": "['<pad>', '<eos>', '<bos>', '<unk>']",
    "turns": "'<|im_end|><|endoftext|>'",
    "thoughts": "'a<think>b</think>c'",
    "markdown": "'''\n```\n''' + 'x' + '''\n```\n'''",
    "markdown with a language": '"""\n```python\nx = 1\n```\n"""',
    "a thought of its own": '"""\n<think>\nhm\n</think>\n"""',
    "html of many lines": "'''\n<s>\nold\n</s>\n'''",
    "an escape": r"'\'```\''",
}


@pytest.mark.parametrize("frame", ["```python\n{}\n```", "{}", "Here you go:\n\n```\n{}\n```\nIt's done.", "~~~\n{}"])
@pytest.mark.parametrize("literal", [each if isinstance(each, str) else each[0] for each in STRINGS.values()])
def test_strings_are_left_alone(frame: str, literal: str) -> None:
    code = f"def f():\n    return {literal}\n"
    assert call(extract_code(frame.format(code), "f"), "f") == eval(literal)


PROMPT = (
    "from typing import List\nimport math\n\ndef poly(x):\n    return math.floor(x)\n\n\n"
    'def f(x: List[int]) -> int:\n    """ Doc\n    >>> f(1)\n    """\n'
)
CONTINUATIONS = {
    "the body": "    return poly(x)\n",
    "the body in a fence": "You can do:\n```python\n    return poly(x)\n```\n",
    "the body at the margin of a fence": "```python\ny = poly(x)\nreturn y\n```",
    "the body and a fence": "    return poly(x)\n```\nHope this helps",
    "the body and words": "    return poly(x)\n\nThis function returns the floor.\n",
    "a thought and the body": "<think>hm</think>    return poly(x)\n",
    "a body with a function": "    def g(y):\n        return poly(y)\n    return g(x)\n",
    "a body with a fence in a string": '    """more\n```\nf(1)\n```\n    """\n    return poly(x)\n',
    "what comes next is cut off": "    return poly(x)\n\n\ndef g(x):\n    return (",
    "the function again": "```python\ndef f(x: List[int]) -> int:\n    return poly(x)\n```",
    "the function again, without a fence": "def f(x: List[int]) -> int:\n    return poly(x)\n",
    "with half of the imports": "from typing import List\ndef f(x: List[int]) -> int:\n    return math.floor(x)\n",
    "with a __future__": "from __future__ import annotations\ndef f(x: List[int]) -> int:\n    return poly(x)\n",
    "away from the margin": "    def f(x):\n        return poly(x)\n",
    "all of it": f"```python\n{PROMPT}    return poly(x)\n```",
}


@pytest.mark.parametrize("frame", ["{}", "Complete this:\n```python\n{}```\n", "```python\n{}", "Write it.\n\n{}"])
@pytest.mark.parametrize("completion", CONTINUATIONS.values(), ids=CONTINUATIONS)
def test_an_answer_has_its_prompts_imports_and_helpers(completion: str, frame: str) -> None:
    assert call(source_for(frame.format(PROMPT), "f", completion), "f", 2.5) == 2


def test_nothing_comes_in_front_of_what_lacks_nothing() -> None:
    again = "def add(a, b): return a\n"
    assert source_for("def add(a, b):\n", "add", again) == again
    assert source_for("Write `add`.", "add", f"```python\n{FUNCTION}```") == FUNCTION


def test_a_solution_has_the_names_that_its_judge_lends() -> None:
    method = "    def f(self, xs: List[int], k: Optional[int]) -> Dict[int, List[int]]:\n"
    body = "        heapq.heapify(xs)\n        return deque(xs)[0] + bisect_left(xs, 3) + gcd(4, 6)\n"
    source = source_for("", "Solution.f", f"```python\nclass Solution:\n{method}{body}```")
    assert call(f"{source}\nrun = Solution().f", "run", [3, 1, 2], None) == 4
    own = "from typing import List\nclass Solution:\n    def f(self, xs: List[int]): return xs\n"
    assert source_for("", "Solution.f", own) == own


HEADER = "class Solution:\n    def g(self, x):\n        return x + 1\n    def f(self, xs: List[int]) -> int:\n        "
METHODS = {
    "at the margin": "def f(self, xs):\n    return max(xs) + 1\n",
    "as deep as in its class": "    def f(self, xs):\n        return max(xs) + 1\n",
    "with another": "def h(self, x):\n    return x + 1\n\ndef f(self, xs):\n    return self.h(max(xs))\n",
    "with what it uses of the class": "def f(self, xs):\n    return self.g(max(xs))\n",
    "with an import": "import heapq\n\ndef f(self, xs):\n    return heapq.nlargest(1, xs)[0] + 1\n",
    "with a decorated function": "@lru_cache(None)\ndef one(x):\n    return x + 1\n\n"
    "def f(self, xs):\n    return one(max(xs))\n",
    "without self": "def f(xs: List[int]) -> int:\n    return max(xs) + 1\n",
    "its body": "return max(xs) + 1\n",
}


@pytest.mark.parametrize(
    "prompt", ["", HEADER, f"Complete this:\n\n```python\nfrom typing import *\n\n{HEADER}\n```\n"]
)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_alone_is_put_into_its_class(prompt: str, method: str) -> None:
    if not prompt and method in ("its body", "with what it uses of the class"):
        pytest.skip("nothing says what that is")
    for completion in (f"Here it is:\n```python\n{METHODS[method]}```\nDone.", f"```python\n{METHODS[method]}"):
        source = source_for(prompt, "Solution.f", completion)
        assert call(f"{source}\nrun = Solution().f", "run", [3, 1, 2]) == 4


def test_a_wrong_method_alone_stays_wrong() -> None:
    source = source_for(HEADER, "Solution.f", "```python\ndef f(self, xs):\n    return 0\n```")
    assert call(f"{source}\nrun = Solution().f", "run", [3, 1, 2]) == 0


SUM = "n = int(input())\na = list(map(int, input().split()))\nprint(sum(a))\n"
MAIN = "a = list(map(int, input().split()))\nprint(solve(a))\n"
SOLVE = "def solve(a):\n    return max(a) % MOD\n"
SCRIPTS = {
    "an excerpt after it": ([SUM, "print(sum(a))\n"], SUM),
    "an excerpt of a function after it": ([SUM, "if x > best:\n    best = x\n    return best\n"], SUM),
    "a function before": (["MOD = 7\n" + SOLVE, MAIN], "MOD = 7\n" + SOLVE + MAIN),
    "an import before": (["import sys\n", "print(sum(map(int, sys.stdin)))\n"], None),
    "an import with a function before": (["import sys\nMOD = 7\n" + SOLVE, "print(solve(sys.stdin))\n"], None),
    "a draft before": ([SUM, "print(int(input()) + 1)\n"], "print(int(input()) + 1)\n"),
    "a draft before, whose function it uses": (["MOD = 7\n" + SOLVE + MAIN, "print(solve([int(input())]))\n"],
                                               "MOD = 7\n" + SOLVE + "print(solve([int(input())]))\n"),
    "an example after it": (["MOD = 7\n" + SOLVE + MAIN, "print(solve([1, 2]))\n"], "MOD = 7\n" + SOLVE + MAIN),
    "step by step": (["n = int(input())\n", "ans = 0\nfor i in range(n):\n    ans += i\n", "print(ans)\n"], None),
    "what nobody defines": (["x = 1\n", "print(y)\n"], "print(y)\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", SCRIPTS)
def test_a_script_has_what_it_uses_of_blocks_before(case: str) -> None:
    blocks, script = SCRIPTS[case]
    found = extract_code("Here:\n" + "So:\n".join(f"```python\n{block}```\n" for block in blocks))
    assert found == ("".join(blocks) if script is None else script)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("for i, (x, y) in enumerate([]): print(i, x, y)\nwith open('x') as z: print(z, end='', sep=i)", ""),
        ("f = lambda x, y=2: x + y + q", "q"),
        ("dp[i] = dp[j - 1].k\n(a, b), *c = 1, 2\n[d] = a, b, c, d\nx: int = 3", "dp i j"),
        ("print(max(x + b for x in a), {k: v for k, v in a})", "a b"),
        ("def f(x: T = None, *a, k=INF, **kw) -> U:\n    return x, a, k, kw, y", "T INF U y"),
        ("try: g()\nexcept (A, B) as e: print(e)\nif (n := 3): k = n; m = k", "g A B"),
        ("from m import *\nprint(whatever)", ""),
        ("import os.path as p, sys\nclass P(Q):\n    x = 1\n    def g(self): return p, sys, self.x", "Q"),
        ("match x:\n    case [p, q]: print(p)\nt = a = b = 0\nt += a", "x"),
    ],
)
def test_names_that_a_script_lacks(code: str, names: str) -> None:
    assert scripts.lacks(code) == set(names.split())


def test_other_languages_are_found_by_their_fences() -> None:
    answer = "So:\n```cpp\nint main() {}\n```\nIt prints:\n```\n3\n```"
    assert extract_code(answer, language="cpp") == "int main() {}\n"
    assert extract_code("#include <x>\nclass A {};\n", language="cpp") == "#include <x>\nclass A {};\n"
    assert source_for("", "f", "```js\n1\n```\n```python\n2\n```", "javascript") == "1\n"


@pytest.mark.parametrize("language", [one for one in LANGUAGES if one != "python"])
def test_the_last_fence_in_the_problems_language_is_the_answer(language: str) -> None:
    names = {"cpp": "c++", "javascript": "js", "go": "golang", "rust": "rs", "bash": "sh"}
    better = f"Better:\n```{names.get(language, language)}\nlast\n```\n"
    answer = f"First:\n```{language}\nfirst\n```\n{better}Run it:\n```python\nrun()\n```\n"
    assert source_for("Write it.", "f", answer, language) == "last\n"
    assert source_for("Write it.", "f", "```\nplain\n```\n", language) == "plain\n"


def test_the_first_block_is_what_the_other_door_takes() -> None:
    assert first_block(ANSWERS["a correction"], "python") == "def add(a, b):\n    return a"
    assert first_block("no code at all", "python") == ""


def test_what_cannot_be_found_is_not_invented() -> None:
    assert extract_code("I am not able to do that.", "add") == "I am not able to do that."
    assert extract_code("", "add") == ""
    assert extract_code("<think>hm\ndef add(a, b): ...") == ""


def test_broken_code_stays_broken() -> None:
    assert extract_code("def add(a, b:\n    return", "add").startswith("def add(a, b:")


def test_a_lone_surrogate_becomes_valid_utf8() -> None:
    extract_code("x = '\udc80'").encode()


def nested(depth: int, returns: int) -> str:
    """What takes a compiler gigabytes: each level's code is there once for each way out."""
    source = "def f(x):\n"
    for level in range(1, depth + 1):
        margin = " " * level
        source += f"{margin}try:\n" + f"{margin} if x: return 1\n" * returns + f"{margin}finally:\n"
    return source + " " * (depth + 1) + "pass\n"


UNITS = [
    "```", "a", "def f(:\n", "x = [\n", "```\n", "<think>", "</think>", "</think>\n", "<|im_end|>", "'''", "'''\n",
    "```\n'''\n```\n", "a b (\n", "don't (x\n", "x = (a b\n", "'\\\n", '"""\\', "()", "\\", "#\n", "@a\n", " \n", "\n",
    "\r", "\t", "~~~\n", "```python\n", "~~~~\n```\n", "from a import b\n", "import a,", "a=b;", "if x:\n", "Time: O\n",
    "'\n", "\"\n'\n", "</s>", "<s>\n", "````\n```\n", "[", "def f(x):\n  '''\n```\n'''\n", "    ", "x ", "1 ",
    "List ", "return 1\n", "```markdown\n", "x```python\n", "import a\n```\n", "```markdown\n```\n", "from x import (",
    "> ```\n\n", "> ```\n", "<answer>", "<answer>\n```\n", "``` a\n",
]  # fmt: skip


def seconds(text: str) -> float:
    began = time.process_time()
    source_for(PROMPT, "f", text)
    source_for(text, "Solution.f", "    return 1\n")
    first_block(text, "python")
    extract_code(f"```python\n{text}\n```\n```python\nprint(x)\n```")
    scripts.lacks(text)
    outline.imported(text)
    return time.process_time() - began


@pytest.mark.parametrize("before", ["", "def f(x):\n    return x\n", "```python\n"], ids=["bare", "code", "fence"])
def test_reading_takes_time_in_proportion(before: str) -> None:
    """Eight times the text takes eight times as long; with a square in it, it would be 64."""
    slow = {}
    for unit in UNITS:
        short, long = (before + unit * (size // len(unit)) for size in (1_000, 8_000))
        least = min(seconds(short), seconds(short))
        most = min(seconds(long) for _ in range(2))
        if most > 25 * max(least, 0.002):
            slow[unit] = (least, most)
    assert slow == {}


def test_no_text_is_compiled() -> None:
    assert seconds(nested(8, 12)) < 0.5
    assert seconds("x = " + "(" * 1_000_000) < 5


PIECES = st.sampled_from(
    [*UNITS, FUNCTION, STUB, "    return f(x)\n", "```", '"""', "class Solution:\n", "words here\n"]
)


@settings(max_examples=300)
@given(
    st.lists(PIECES | st.text(max_size=8), max_size=12).map("".join), st.sampled_from(["", "f", "Solution.f", "add"])
)
def test_any_text_is_read(text: str, entry_point: str) -> None:
    for prompt, completion in ((PROMPT, text), (text, FUNCTION), (text, text)):
        source_for(prompt, entry_point, completion).encode()
    for language in ("python", "cpp", ""):
        extract_code(text, "f", language).encode()
        extract_code(f"{text}\n```python\n{text}\n```", "", language).encode()
        first_block(text, language).encode()
    read = list(outline.statements(text))
    assert all(a.end <= b.start for a, b in itertools.pairwise(read))


# --- real outputs

REAL = Path(__file__).parents[4] / "shared" / "data"
FRAMES = {
    "a fence": "```python\n{}\n```",
    "words and a fence": "Sure! Here's the solution:\n\n```python\n{}\n```\n\nIt runs in O(n) time.",
    "an open fence": "```python\n{}",
    "a fence without a language": "```\n{}\n```",
    "a draft before": "First idea:\n```python\ndef {name}(*a): return 0\n```\nBetter:\n```python\n{}\n```",
    "an example after": "```python\n{}\n```\nUsage:\n```python\nprint({name})\n```",
    "a thought before": "<think>Is it ```python\ndef {name}(): pass\n```? No.</think>\n```python\n{}\n```",
    "cut off later": "```python\n{}\n\ndef helper(x):\n    return (x +",
    "bare": "{}",
}


def _real_programs() -> Iterator[tuple[str, str]]:
    """Name of the function, and a whole program of Qwen2.5-Coder or of a reference, that parses."""
    rows = json.loads(
        gzip.decompress((REAL / "samples/qwen2.5-coder/1.5b-base.evalplus-mbpp.eval_results.json.gz").read_bytes())
    )["eval"]
    table = gzip.decompress((REAL / "evalplus/MbppPlus-v0.1.0.jsonl.gz").read_bytes()).splitlines()
    names = {row["task_id"]: row["entry_point"] for row in map(json.loads, table)}
    for task, (row,) in rows.items():
        try:
            tree = ast.parse(row["solution"])
        except SyntaxError:
            continue
        if any(isinstance(node, ast.FunctionDef) and node.name == names[task] for node in tree.body):
            yield names[task], row["solution"].strip()


@pytest.mark.parametrize("frame", FRAMES)
def test_real_programs_come_out_of_every_frame(frame: str) -> None:
    if not REAL.exists():
        pytest.skip(f"{REAL} isn't there: published samples lie beside the project, not in it")
    wrong = []
    programs = list(_real_programs())
    assert len(programs) > 350
    for name, program in programs:
        found = extract_code(FRAMES[frame].replace("{name}", name).replace("{}", program), name)
        if ast.dump(ast.parse(found)) != ast.dump(ast.parse(program)):
            wrong.append((name, found))
    assert not wrong, wrong[:3]


CPP = "#include <vector>\nusing namespace std;\n/* Adds. */\nint add(int a, int b) {\n"
BODY = "    return a + b;\n}\n"


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        (BODY, f"{CPP}    return a + b;\n}}"),
        (f"{BODY}int main() {{ add(1, 2); }}\n", f"{CPP}    return a + b;\n}}"),
        (f"{CPP}{BODY}", f"{CPP}{BODY}"),
        (f"Here:\n```cpp\n{CPP}{BODY}```\n", f"{CPP}{BODY}"),
        (
            f"```cpp\nint add(int a, int b) {{\n{BODY}```",
            f"#include <vector>\nusing namespace std;\nint add(int a, int b) {{\n{BODY}",
        ),
    ],
    ids=("goes on", "says more", "repeats the prompt", "whole in a fence", "a fence without what it includes"),
)
def test_an_answer_in_another_language(completion: str, program: str) -> None:
    assert source_for(CPP, "add", completion, "c++") == program


def test_nothing_stands_before_a_package() -> None:
    prompt = 'package main\nimport "strings"\nfunc up(s string) string {\n'
    answer = "package main\nfunc up(s string) string { return s }\n"
    assert source_for(prompt, "up", f"```go\n{answer}```", "go") == answer


def test_words_in_a_prompt_begin_no_program() -> None:
    assert source_for("Read two numbers, print their sum. In Go.", "", "package main\n", "go") == "package main\n"
