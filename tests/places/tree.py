"""A copy of the tree to which an "add a ..." page is applied, as somebody who follows it would."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("docs", "examples", "libs", "models", "proto", "scripts", "services", "tests")
FENCED = re.compile(r"^( *)```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    """A numbered step of a page: its file, what is said of it, and the blocks that belong there."""

    path: str
    text: str
    blocks: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A section of a page."""

    text: str

    @property
    def steps(self) -> Iterator[Step]:
        for item in re.split(r"^\d+\. ", self.text, flags=re.MULTILINE)[1:]:
            item = re.split(r"^(?=\S)", item.partition("\n")[2], maxsplit=1, flags=re.MULTILINE)[0].join(
                [item.partition("\n")[0] + "\n", ""]
            )
            said = FENCED.sub("", item)
            path = re.search(r"`((?:libs|proto|services|tests)/[^`]+)`", said)
            assert path is not None, f"a step that names no file: {item[:80]}"
            yield Step(path[1], said, tuple(textwrap.dedent(block[2]) for block in FENCED.finditer(item)))

    def block(self, begin: str) -> str:
        """The block, outside of the steps, that begins so."""
        return next(found[2] for found in FENCED.finditer(self.text) if found[2].startswith(begin))

    @property
    def checks(self) -> Iterator[str]:
        """Commands of the light environment that it tells to run, in their order."""
        return (" ".join(found.split()) for found in re.findall(r"`(\.venvs/light/bin/[^`]+)`", self.text))


def section(page: str, heading: str) -> Section:
    text = (ROOT / "docs" / page).read_text()
    return Section(re.split(rf"^## {heading}\n", text, flags=re.MULTILINE)[1].partition("\n## ")[0])


@dataclass(frozen=True)
class Tree:
    root: Path

    @classmethod
    def copied(cls, folder: Path) -> "Tree":
        ignored = shutil.ignore_patterns("*.png", "*.safetensors", ".*")
        for part in PARTS:
            shutil.copytree(ROOT / part, folder / part, ignore=ignored, symlinks=True)
        for file in ("pyproject.toml", "Makefile", "CONTRIBUTING.md"):
            shutil.copy(ROOT / file, folder)
        return cls(folder)

    def apply(self, steps: Iterator[Step]) -> None:
        """Writes new files, puts imports among the imports and other lines into what the step names."""
        for step in steps:
            file = self.root / step.path
            if not file.exists():
                file.write_text("\n".join(step.blocks))
                continue
            for block in step.blocks:
                file.write_text(self._with(file.read_text(), block, step))
            if "`make protos`" in step.text:
                self.run("scripts/protos.sh", "generate")

    def _with(self, text: str, block: str, step: Step) -> str:
        """An import before the others; a message at the end; a line of a plain list in order; a method at the end of
        the class that the step names, a field before its methods; any other line at the end of what the step names."""
        if step.path.endswith(".txt"):
            return "".join(sorted([*text.splitlines(keepends=True), block]))
        names = "|".join(map(re.escape, re.findall(r"`(\w+)`", step.text)))
        indent = "  " if step.path.endswith(".proto") else "    "
        if block.startswith("from "):
            place, indent = r"(?=from )", ""
        elif block.startswith("message "):
            place, indent = r"\Z", ""
        elif re.match("@|def |async def ", block):
            place, block = rf"class (?:{names})\b.*:\n(?:(?:    .*)?\n)*?(?=\n\n|\Z)", f"\n{block}"
        elif step.path.endswith(".proto"):
            place = rf"(?:message|enum|service) (?:{names}) {{\n(?:.*\n)*?(?=}})"
        else:
            place = rf"(?:(?:{names})\b.*[({{]\n(?:.*\n)*?(?=[)}}])|class (?:{names}):\n(?:.*\n)*?(?=\n    def ))"
        found = re.search(f"^{place}", text, re.MULTILINE)
        assert found is not None, f"{step.path} has nothing that the step names: {step.text}"
        return text[: found.end()] + textwrap.indent(block, indent) + text[found.end() :]

    def run(self, *command: str, **environment: str) -> str:
        """What it prints. Fails with all that it said."""
        program = re.sub(r"^\.venvs/light/bin/", f"{Path(sys.executable).parent}/", command[0])
        sources = [str(folder) for folder in sorted(self.root.glob("*/*/src"))]
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.root,
            env=os.environ
            | {
                "PYTHONPATH": ":".join(sources),
                "RATCHET_LIGHT_ENV": str(Path(sys.executable).parent.parent),
            }
            | environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-4000:]}\n{done.stderr[-2000:]}"
        return done.stdout + done.stderr
