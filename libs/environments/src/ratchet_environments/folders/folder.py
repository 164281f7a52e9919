"""A task folder: task.toml, instruction.md, environment/, tests/, solution/."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from ratchet_environments.folders import dockerfile
from ratchet_environments.folders.tree import File, Tree, bounded, read_file, read_tree
from ratchet_kit import images
from ratchet_kit.errors import InvalidArgument, invalid

_TOML_BYTES, _TEXT_BYTES = 64 << 10, 256 << 10
_LONGEST = timedelta(hours=24)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(/[A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")
_OWN = "metadata.ratchet"
PARTS = ("environment", "tests", "solution")
_SYSTEM = ("bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "run", "sbin", "usr")
"""Folders of an image that the tests' own programs are of."""
_FILES = {"task.toml": _TOML_BYTES, "instruction.md": _TEXT_BYTES}


class Judge(StrEnum):
    """How the tests meet the agent's work, as [metadata.ratchet] judge says."""

    FILES = "files"
    """They read its files and run none of them."""
    PROGRAM = "program"
    """They have its programs run elsewhere, by the command `subject`, and never hold its files."""
    PROCESS = "process"
    """They may run or import its files, which can then write the reward: forgeable. The default."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder that the agent hands over, by its path in the workspace, without what matches `exclude`."""

    path: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskFolder:
    name: str
    instruction: str
    judge: Judge
    runtime: str
    """A runtime of the node, or an image by its name in full; empty: the node's Python."""
    workdir: str
    """Path in the workspace: "app"."""
    environment: Tree
    """Files that the agent begins with, by their path in the workspace."""
    tests: Tree
    """Below tests/, with the judge's test.sh."""
    solution: Tree
    """Below solution/, with solve.sh; or empty."""
    artifacts: tuple[Artifact, ...]
    agent_timeout: timedelta
    verifier_timeout: timedelta
    memory_bytes: int
    """0: the node's default."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment of all that runs."""
    verifier_variables: Mapping[str, str] = field(default_factory=dict)
    solution_variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_image(self) -> bool:
        """Its workspaces have an image's root, and paths in them are relative to that; else to /tmp."""
        return images.is_image(self.runtime)

    def absolute(self, path: str) -> str:
        """A path in the workspace as programs there have it."""
        return f"/{path}" if self.has_image else f"/tmp/{path}".rstrip("/")

    def temporary(self, name: str) -> str:
        """The path in the workspace of /tmp/NAME."""
        return f"tmp/{name}" if self.has_image else name


def read(path: Path) -> TaskFolder:
    """Raises InvalidArgument, which names the folder, the file and what is to do."""
    with _within(path):
        return _interpreted(_parts(path), path.resolve().name)


def files(path: Path) -> Tree:
    """All files of a task folder, those that no task needs as well. Raises InvalidArgument as `read`."""
    with _within(path):
        return {**_parts(path), **read_tree(path, "", but=(*PARTS, *_FILES))}


def interpret(files: Tree, name: str) -> TaskFolder:
    """The task folder of this name whose files lie in memory. Raises InvalidArgument as `read`, also beyond its
    bounds."""
    with _within(name):
        for part in PARTS:
            bounded(_below(files, part), f"{part}/")
        bounded({path: file for path, file in files.items() if path.split("/")[0] not in PARTS}, "")
        return _interpreted(files, name)


def find(paths: list[Path]) -> list[Path]:
    """Task folders: each of `paths`, or those in a folder of several. Raises InvalidArgument."""
    found: list[Path] = []
    for path in paths:
        if (path / "task.toml").is_file():
            found.append(path)
            continue
        below = {entry.parent for name in _FILES for entry in path.glob(f"*/{name}")} if path.is_dir() else ()
        if not below:
            raise invalid(
                str(path), "holds no task folder: one has a task.toml, an instruction.md, environment/, tests/"
            )
        found += sorted(below)
    return found


@contextmanager
def _within(path: Path | str) -> Iterator[None]:
    """Puts the folder before the field of an error."""
    try:
        yield
    except InvalidArgument as error:
        fault = error.violations[0]
        raise invalid(f"{path}/{fault.field}", fault.description) from error


def _parts(path: Path) -> dict[str, File]:
    found = {name: read_file(path / name, name, most) for name, most in _FILES.items()}
    for part in PARTS:
        found |= {f"{part}/{name}": file for name, file in read_tree(path / part, f"{part}/").items()}
    return found


def _below(files: Tree, part: str) -> dict[str, File]:
    return {path.removeprefix(f"{part}/"): file for path, file in files.items() if path.startswith(f"{part}/")}


def _interpreted(files: Tree, folder: str) -> TaskFolder:
    toml = _Table(_toml(files), "")
    _refuse_what_needs_more(files, toml)
    own = toml.table("metadata").table("ratchet")
    runtime = own.text("runtime", "")
    word = own.text("judge", Judge.PROCESS.value)
    if word not in list(Judge):
        raise invalid(f"task.toml: {_OWN}.judge", f"{word!r} is none of {', '.join(Judge)}")
    environment, verifier = toml.table("environment"), toml.table("verifier")
    built = _built(files, "" if runtime else environment.text("docker_image", ""), bool(runtime))
    workdir, in_image = environment.text("workdir", ""), bool(built.image)
    if in_image and not (workdir or built.workdir):
        raise invalid(
            "task.toml: environment.workdir", "is not there: say in which folder of the image the agent works"
        )
    tests, solution = (
        {path: file for path, file in files.items() if path.startswith(part)} for part in ("tests/", "solution/")
    )
    if "tests/test.sh" not in tests:
        raise invalid("tests/test.sh", "is not there: it writes the reward to /logs/verifier/reward.txt")
    return TaskFolder(
        _name(toml, folder),
        _text(files, "instruction.md", _TEXT_BYTES),
        Judge(word),
        runtime or built.image,
        dockerfile.place(workdir, "task.toml: environment.workdir", in_image=in_image) if workdir else built.workdir,
        built.files,
        tests,
        solution,
        _artifacts(toml, workdir or f"{'' if in_image else '/tmp'}/{built.workdir}", in_image),
        toml.table("agent").seconds("timeout_sec", 600),
        verifier.seconds("timeout_sec", 600),
        environment.whole("memory_mb") << 20,
        {**built.environment, **environment.variables("env")},
        verifier.variables("env"),
        toml.table("solution").variables("env"),
    )


def _built(files: Tree, image: str, has_runtime: bool) -> dockerfile.Built:
    """`image`: the one that was built already, by the Dockerfile if there is one."""
    context = _below(files, "environment")
    if image:
        try:
            name = images.normal(image)
        except ValueError as error:
            raise invalid("task.toml: environment.docker_image", str(error)) from error
        text = _text(files, dockerfile.SHOWN, _TEXT_BYTES) if "Dockerfile" in context else ""
        return dockerfile.Built(name, workdir=dockerfile.workdir_of(text))
    if "Dockerfile" not in context:
        raise invalid("environment/Dockerfile", "is not there: it says which files the agent begins with")
    if ".dockerignore" in context:
        raise invalid(
            "environment/.dockerignore", "is not interpreted here: take out of environment/ what is not copied"
        )
    return dockerfile.interpret(_text(files, dockerfile.SHOWN, _TEXT_BYTES), context, has_runtime=has_runtime)


def _toml(files: Tree) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(files, "task.toml", _TOML_BYTES))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise invalid("task.toml", f"is no TOML: {error}") from error


def _refuse_what_needs_more(files: Tree, toml: "_Table") -> None:
    if toml.values.get("steps"):
        raise invalid("task.toml: steps", "tasks of several steps are not judged here: make a folder of each step")
    environment, verifier = toml.table("environment"), toml.table("verifier")
    own_image = verifier.values.get("environment")
    value = own_image.get("docker_image") if isinstance(own_image, dict) else None
    has_runtime = toml.table("metadata").table("ratchet").values.get("runtime")
    if value and value != environment.values.get("docker_image") and not has_runtime:
        raise invalid(
            "task.toml: verifier.environment.docker_image",
            "tests run in the agent's image: name one that has what both need in [environment] docker_image",
        )
    for field_name in ("gpus", "mcp_servers"):
        if environment.values.get(field_name):
            raise invalid(f"task.toml: environment.{field_name}", "a workspace has none: take it out of the task")
    for name in ("environment/docker-compose.yaml", "tests/Dockerfile", "tests/docker-compose.yaml"):
        if name in files:
            raise invalid(name, "a sandbox node builds no images: describe one environment in environment/Dockerfile")


def _name(toml: "_Table", folder: str) -> str:
    name = toml.table("task").text("name", re.sub("^[^A-Za-z0-9]+|[^A-Za-z0-9._-]", "-", folder).strip("-"))
    if not _NAME.match(name):
        raise invalid("task.toml: task.name", f"{name[:120]!r} is no name: letters, digits, '.', '_', '-', one '/'")
    return name


def _artifacts(toml: "_Table", workdir: str, in_image: bool) -> tuple[Artifact, ...]:
    where = "task.toml: artifacts"
    given = toml.values.get("artifacts", [])
    if not isinstance(given, list) or len(given) > 100:
        raise invalid(where, "must be a list of at most 100 paths")
    found = []
    for one in given or [workdir]:
        table = one if isinstance(one, dict) else {"source": one}
        source, exclude = table.get("source"), table.get("exclude", [])
        if (
            not isinstance(source, str)
            or not isinstance(exclude, list)
            or not all(isinstance(it, str) for it in exclude)
        ):
            raise invalid(where, "each is a path, or {source = PATH, exclude = [PATTERN, ...]}")
        of_logs = source.rstrip("/") == "/logs/artifacts"
        path = "logs/artifacts" if of_logs else dockerfile.place(source, where, in_image=in_image)
        first = path.split("/")[0]
        if (
            first in ("", "tests", "solution")
            or (path.startswith("logs") and path != "logs/artifacts")
            or (in_image and (path == "tmp" or (first in _SYSTEM and not path.startswith("usr/src/"))))
        ):
            raise invalid(where, f"{source!r} holds more than the agent's work: name folders and files below it")
        found.append(Artifact(path, tuple(exclude)))
    return tuple(found)


def _text(files: Tree, name: str, most: int) -> str:
    if name not in files:
        raise invalid(name, "is not there")
    if len(files[name].content) > most:
        raise invalid(name, f"has more than {most} bytes")
    try:
        return files[name].content.decode()
    except UnicodeDecodeError as error:
        raise invalid(name, "is no UTF-8 text") from error


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of task.toml, whose errors name the field."""

    values: Mapping[str, Any]
    path: str

    def _where(self, name: str) -> str:
        return f"task.toml: {self.path}{name}"

    def table(self, name: str) -> "_Table":
        found = self.values.get(name, {})
        if not isinstance(found, dict):
            raise invalid(self._where(name), "must be a table")
        return _Table(found, f"{self.path}{name}.")

    def text(self, name: str, default: str) -> str:
        found = self.values.get(name, default)
        if not isinstance(found, str) or len(found) > 1000:
            raise invalid(self._where(name), "must be a text")
        return found

    def seconds(self, name: str, default: float) -> timedelta:
        found = self.values.get(name, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)) or not 0 < found <= _LONGEST.total_seconds():
            raise invalid(self._where(name), f"must be seconds, above 0 and at most {_LONGEST.total_seconds():.0f}")
        return timedelta(seconds=found)

    def whole(self, name: str) -> int:
        found = self.values.get(name, 0)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= 1 << 20:
            raise invalid(self._where(name), "must be a whole number, from 0 to 1048576")
        return found

    def variables(self, name: str) -> dict[str, str]:
        found = self.table(name).values
        for key, value in found.items():
            if not isinstance(value, str):
                raise invalid(self._where(f"{name}.{key}"), "must be a text")
            if "${" in value:
                raise invalid(self._where(f"{name}.{key}"), "takes a value of the machine: write the value itself")
        return dict(found)
