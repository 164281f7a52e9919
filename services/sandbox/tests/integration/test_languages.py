"""Programs in other languages: compiled, run on standard input, judged by what they print."""

import re
import shutil
from dataclasses import replace
from datetime import timedelta

import pytest

from ratchet_kit.errors import InvalidArgument, Unimplemented
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.adapters.languages.toolchains import LANGUAGES
from sandbox_service.domain.execution import Verdict
from sandbox_service.domain.program import CallTest, CheckTest, File, Limits, Program, StdioTest
from sandbox_service.domain.sandbox import Sandbox

pytestmark = [pytest.mark.integration, pytest.mark.asyncio(loop_scope="module")]
LIMITS = Limits(cpu_time=timedelta(seconds=2), memory_bytes=512 << 20)

SUMS = {
    "c": '#include <stdio.h>\nint main(void) { int a, b; scanf("%d %d", &a, &b); printf("%d\\n", a + b); }\n',
    "cpp": "#include <iostream>\nint main() { int a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }\n",
    "java": """
        import java.util.Scanner;
        public class Sum {
            static class Inner { int add(int a, int b) { return a + b; } }
            public static void main(String[] args) {
                Scanner in = new Scanner(System.in);
                System.out.println(new Inner().add(in.nextInt(), in.nextInt()));
            }
        }
        """,
    "javascript": """
        const n = require("fs").readFileSync(0, "utf8").split(/\\s+/).map(Number)
        console.log(n[0] + n[1])
        """,
    "go": 'package main\nimport "fmt"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }\n',
    "rust": """
        fn main() {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            println!("{}", line.split_whitespace().map(|n| n.parse::<i64>().unwrap()).sum::<i64>());
        }
        """,
    "bash": "read a b\necho $((a + b))\n",
}
BROKEN = {
    "c": "int main(void) { return missing; }",
    "cpp": "int main() { return missing; }",
    "java": "public class Main { int f() { return missing; } }",
    "go": "package main\nfunc main() { missing() }\n",
    "rust": "fn main() { missing(); }",
}
FAILING = {
    "c": "int main(void) { return 3; }",
    "cpp": "int main() { throw 1; }",
    "java": 'class Main { public static void main(String[] a) { throw new RuntimeException("why"); } }',
    "javascript": "missing()",
    "go": 'package main\nfunc main() { panic("why") }\n',
    "rust": 'fn main() { panic!("why"); }',
    "bash": "exit 3",
}
ENDLESS = {
    "c": "int main(void) { for (;;) {} }",
    "cpp": "int main() { volatile int x = 0; for (;;) x++; }",
    "java": "class Main { public static void main(String[] a) { while (true) {} } }",
    "javascript": "for (;;) {}",
    "go": "package main\nfunc main() { for {} }\n",
    "rust": "fn main() { loop {} }",
    "bash": "while :; do :; done",
}
GREEDY = {
    "c": "#include <stdlib.h>\n#include <string.h>\nint main(void) { for (;;) memset(malloc(1 << 20), 1, 1 << 20); }",
    "cpp": "#include <vector>\nint main() { std::vector<std::vector<char>> all;"
    " for (;;) all.emplace_back(1 << 20, 'x'); }",
    "java": "import java.util.*;\nclass Main { public static void main(String[] a) {"
    " List<byte[]> all = new ArrayList<>(); while (true) {"
    " byte[] b = new byte[1 << 20]; Arrays.fill(b, (byte) 1); all.add(b); } } }",
    "javascript": "const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))",
    "go": "package main\nfunc main() { var all [][]byte; for { b := make([]byte, 1<<20);"
    " for i := range b { b[i] = 1 }; all = append(all, b); println(len(all)) } }\n",
    "rust": "fn main() { let mut all = Vec::new(); loop { all.push(vec![1u8; 1 << 20]); } }",
    "bash": "x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done",
}


@pytest.fixture(autouse=True)
def _has_language(request: pytest.FixtureRequest, executor: LanePool) -> None:
    language = request.node.callspec.params.get("language") if hasattr(request.node, "callspec") else "c"
    capabilities = executor.capabilities
    if not capabilities.processes:
        pytest.skip("other languages can't run here: that takes namespaces")
    if language in capabilities.missing_languages:
        pytest.skip(f"there is no {language} here: {capabilities.missing_languages[language]}")


def program(language: str, source: str, *tests: StdioTest, stdin: str = "") -> Program:
    return Program("p", source, tests=tests, stdin=stdin, limits=LIMITS, language=language)


@pytest.mark.parametrize("language", SUMS)
async def test_a_sum(sandbox: Sandbox, language: str) -> None:
    tests = [StdioTest("1 2\n", "3"), StdioTest("3 4\n", "8"), StdioTest("-5 4\n", "-1")]
    execution = await sandbox.execute(program(language, SUMS[language], *tests))
    assert [result.passed for result in execution.results] == [True, False, True], execution
    assert execution.verdict is Verdict.FAILED
    assert execution.runtime == language
    assert (execution.compile_time > timedelta()) == (language in BROKEN)
    assert execution.max_memory_bytes > 1 << 20


AFTER = {
    "c": ("int add(int a, int b) {{ return a {0} b; }}", "int main(void) {{ assert(add(1, 2) == 3); }}"),
    "cpp": ("int add(int a, int b) {{ return a {0} b; }}", "int main() {{ assert(add(1, 2) == 3); }}"),
    "java": (
        "class S {{ static int add(int a, int b) {{ return a {0} b; }} }}",
        "public class Main {{ public static void main(String[] a) {{"
        " if (S.add(1, 2) != 3) throw new AssertionError(); }} }}",
    ),
    "javascript": ("const add = (a, b) => a {0} b", 'require("assert").equal(add(1, 2), 3)'),
    "go": (
        "package main\nfunc add(a, b int) int {{ return a {0} b }}",
        'func main() {{ if add(1, 2) != 3 {{ panic("assertion") }} }}',
    ),
    "rust": (
        "fn add(a: i32, b: i32) -> i32 {{ a {0} b }}",
        "fn main() {{ assert_eq!(add(1, 2), 3); }}",
    ),
    "bash": ("add() {{ echo $(($1 {0} $2)); }}", '[ "$(add 1 2)" = 3 ] || {{ echo assertion >&2; exit 1; }}'),
}


@pytest.mark.parametrize("language", AFTER)
async def test_code_after_the_program_judges_it(sandbox: Sandbox, language: str) -> None:
    function, check = AFTER[language]
    if language in ("c", "cpp"):
        function = f"#include <assert.h>\n{function}"
    test = CheckTest(check.format(), shared=True)
    right, wrong = [
        await sandbox.execute(replace(program(language, function.format(sign)), tests=(test,))) for sign in "+-"
    ]
    assert right.verdict is Verdict.PASSED, right
    assert [(result.passed, result.forgeable) for result in right.results] == [(True, True)]
    assert wrong.verdict is Verdict.FAILED, wrong
    assert re.search("(?i)assert|panicked", wrong.results[0].error)


async def test_a_java_package_of_many_parts(sandbox: Sandbox) -> None:
    """Each part is a folder: more of them than a process may have open at a time."""
    if "java" in sandbox.capabilities.missing_languages:
        pytest.skip("there is no java here")
    package = ".".join("a" * 400)
    source = f"package {package};\n{SUMS['java']}"
    assert (await sandbox.execute(program("java", source, StdioTest("1 2\n", "3")))).verdict is Verdict.PASSED
    endless = f"package {'.'.join('a' * 1500)};\n{SUMS['java']}"
    execution = await sandbox.execute(program("java", endless, StdioTest("1 2\n", "3")))
    assert execution.verdict in (Verdict.COMPILE_ERROR, Verdict.RUNTIME_ERROR)


@pytest.mark.parametrize("language", BROKEN)
async def test_what_does_not_compile(sandbox: Sandbox, language: str) -> None:
    execution = await sandbox.execute(program(language, BROKEN[language], StdioTest("", ""), StdioTest("", "")))
    assert execution.verdict is Verdict.COMPILE_ERROR
    assert "missing" in execution.compile_output
    assert "error" in execution.detail or "missing" in execution.detail
    assert len(execution.results) == 1


@pytest.mark.parametrize("language", FAILING)
async def test_what_fails(sandbox: Sandbox, language: str) -> None:
    execution = await sandbox.execute(program(language, FAILING[language]))
    assert execution.verdict is Verdict.RUNTIME_ERROR, execution
    assert execution.exit_status != 0


@pytest.mark.parametrize("language", ENDLESS)
async def test_what_never_ends(sandbox: Sandbox, language: str) -> None:
    execution = await sandbox.execute(program(language, ENDLESS[language]))
    assert execution.verdict is Verdict.TIME_LIMIT, execution


@pytest.mark.parametrize("language", GREEDY)
async def test_what_takes_memory_without_end(sandbox: Sandbox, language: str) -> None:
    asked = replace(program(language, GREEDY[language]), limits=replace(LIMITS, cpu_time=timedelta(seconds=20)))
    execution = await sandbox.execute(asked)
    assert execution.verdict is Verdict.MEMORY_LIMIT, execution
    assert execution.max_memory_bytes < 1 << 30


async def test_other_names(sandbox: Sandbox) -> None:
    execution = await sandbox.execute(program("C++", SUMS["cpp"], StdioTest("1 2", "3")))
    assert (execution.verdict, execution.runtime) == (Verdict.PASSED, "cpp")


async def test_files_before_and_after(sandbox: Sandbox) -> None:
    source = """
        #include <stdio.h>
        #include "data/header.h"
        int main(void) {
            char word[16];
            fscanf(fopen("data/in.txt", "r"), "%15s", word);
            fprintf(fopen("out.txt", "w"), "%s %d", word, ANSWER);
        }
        """
    files = (File("data/header.h", b"#define ANSWER 42\n"), File("data/in.txt", b"hello"))
    asked = replace(program("c", source), files=files, fetch_files=("out.txt", "nothing.txt", "data/in.txt"))
    execution = await sandbox.execute(asked)
    assert execution.verdict is Verdict.PASSED, execution
    assert execution.files == (File("out.txt", b"hello 42"), File("data/in.txt", b"hello"))


async def test_fetched_names_lead_nowhere_else(sandbox: Sandbox) -> None:
    source = """
        import os
        os.symlink("/usr/lib/os-release", "link")
        os.symlink("/usr/lib", "folder")
        os.mkfifo("pipe")
        os.mkdir("real")
        open("big", "wb").truncate(16 << 20)
        open("fine", "w").write("fine")
        """
    names = ("link", "folder/os-release", "pipe", "real", "big", "fine")
    asked = Program("p", source.replace("\n        ", "\n"), limits=LIMITS, fetch_files=names)
    execution = await sandbox.execute(asked)
    assert execution.verdict is Verdict.PASSED, execution
    assert [(file.name, len(file.content)) for file in execution.files] == [("big", 16 << 20)]


async def test_tests_for_python_are_refused(sandbox: Sandbox) -> None:
    with pytest.raises(InvalidArgument, match=r"tests\[0\]: is for Python"):
        await sandbox.execute(replace(program("c", SUMS["c"]), tests=(CallTest((1,), 2),)))


@pytest.mark.parametrize("name", ["cobol", *(each.name for each in LANGUAGES if not shutil.which(each.programs[0]))])
async def test_a_language_that_is_not_here(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(Unimplemented, match=f"language '{name}' is not on this node.*it has .*python"):
        await sandbox.execute(program(name, ""))
