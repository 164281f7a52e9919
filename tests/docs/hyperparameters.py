"""Makes the table in docs/training/hyperparameters.md from the rows and the comments of the proto, and writes it when
it is run: `.venvs/light/bin/python -m tests.docs.hyperparameters`."""

import re
from collections.abc import Iterator
from pathlib import Path

from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import ROWS, Row

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "training" / "hyperparameters.md"
PROTO = ROOT / "proto" / "ratchet" / "trainer" / "v1" / "trainer.proto"
HEAD = "| hyperparameter | meaning | bounds | default |\n|---|---|---|---|\n"


def table() -> str:
    about = comments()
    return HEAD + "".join(f"| {' | '.join(cells(name, row, about[name]))} |\n" for name, row in ROWS.items())


def comments() -> dict[str, str]:
    """The comment of each field of the proto, in one line; names of hyperparameters are code."""
    _, _, rest = PROTO.read_text().partition("message Hyperparameters {\n")
    fields = re.findall(r"((?:  // .*\n)*)  .*?(\w+) = \d+;\n", rest[: rest.index("\n}") + 1])
    name = re.compile(rf"(?<!`)\b({'|'.join(one for one in ROWS if '_' in one)})\b")
    return {field: name.sub(r"`\1`", " ".join(re.findall(r"// (.*)", comment))) for comment, field in fields}


def cells(name: str, row: Row, about: str) -> Iterator[str]:
    users = {key for key, one in ALGORITHMS.items() if name in one.applicable}
    online = {key for key, one in ALGORITHMS.items() if one.is_online}
    of = "" if users == ALGORITHMS.keys() else "RL" if users == online else listed(users)
    if len(users) > len(online):
        of = f"all but {listed(ALGORITHMS.keys() - users)}" if of else ""
    yield f"`{name}`" + (f" ({of})" if of else "")
    yield about
    yield ", ".join([*row.choices, *(f"{rule.replace('_', ' ')} {shown(bound)}" for rule, bound in row.bounds.items())])
    defaults = by_value({key: getattr(ALGORITHMS[key].defaults, name) for key in users})
    small = by_value({key: getattr(ALGORITHMS[key].small, name) for key in users})
    yield defaults + (f". Small base: {small}" if small else "")


def by_value(values: dict[str, object]) -> str:
    """The commonest without its algorithms."""
    groups: dict[str, list[str]] = {}
    for key, value in values.items():
        if value is not None:
            groups.setdefault(shown(value), []).append(key)
    commonest, *others = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0])) or [("", [])]
    return "; ".join([commonest[0], *(f"{listed(set(keys))} {value}" for value, keys in others)])


def shown(value: object) -> str:
    if isinstance(value, bool | str):
        return str(value).lower()
    return f"{value:g}".replace("e-0", "e-")


def listed(algorithms: set[str]) -> str:
    return ", ".join(name.upper() for name in ALGORITHMS if name in algorithms)


def written(page: str) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(HEAD)
    return before + table() + rest[rest.index("\n\n") + 1 :]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
