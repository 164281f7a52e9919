"""When printed output counts as the expected one."""


def lines_match(got: str, expected: str) -> bool:
    """SandboxFusion's rule: the same lines but for case and space at their ends; numbers to a relative 1e-5."""
    mine, theirs = got.strip().lower().split("\n"), expected.strip().lower().split("\n")
    return len(mine) == len(theirs) and all(map(_line_matches, mine, theirs))


def _line_matches(got: str, expected: str) -> bool:
    if got.strip() == expected.strip():
        return True
    try:
        mine, theirs = float(got), float(expected)
    except ValueError:
        return False
    return abs(mine - theirs) / max(abs(theirs), 1e-10) < 1e-5
