"""The declared files of an agent, without what would act by itself where they are judged."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from posixpath import dirname, join, normpath

from ratchet_environments.folders.folder import Artifact, TaskFolder
from ratchet_environments.folders.tree import File, Tree, packed, unpacked

_GIT_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_REMOVED = ".wh."
_METADATA = ("*.dist-info", "*.egg-info")
"""Folders by which pytest finds plugins where Python looks for modules, as it may in an image's working folder."""
_LOADED = ("conftest.py", "sitecustomize.py", "usercustomize.py", "pytest.ini", ".pytest.ini", "*.pth", "*.pyc")
"""Files that Python or pytest load unasked."""


@dataclass(frozen=True, slots=True)
class Work:
    files: Tree = field(default_factory=dict)
    folders: tuple[str, ...] = ()
    fault: str = ""
    """Why the files can't be taken, which is the agent's doing."""

    @property
    def tars(self) -> list[bytes]:
        """To be written in order: what is removed of an image comes first, so that something else can be there."""
        deepest_first = sorted(self.files.items(), key=lambda one: -one[0].count("/"))
        removed = {path: file for path, file in deepest_first if removed_by(path)}
        others = {path: file for path, file in self.files.items() if path not in removed}
        return [packed(removed)] * bool(removed) + [packed(others, self.folders)] * bool(others or self.folders)


def removed_by(path: str) -> str:
    """The path of what an entry `.wh.NAME` of an image's workspace says was removed there; empty for another entry."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/{name.removeprefix(_REMOVED)}".lstrip("/") if name.startswith(_REMOVED) else ""


def mark_of(path: str) -> str:
    """The entry that says so of a path."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/{_REMOVED}{name}".lstrip("/")


def clean(folder: TaskFolder, tar: bytes) -> Work:
    """The declared files of an agent's tar. Left out, or as the task had them: links that lead out of what is declared,
    hooks and settings of git, and what Python and pytest load unasked. Raises InvalidArgument beyond the bounds."""
    files, folders = unpacked(tar, "the agent's files")
    kept: dict[str, File] = {}
    for path, file in files.items():
        removed = removed_by(path) if folder.has_image else ""
        artifact = _artifact(folder.artifacts, removed or path)
        if removed:
            if artifact and not _acts_by_itself(removed):
                kept[path] = File()
            continue
        if artifact is None or (file.link and not _stays(path, file.link, artifact.path)):
            continue
        if not _acts_by_itself(path):
            kept[path] = file
        elif path.endswith("/.git/config") and not file.link and not folder.has_image:
            kept[path] = File(_GIT_CONFIG)
    own = [path for path in folder.environment if _acts_by_itself(path) and _artifact(folder.artifacts, path)]
    kept |= {path: folder.environment[path] for path in own}
    below = [path for path in folders if _artifact(folder.artifacts, path) and not _acts_by_itself(path)]
    return Work(kept, tuple(below))


def untouched(folder: TaskFolder) -> dict[str, File]:
    """The task's files that no agent hands over."""
    return {path: file for path, file in folder.environment.items() if _artifact(folder.artifacts, path) is None}


def _artifact(artifacts: Iterable[Artifact], path: str) -> Artifact | None:
    for artifact in artifacts:
        below = path.removeprefix(f"{artifact.path}/")
        if path == artifact.path or below != path:
            parts = below.split("/")
            beginnings = ["/".join(parts[: end + 1]) for end in range(len(parts))]
            if not any(fnmatchcase(one, pattern.strip("/")) for one in beginnings for pattern in artifact.exclude):
                return artifact
    return None


def _stays(path: str, link: str, below: str) -> bool:
    """True for a link whose target is below what was declared, whichever other links it leads through: those stay
    there as well, and ".." comes first alone."""
    parts = [part for part in link.split("/") if part not in ("", ".")]
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    if link.startswith("/") or ".." in parts[ups:]:
        return False
    target = normpath(join(dirname(path), link))
    return target.startswith(f"{below}/")


def _acts_by_itself(path: str) -> bool:
    *parents, name = path.split("/")
    if any(fnmatchcase(part, pattern) for part in (*parents, name) for pattern in _METADATA):
        return True
    if name == ".git" or any(fnmatchcase(name, pattern) for pattern in _LOADED):
        return True
    if ".git" not in parents:
        return False
    inner = parents[parents.index(".git") + 1 :]
    return "hooks" in inner or name in ("config", "config.worktree", "commondir", "hooks")
