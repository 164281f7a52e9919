"""The languages of problems and of fenced code, by all names that they have."""

PYTHON = "python"
LANGUAGES = (PYTHON, "c", "cpp", "java", "javascript", "go", "rust", "bash")
"""A problem's: those that the sandbox may run. Each node says which it has."""
_NAMES = {
    "python3": PYTHON, "py": PYTHON, "py3": PYTHON, "ipython": PYTHON,
    "c++": "cpp", "cc": "cpp",
    "js": "javascript", "node": "javascript", "nodejs": "javascript", "ts": "typescript",
    "golang": "go", "go_test.go": "go",
    "sh": "bash", "shell": "bash", "rs": "rust",
}  # fmt: skip


def language_of(name: str) -> str:
    """One name for the names that a language has; an unknown one's is its own."""
    name = name.strip().strip("{}.").lower()
    return _NAMES.get(name, name)


def is_language(name: str) -> bool:
    """True for a name of a language that is known here."""
    return language_of(name) in {*LANGUAGES, *_NAMES.values()}
