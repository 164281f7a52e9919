"""MultiPL-E's form: tests in the program's own language, compiled into it."""

from ratchet_kit.errors import Unimplemented
from sandbox_service.fusion.rows.row import Row
from sandbox_service.fusion.rows.work import Options, Work

# Its names of languages, and ours. Of the others some have no lanes; Java's asserts and Go's tests take a runner.
_LANGUAGES = {"cpp": "cpp", "js": "javascript", "rs": "rust", "sh": "bash", "py": "python"}


def multipl_e(row: Row, completion: str, options: Options) -> Work:
    """Fields prompt, tests, language, stop_tokens. The completion goes on from the prompt up to the first stop token,
    and the tests stand below: the exit status says how they ended, as it does in the benchmark's own harness."""
    language = row.text("language")
    if language not in _LANGUAGES:
        known = ", ".join(_LANGUAGES)
        raise Unimplemented(f"MultiPL-E rows in {language!r} are not graded here, those in {known} are")
    body = completion
    for token in row.texts("stop_tokens") if "stop_tokens" in row else ():
        if token:
            body = body.partition(token)[0]
    source = f"{row.text('prompt')}{body}\n{row.text('tests')}"
    return Work(source, body, language=_LANGUAGES[language], test_code=row.text("tests"))
