"""Tables of other projects as problems."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import (
    AnswerTest,
    CallTest,
    CheckTest,
    Message,
    Problem,
    StdioTest,
    examine,
    jsonl,
    mapping,
    tables,
)

HUMAN_EVAL = {
    "task_id": "T/0",
    "prompt": "def f(): ...",
    "entry_point": "f",
    "canonical_solution": "x",
    "test": "def check(f): f()",
}
MBPP = {"task_id": 11, "text": "Add.", "code": "def f(): ...", "test_list": ["assert f() == 1", "assert f() != 2"]}
APPS = {
    "question": "Add.",
    "solutions": json.dumps(["print(1)", "print(2)"]),
    "input_output": json.dumps({"inputs": ["1 2\n", ["3", "4"]], "outputs": ["3", "7"]}),
}
TACO = {"question": "Add.", "input_output": json.dumps({"fn_name": "add", "inputs": [[1, 2]], "outputs": [3]})}
VERL = {"prompt": [{"role": "user", "content": "Add."}], "tests": [{"stdin": "1", "expected_stdout": "1"}]}


def written(path: Path, rows: list[Mapping[str, Any]]) -> Path:
    match path.suffix:
        case ".jsonl":
            path.write_text("\ufeff" + "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".json":
            path.write_text(json.dumps(rows))
        case ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def read(path: Path, **wanted: str) -> list[Problem]:
    columns = mapping.columns((name for _, row in mapping.rows(path) for name in row), wanted)
    return list(mapping.problems(path, columns))


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize(
    ("row", "id", "tests", "references"),
    [
        (HUMAN_EVAL, "T/0", (CheckTest("def check(f): f()"),), ("x",)),
        (MBPP, "11", (CheckTest("assert f() == 1\nassert f() != 2"),), ("def f(): ...",)),
        (APPS, "set/1", (StdioTest("1 2\n", "3"), StdioTest("3\n4", "7")), ("print(1)", "print(2)")),
        (TACO, "set/1", (CallTest("[1, 2]", "3"),), ()),
        (VERL, "set/1", (StdioTest("1", "1"),), ()),
    ],
)
def test_public_forms_need_no_mapping(
    tmp_path: Path, suffix: str, row: Mapping[str, Any], id: str, tests: tuple[Any, ...], references: tuple[str, ...]
) -> None:
    (problem,) = read(written(tmp_path / f"set{suffix}", [row]))
    assert (problem.id, problem.tests, problem.references) == (id, tests, references)
    assert problem.entry_point == {"set/1": "add" if row is TACO else "", "11": "f", "T/0": "f"}[id]


GSM8K = {"question": "How many?", "answer": "3 x 14 = <<3*14=42>>42 apples.\n#### 42"}
MATH = {"problem": "How much?", "level": "Level 3", "type": "Algebra", "solution": "So $x = \\boxed{\\frac{1}{2}}$."}
MATH_500 = {"problem": "How much?", "solution": "It is 5.", "answer": "5", "subject": "Algebra", "level": 2}
VERLS = {
    "data_source": "openai/gsm8k",
    "prompt": [{"role": "user", "content": "How many?"}],
    "reward_model": {"style": "rule", "ground_truth": "42"},
}
TRIVIA_QA = {"question": "Where?", "answer": {"value": "Paris", "aliases": ["Paris", "City of Light"]}}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("row", "wanted", "accepted", "references"),
    [
        (GSM8K, {}, ("42",), (GSM8K["answer"],)),
        (MATH, {"answer": "solution", "difficulty": "level", "tags": "type"}, ("\\frac{1}{2}",), (MATH["solution"],)),
        (MATH_500, {"difficulty": "level"}, ("5",), ("It is 5.",)),
        (VERLS, {}, ("42",), ()),
        (TRIVIA_QA, {}, ("Paris", "City of Light"), ()),
        ({"question": "How many?", "answer": 42}, {}, ("42",), ()),
    ],
)
def test_right_answers_of_public_sets_are_read(
    tmp_path: Path,
    suffix: str,
    row: Mapping[str, Any],
    wanted: Mapping[str, str],
    accepted: tuple[str, ...],
    references: tuple[str, ...],
) -> None:
    (problem,) = read(written(tmp_path / f"set{suffix}", [row]), **wanted)
    assert (problem.tests, problem.references) == ((AnswerTest(accepted),), references)
    assert problem.difficulty == {"Level 3": 3, 2: 2}.get(row.get("level", ""), 1)
    tables.write([problem], tmp_path / "kept.parquet")
    assert tables.read(tmp_path / "kept.parquet", "kept") == (problem,)


def test_a_text_that_a_question_is_about_stands_before_it(tmp_path: Path) -> None:
    squad = {"context": "Paris is in France.\n", "question": "Where is Paris?", "answers": {"text": ["France"]}}
    rows = [squad, squad | {"context": None, "question": "Where?"}]
    first, second = read(written(tmp_path / "set.jsonl", rows))
    assert (first.prompt, second.prompt) == ("Paris is in France.\n\nWhere is Paris?", "Where?")
    (without,) = read(written(tmp_path / "bare.jsonl", [squad]), context="")
    assert without.prompt == "Where is Paris?"
    code = {"context": "import os", "prompt": "Write f.", "tests": ["assert f() == 1"]}
    assert read(written(tmp_path / "code.jsonl", [code]))[0].prompt == "Write f."
    assert read(written(tmp_path / "code.jsonl", [code]), context="context")[0].prompt == "import os\n\nWrite f."


@pytest.mark.parametrize(
    ("said", "difficulty"), [("Level 4", 4), ("Easy", 1), ("Hard", 5), ("introductory", 1), (2, 2)]
)
def test_a_difficulty_is_a_number_or_a_word_of_public_sets(tmp_path: Path, said: object, difficulty: int) -> None:
    assert read(written(tmp_path / "set.jsonl", [MBPP | {"difficulty": said}]))[0].difficulty == difficulty


@pytest.mark.parametrize(
    ("row", "wanted", "reason"),
    [
        ({"question": "x", "answer": "so 7\n####"}, {}, "nothing behind its ####"),
        ({"question": "x", "answer": "so \\boxed{7"}, {}, "nothing behind its box"),
        (MATH | {"solution": "So it is 5."}, {"answer": "solution"}, "must be marked in a solution"),
        ({"question": "x", "answer": "4\x002"}, {}, "nor hold NUL"),
    ],
)
def test_a_solution_without_its_answer_is_refused(
    tmp_path: Path, row: Mapping[str, Any], wanted: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        read(written(tmp_path / "set.jsonl", [row]), **wanted)
    with pytest.raises(InvalidArgument, match="must be a finite number"):
        (tmp_path / "big.jsonl").write_text('{"question": "x", "answer": 1e400}')
        read(tmp_path / "big.jsonl")


def test_a_problem_has_tests_or_a_right_answer(tmp_path: Path) -> None:
    both = written(tmp_path / "set.jsonl", [HUMAN_EVAL | {"answer": "42"}])
    assert read(both)[0].answers == ()  # tests come first where nobody maps
    with pytest.raises(InvalidArgument, match="cannot both be mapped"):
        read(both, answer="answer")
    essay = written(tmp_path / "essays.jsonl", [{"question": "Why?", "answer": "x" * 1001}])
    with pytest.raises(InvalidArgument, match="answer: has 1001 characters, 1000 at most: give the final answer alone"):
        read(essay)


SYSTEM, USER, ANSWER = (
    {"role": role, "content": content}
    for role, content in (("system", "Be brief."), ("user", "Add."), ("assistant", "print(1)"))
)


def in_parts(message: Mapping[str, str]) -> Mapping[str, Any]:
    return {"role": message["role"], "content": [{"type": "text", "text": message["content"]}]}


SAID = (Message("system", "Be brief."),)


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".parquet"])
@pytest.mark.parametrize(
    ("row", "conversation", "references"),
    [
        ({"messages": [SYSTEM, USER, ANSWER]}, SAID, ("print(1)",)),  # OpenAI's for fine-tuning, TRL's for SFT
        ({"prompt": [SYSTEM, USER], "completion": [ANSWER]}, SAID, ("print(1)",)),  # TRL's prompt-completion
        ({"messages": [SYSTEM, USER], "code": "print(1)"}, SAID, ("print(1)",)),
        ({"prompt": [SYSTEM, USER], "tests": VERL["tests"]}, SAID, ()),  # verl's
        ({"messages": [SYSTEM, USER], "tests": VERL["tests"]}, SAID, ()),
        ({"messages": [USER, ANSWER, USER, ANSWER]}, (Message("user", "Add."), Message("assistant", "print(1)")), None),
        ({"messages": [SYSTEM | {"role": "developer"}, USER, ANSWER | {"name": None}]}, SAID, None),
        ({"messages": [in_parts(USER), in_parts(ANSWER)]}, (), None),
    ],
)
def test_conversations_of_other_projects_need_no_mapping(
    tmp_path: Path, suffix: str, row: Mapping[str, Any], conversation: Any, references: tuple[str, ...] | None
) -> None:
    (problem,) = read(written(tmp_path / f"set{suffix}", [row]))
    assert (problem.prompt, problem.conversation) == ("Add.", conversation)
    assert problem.references == (("print(1)",) if references is None else references)
    tables.write([problem], tmp_path / "kept.parquet")
    assert tables.read(tmp_path / "kept.parquet", "kept") == (problem,)


def test_what_is_mapped_comes_first_and_what_is_left_out_is_said(tmp_path: Path) -> None:
    row = {"prompt": "no", "words": "Add.", "test": "assert f()", "url": "u"}
    file = written(tmp_path / "set.jsonl", [row])
    assert read(file, prompt="words")[0].prompt == "Add."
    assert str(mapping.columns(row, {"prompt": "words"})) == "prompt <- words, tests <- test; unused: prompt, url"


def test_a_query_is_a_prompt_only_beside_its_response(tmp_path: Path) -> None:
    row = {"prompt": "import math", "query": "Add.", "tests": "assert f()"}
    assert read(written(tmp_path / "sql.jsonl", [row]))[0].prompt == "import math"
    file = written(tmp_path / "leetcode.jsonl", [row | {"response": "..."}])
    assert read(file)[0].prompt == "Add."
    assert read(file, prompt="prompt")[0].prompt == "import math"


def test_a_csv_of_semicolons_says_so(tmp_path: Path) -> None:
    (tmp_path / "set.csv").write_text("prompt;tests\nAdd.;x\n")
    with pytest.raises(InvalidArgument, match="separated by semicolons: write it with commas"):
        read(tmp_path / "set.csv")


def test_a_csv_is_read_by_its_first_line(tmp_path: Path) -> None:
    file = tmp_path / "set.csv"
    file.write_text('question,test\n"Add, please.","def check(f):\n    assert f()"\n')
    (problem,) = read(file)
    assert (problem.prompt, problem.tests) == ("Add, please.", (CheckTest("def check(f):\n    assert f()"),))
    file.write_text("question,question\na,b\n")
    with pytest.raises(InvalidArgument, match=r"set.csv names a column twice"):
        read(file)
    file.write_text("question,test\nonly one\n")
    with pytest.raises(InvalidArgument, match=r"set.csv line 2 has not as many fields"):
        read(file)


@pytest.mark.parametrize(
    ("names", "wanted", "said"),
    [
        (["words", "test"], {}, "no column is the prompt: map one of words, test, such as prompt=words"),
        (["task_id", "test", "a_prompt"], {}, "such as prompt=a_prompt"),
        (["prompt", "x"], {}, "map one of prompt, x, such as tests=x; or tests= (no column) for prompts alone"),
        (["x"], {"tests": ""}, "no column is the prompt"),
        ([], {}, "there is no row with a column"),
        (["prompt", "test"], {"promt": "x"}, "a problem has no field 'promt'; it has id, prompt, "),
        (["prompt", "test"], {"prompt": "x"}, "there is no column 'x'; there are prompt, test"),
    ],
)
def test_a_mapping_that_cannot_be_says_what_there_is(names: list[str], wanted: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        mapping.columns(names, wanted)
    assert said in error.value.message


def test_up_to_twenty_rows_at_fault_are_told_at_once(tmp_path: Path) -> None:
    file = written(tmp_path / "set.jsonl", [{"prompt": 1, "tests": [{}]}] * 30)
    with pytest.raises(InvalidArgument) as error:
        read(file)
    assert error.value.message.startswith(f"set.jsonl line 1 and {jsonl.MOST_FAULTS - 1} more: prompt: must be text")
    assert error.value.message.endswith("there may be more")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"prompt": [{"role": "system", "content": "x"}], "tests": []},
            "prompt[0].role: must be user: the last message, not system's",
        ),
        ({"messages": [USER]}, "tests: must be there, or an answer or references; [] says that it has none"),
        ({"messages": [USER, ANSWER, {"role": "tool", "content": "3"}]}, "prompt[2].role: must be one of system,"),
        ({"prompt": [USER, ANSWER], "tests": VERL["tests"]}, "prompt[1].role: must be user: the last message"),
        ({"prompt": "p", "input_output": {"inputs": ["1"], "outputs": []}}, "1 inputs stand beside 0 outputs"),
        (
            {"prompt": "p", "id": 10**18, "tests": [{"stdin": "", "expected_stdout": ""}]},
            "id: must be text, not a number",
        ),
        ({"prompt": "p", "tests": 3}, "must be records, Python, a list of assertions, or inputs and outputs"),
    ],
)
def test_values_that_cannot_be_read_are_told(tmp_path: Path, row: Mapping[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        read(written(tmp_path / "set.jsonl", [row]))
    assert said in error.value.message


def test_prompts_may_stand_alone_where_it_is_said(tmp_path: Path) -> None:
    rows = [{"prompt": "Write a poem.", "stars": 3}, {"prompt": [USER], "stars": 4}]
    file = written(tmp_path / "set.jsonl", rows)
    problems = read(file, tests="")
    assert [(one.tests, one.references) for one in problems] == [((), ())] * 2
    tables.write(problems, tmp_path / "set.parquet")
    assert tables.read(tmp_path / "set.parquet", "set") == tuple(problems)
    chats = written(tmp_path / "chats.jsonl", [{"messages": [USER]}, {"messages": [USER, ANSWER]}])
    assert [len(one.references) for one in read(chats, tests="")] == [0, 1]
    answered = written(tmp_path / "answered.jsonl", [{"prompt": "6 x 7?", "answer": "42"}])
    assert read(answered, tests="")[0].answers == ("42",)


def test_code_before_assertions_stands_before_them(tmp_path: Path) -> None:
    row = MBPP | {"test_setup_code": "", "test_imports": ["import math", "import re"]}
    (problem,) = read(written(tmp_path / "set.jsonl", [row]))
    assert problem.tests == (CheckTest("import math\nimport re\nassert f() == 1\nassert f() != 2"),)
    assert mapping.columns(row, {}).unused == []


def test_pairs_of_input_and_output_are_read_and_solution_is_a_class(tmp_path: Path) -> None:
    pairs = [{"input": "1 2", "output": "3"}, {"input": "2 2", "output": ["4"]}]
    (problem,) = read(written(tmp_path / "set.jsonl", [{"question": "Add.", "test_cases": pairs}]))
    assert problem.tests == (StdioTest("1 2", "3"), StdioTest("2 2", "4"))
    (problem,) = read(written(tmp_path / "set.jsonl", [HUMAN_EVAL | {"entry_point": "Solution().f"}]))
    assert problem.entry_point == "Solution.f"


def test_evalplus_is_a_benchmark_to_fetch() -> None:
    with pytest.raises(InvalidArgument, match=r"`ratchet data fetch humaneval\+` \(or mbpp\+\) brings them"):
        mapping.columns(["prompt", "test", "base_input", "plus_input"], {})


def test_a_packed_file_is_read_as_what_it_holds(tmp_path: Path) -> None:
    packed = tmp_path / "set.jsonl.gz"
    packed.write_bytes(gzip.compress(json.dumps(MBPP | {"task_id": None}).encode()))
    (problem,) = read(packed)
    assert (problem.id, problem.prompt, mapping.is_readable(packed)) == ("set/1", "Add.", True)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(InvalidArgument, match=r"set.jsonl.gz is not a complete gzip file"):
        read(packed)


def test_a_table_of_tests_has_all_columns_in_each_row(tmp_path: Path) -> None:
    tests = [{"args": "[1]", "expected": "1"}, {"args": "[2]", "raises": "ValueError"}]
    (problem,) = read(written(tmp_path / "set.parquet", [{"prompt": "p", "entry_point": "f", "tests": tests}]))
    assert problem.tests == (CallTest("[1]", "1"), CallTest("[2]", raises="ValueError"))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name, content, said in (("a.txt", "x", "is not one of .jsonl"), ("a.json", "{}", "must be a list of objects")):
        (tmp_path / name).write_text(content)
        with pytest.raises(InvalidArgument, match=said):
            list(mapping.rows(tmp_path / name))
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InvalidArgument, match=r"a.parquet is not a complete parquet file"):
        list(mapping.rows(tmp_path / "a.parquet"))


def test_tests_in_another_language_stand_after_the_program(tmp_path: Path) -> None:
    row = {"name": "HumanEval_1", "language": "rs", "prompt": "fn f() -> i32 {\n", "tests": "}\n\nfn main() {}"}
    (problem,) = read(written(tmp_path / "set.jsonl", [row]))  # MultiPL-E's
    assert (problem.language, problem.tests) == ("rust", (CheckTest("\n\nfn main() {}", shared=True),))
    assert (problem.entry_point, examine(problem)) == ("", "")


GO = {
    "name": "HumanEval_900_twice",
    "language": "go_test.go",
    "prompt": 'package twice_test\n\nimport (\n    "testing"\n    "fmt"\n)\n\n// Twice.\nfunc twice(x int) int {\n',
    "tests": 'func TestTwice(t *testing.T) {\n  if fmt.Sprint(twice(2)) != "4" {\n    t.Errorf("no")\n  }\n}\n',
    "stop_tokens": ["\nfunc"],
}
JAVA = {
    "name": "HumanEval_900_twice",
    "language": "java",
    "prompt": "import java.util.*;\nimport org.javatuples.*;\nclass Problem {\n    static long twice(long x) {\n",
    "tests": "    }\n    public static void main(String[] args) {\n    assert(twice((2l)) == (4l));\n    }\n\n}\n",
    "stop_tokens": ["\n    }\n"],
}


def test_multipl_e_in_go_imports_what_its_tests_use(tmp_path: Path) -> None:
    (problem,) = read(written(tmp_path / "set.jsonl", [GO]))
    imports = 'import "testing"\nimport "fmt"\n'
    assert (problem.language, problem.tests) == ("go", (CheckTest(imports + GO["tests"], shared=True),))


def test_multipl_e_in_java_tests_the_class_from_another(tmp_path: Path) -> None:
    (problem,) = read(written(tmp_path / "set.jsonl", [JAVA]))
    (test,) = problem.tests
    assert isinstance(test, CheckTest)
    assert test.code.startswith("class TestsOfProblem extends Problem {\n\n    public static void main")
    assert "javatuples" not in problem.prompt
    pairs = JAVA | {"prompt": JAVA["prompt"].replace("static long", "static Pair<Long, Long>")}
    assert "javatuples" in read(written(tmp_path / "pairs.jsonl", [pairs]))[0].prompt


def test_all_rows_may_be_in_one_language(tmp_path: Path) -> None:
    file = written(tmp_path / "set.jsonl", [VERL])
    assert [problem.language for problem in read(file, language="golang")] == ["go"]
    assert str(mapping.columns(VERL, {"language": "go"})).endswith(", language <- all go")
    with pytest.raises(InvalidArgument, match="no column 'cobol'"):
        read(file, language="cobol")


def test_a_column_of_another_meaning_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "set.jsonl", [VERL | {"language": "English"}])
    with pytest.raises(InvalidArgument, match=r"language: must be one of python, c, .*, not 'english'"):
        read(file)
    assert [problem.language for problem in read(file, language="")] == ["python"]
