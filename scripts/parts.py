"""Prints the parts of this project that a service or a library needs, as its pyproject.toml says:
`scripts/parts.py services/trainer`.

One line of folders, dependencies before what needs them: what setup.sh and the images install. Needs no package.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def needs(folder: Path) -> list[str]:
    """Names of what a part depends on, extras included: trainer's jobs are one."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    extras = project.get("optional-dependencies", {}).values()
    return [re.split(r"[^\w.-]", line)[0] for lines in (project.get("dependencies", []), *extras) for line in lines]


def parts(part: Path) -> list[Path]:
    """Folders, each after those that it needs."""
    folders = {f"ratchet-{file.parent.name}": file.parent for file in ROOT.glob("libs/*/pyproject.toml")}
    found: list[Path] = []

    def follow(folder: Path) -> None:
        for name in needs(folder):
            if name in folders and folders[name] not in (*found, folder):  # an extra may name its own part
                follow(folders[name])
        found.append(folder)

    follow(part)
    return found


if __name__ == "__main__":
    print(*(folder.relative_to(ROOT) for folder in parts(ROOT / sys.argv[1])))
