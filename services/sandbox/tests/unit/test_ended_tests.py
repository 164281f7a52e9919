"""The marks that tests in other languages write at their end."""

import pytest

from sandbox_service.domain.ended_tests import joined_go, marked

CODE = {
    "c": "int main(void) { /* } */ char c = '}'; }\n",
    "java": "class Main { public static void main(final String... all) throws Exception { run(); } }\n",
    "javascript": "run();\n",
    "go": "func TestA(t *testing.T) {}\nfunc TestB(t *testing.T) {}\n",
    "rust": "#[test]\nfn a() { b(); }\n#[test]\n#[should_panic]\nfn c() { d(); }\n",
    "bash": "run\n",
}


@pytest.mark.parametrize("language", CODE)
def test_the_same_source_has_the_same_marks_and_no_other(language: str) -> None:
    first, again, other = (marked(language, source, CODE[language]) for source in ("a", "a", "b"))
    assert first is not None
    assert other is not None
    assert first == again
    assert not {mark for _, mark in first.marks} & {mark for _, mark in other.marks}
    assert len(first.marks) == (2 if language == "go" else 1)
    written = "before\n" + "".join(f"\n{mark}\n" for _, mark in first.marks) + "after"
    assert first.missing(written) == []
    assert first.without_marks(written) == "before\nafter"
    assert first.missing("before") == [name for name, _ in first.marks]


def test_code_whose_end_nothing_shows() -> None:
    for language, code in (
        ("c", "void f(void) {}"),
        ("go", "func f() {}"),
        ("rust", "fn f() {}"),
        ("java", "class A {}"),
    ):
        assert marked(language, "", code) is None
    assert marked("cpp", "", "int main() {") is None


def test_a_package_has_each_import_once() -> None:
    program = 'package sums\n\nimport (\n\t"fmt"\n\tm "math" // of floats\n)\n\nfunc f() { fmt.Println(m.Pi) }\n'
    source = joined_go(program, 'import "fmt"\nimport "testing"\n\nfunc TestF(t *testing.T) { fmt.Print() }\n')
    assert source.startswith('package sums\nimport "fmt"\nimport m "math"\nimport "testing"\n')
    assert source.count("import") == 3
    assert joined_go("func f() {}\n", "func main() {}").startswith("package main\n")
