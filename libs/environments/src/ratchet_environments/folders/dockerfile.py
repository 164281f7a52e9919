"""The part of a Dockerfile that builds nothing: an image that is there, files, a working folder, variables.

COPY, ADD, WORKDIR and ENV as in docs.docker.com/reference/dockerfile; a `FROM python:3...` is the node's own Python,
any other image one that the node was given. Whatever else changes files (RUN, --from, an URL) is refused, unless the
task folder names a runtime that stands for it.
"""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from posixpath import basename, join, normpath

from ratchet_environments.folders.tree import MOST_BYTES, MOST_FILES, File
from ratchet_kit import images
from ratchet_kit.errors import InvalidArgument, invalid

SHOWN = "environment/Dockerfile"
ROOTS = ("app", "data", "testbed", "tmp", "work", "workspace")
"""Folders of the root where a workspace of a runtime can have a task's files."""
_NOT_OF_TASKS = ("dev", "logs", "proc", "solution", "sys", "tests")
"""Folders of an image's root that are the platform's."""
OWN = ".ratchet"
"""The judge's own folder in its workspace."""
_MOST_LINES = 200
_PYTHON = re.compile(r"(docker\.io/)?(library/)?python:3(\.\d+)*(-[a-z0-9.-]+)?(@sha256:[0-9a-f]{64})?$")
_NOTHING_TO_DO = {
    "CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "LABEL", "MAINTAINER", "SHELL", "STOPSIGNAL", "USER", "VOLUME",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """`files` and `workdir` by their path in the workspace. `image`: a name in full, or empty; its `workdir` is empty
    where no WORKDIR says it."""

    image: str = ""
    files: Mapping[str, File] = field(default_factory=dict)
    workdir: str = "app"
    environment: Mapping[str, str] = field(default_factory=dict)


def place(path: str, field_name: str, *, in_image: bool = False) -> str:
    """Where an absolute path of a task is in the workspace: "/app/x" and "/tmp/app/x" are "app/x", except in an image,
    which has both. Raises InvalidArgument for a place that no workspace has."""
    parts = [part for part in normpath(path).split("/") if part]
    if in_image:
        if (
            not path.startswith("/")
            or {"$", "\0"} & set(path)
            or not parts
            or parts[0] in _NOT_OF_TASKS
            or OWN in parts
        ):
            others = ", ".join(f"/{name}" for name in _NOT_OF_TASKS)
            raise invalid(field_name, f"{path!r} is no folder of a task: write an absolute path, not below {others}")
        return "/".join(parts)
    if not path.startswith("/") or {"$", "\0"} & set(path) or not parts or parts[0] not in ROOTS or OWN in parts[:2]:
        folders = ", ".join(f"/{name}" for name in ROOTS)
        raise invalid(field_name, f"{path!r} is not in a folder that a workspace has: {folders}")
    return "/".join(parts[1:] if parts[0] == "tmp" else parts)


def workdir_of(text: str) -> str:
    """The folder of the last WORKDIR: all that an image's files do not show of the Dockerfile that it was built by.
    Empty without one. Raises InvalidArgument, which names the line."""
    built = Built("image", workdir="")
    for number, instruction, rest in _instructions(text):
        if instruction == "WORKDIR":
            built = replace(built, workdir=place(_absolute(rest, built), f"{SHOWN}:{number}", in_image=True))
    return built.workdir


def interpret(text: str, context: Mapping[str, File], *, has_runtime: bool) -> Built:
    """`context`: the files of environment/. `has_runtime`: FROM and RUN are left out, as a runtime of the node has what
    they bring. Raises InvalidArgument, which names the line."""
    built, begun = Built(), False
    for number, instruction, rest in _instructions(text):
        where = f"{SHOWN}:{number}"
        match instruction:
            case "FROM":
                if begun and not has_runtime:
                    raise _needs_building(where, "a second FROM builds in stages")
                built, begun = built if has_runtime else _from(rest, where), True
            case "RUN":
                if not has_runtime:
                    raise _needs_building(where, f"RUN {rest[:80]!r} changes the image")
            case "WORKDIR":
                built = replace(built, workdir=_place(rest, built, where))
            case "ENV":
                built = replace(built, environment={**built.environment, **_variables(rest, where)})
            case "COPY" | "ADD":
                built = replace(built, files=_bounded({**built.files, **_copied(rest, context, built, where)}, where))
            case _ if instruction not in _NOTHING_TO_DO:
                raise invalid(where, f"{instruction} is not interpreted here: take it out of the Dockerfile")
    return built


def _from(rest: str, where: str) -> Built:
    words = [word for word in rest.split() if not word.startswith("--")]
    name = words[0] if words else ""
    if _PYTHON.match(name):
        return Built()
    try:
        return Built(images.normal(name), workdir="")
    except ValueError as error:
        raise invalid(where, str(error)) from error


def _needs_building(where: str, reason: str) -> InvalidArgument:
    return invalid(
        where,
        f"{reason}, and a sandbox node builds no images. Build it elsewhere, by `docker build -t NAME environment && "
        "docker save NAME >NAME.tar`, put NAME.tar into the node's folder RATCHET_SANDBOX_IMAGES, and write in "
        'task.toml: [environment] docker_image = "NAME". Or name a runtime of the node that has the packages '
        '(ratchet sandbox runtime add): [metadata.ratchet] runtime = "NAME". FROM and RUN are left out then.',
    )


def _place(path: str, built: Built, where: str) -> str:
    return place(_absolute(path, built), where, in_image=bool(built.image))


def _instructions(text: str) -> list[tuple[int, str, str]]:
    found: list[tuple[int, str, str]] = []
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        first = first or number
        if line.rstrip().endswith("\\"):
            begun += line.rstrip()[:-1] + " "
            continue
        word, _, rest = (begun + line).strip().partition(" ")
        found.append((first, word.upper(), rest.strip()))
        begun, first = "", 0
        if len(found) > _MOST_LINES:
            raise invalid(SHOWN, f"has more than {_MOST_LINES} instructions: copy folders, not files")
    return found


def _bounded(files: dict[str, File], where: str) -> dict[str, File]:
    if len(files) > MOST_FILES or sum(len(file.content) for file in files.values()) > MOST_BYTES:
        raise invalid(where, f"makes more than {MOST_FILES} files or {MOST_BYTES} bytes: copy each once")
    return files


def _absolute(path: str, built: Built) -> str:
    return path if path.startswith("/") else join("/" if built.image else "/tmp", built.workdir, path)


def _variables(rest: str, where: str) -> dict[str, str]:
    words = _words(rest, where)
    if words and "=" not in words[0]:
        name, _, value = rest.partition(" ")
        words = [f"{name}={value.strip()}"]
    if any("$" in word for word in words):
        raise invalid(where, "a variable in ENV is not interpreted here: write the value")
    return dict(word.split("=", 1) for word in words if "=" in word)


def _words(rest: str, where: str) -> list[str]:
    try:
        if rest.startswith("["):
            found = json.loads(rest)
            if isinstance(found, list) and all(isinstance(word, str) for word in found):
                return found
        return shlex.split(rest)
    except ValueError as error:
        raise invalid(where, f"can't be read: {error}") from error


def _copied(rest: str, context: Mapping[str, File], built: Built, where: str) -> dict[str, File]:
    words = _words(rest, where)
    flags = [word for word in words if word.startswith("--")]
    if other := [flag for flag in flags if not flag.startswith(("--chown", "--chmod", "--link"))]:
        raise invalid(where, f"{other[0]} is not interpreted here: put the files in environment/")
    *sources, target = [word for word in words if word not in flags] or [""]
    if not sources or any("://" in source or "$" in source for source in words):
        raise invalid(where, "needs files of environment/ and a place, without URLs and variables")
    into = target.endswith("/") or len(sources) > 1
    base = _place(target, built, where)
    found: dict[str, File] = {}
    for source in sources:
        name = normpath(source.lstrip("/"))
        matched = _matched(context, "" if name == "." else name)
        if not matched:
            raise invalid(where, f"{source!r} is not in environment/")
        for path, inner in matched.items():
            to = join(base, inner) if inner else join(base, basename(path)) if into or base == built.workdir else base
            found[to] = context[path]
    return {path: replace(file, mode=0o755) for path, file in found.items()} if _are_executable(flags) else found


def _are_executable(flags: list[str]) -> bool:
    """True if a --chmod, as an octal number or in letters, makes the files so."""
    for mode in (flag.partition("=")[2] for flag in flags if flag.startswith("--chmod=")):
        if int(mode, 8) & 0o111 if re.fullmatch("[0-7]{3,4}", mode) else re.search("[+=][rw]*x", mode):
            return True
    return False


def _matched(context: Mapping[str, File], name: str) -> dict[str, str]:
    """Files that a source means, each with its path below the folder that is copied; an empty one: the file itself."""
    found: dict[str, str] = {}
    depth = len(name.split("/")) if name else 0
    for path in context:
        parts = path.split("/")
        if not name:
            found[path] = path
        elif fnmatchcase("/".join(parts[:depth]), name):
            found[path] = "/".join(parts[depth:])
    return found
