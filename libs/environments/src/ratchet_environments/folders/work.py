"""The declared files of an agent, without what would act by itself where they are judged."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from posixpath import basename, dirname, join, normpath

from ratchet_environments.folders.folder import Artifact, Judge, TaskFolder
from ratchet_environments.folders.git_index import without_marks
from ratchet_environments.folders.tree import MOST_BYTES, MOST_FILES, File, Tree, packed, packed_now, unpacked
from ratchet_kit.errors import InvalidArgument, invalid

_GIT_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = {}\n"
_NAMED_FREELY = ("refs", "logs", "objects")
"""Folders of a repository where branches, tags and remotes are files, whichever name they were given: "fix/config"."""
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
        return [packed(removed)] * bool(removed) + [packed_now(others, self.folders)] * bool(others or self.folders)


def removed_by(path: str) -> str:
    """The path of what an entry `.wh.NAME` of an image's workspace says was removed there; empty for another entry."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/{name.removeprefix(_REMOVED)}".lstrip("/") if name.startswith(_REMOVED) else ""


def mark_of(path: str) -> str:
    """The entry that says so of a path."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/{_REMOVED}{name}".lstrip("/")


def together(works: Iterable[Work]) -> Work:
    """All that is handed over in several parts. Raises InvalidArgument beyond the bounds of one part."""
    files: dict[str, File] = {}
    folders: list[str] = []
    for work in works:
        files |= work.files
        folders += work.folders
    if sum(len(file.content) for file in files.values()) > 2 * MOST_BYTES or len(files) > 10 * MOST_FILES:
        raise invalid("the agent's files", f"have more than {2 * MOST_BYTES} bytes, or are more than {10 * MOST_FILES}")
    return Work(files, tuple(folders))


def clean(folder: TaskFolder, tar: bytes) -> Work:
    """The declared files of an agent's tar. Left out, or as the task had them, unless no tests are where these files
    come: links that lead out of what is declared, hooks, settings and marks of git, and what Python and pytest load
    unasked. Raises InvalidArgument beyond bounds."""
    files, folders = unpacked(tar, "the agent's files")
    if folder.judge is Judge.PROGRAM:
        return _declared(folder, files, folders)
    repositories = _repositories([*files, *folders, *folder.environment])
    if folder.has_image:  # what it had of one is not in the tar
        repositories |= {one for path in files for one in _parents(path) if one.endswith(".git")}
    kept: dict[str, File] = {}
    for path, file in files.items():
        removed = removed_by(path) if folder.has_image else ""
        artifact = _artifact(folder.artifacts, removed or path)
        if removed:
            if artifact and not _acts_by_itself(removed, repositories):
                kept[path] = File()
            continue
        if artifact is None or (file.link and not _stays(path, file.link, artifact.path)):
            continue
        if (harmless := _harmless(path, file, repositories)) is not None:
            kept[path] = harmless
        elif dirname(path) in repositories and basename(path) == "config" and not (file.link or folder.has_image):
            kept[path] = File(_GIT_CONFIG.format("false" if path.endswith("/.git/config") else "true").encode())
    of_task = [path for path in folder.environment if _artifact(folder.artifacts, path)]
    kept |= {path: folder.environment[path] for path in of_task if _acts_by_itself(path, repositories)}
    below = [path for path in folders if _artifact(folder.artifacts, path) and not _acts_by_itself(path, repositories)]
    return Work(kept, tuple(below))


def _declared(folder: TaskFolder, files: Tree, folders: Iterable[str]) -> Work:
    def is_declared(path: str) -> bool:
        removed = removed_by(path) if folder.has_image else ""
        return _artifact(folder.artifacts, removed or path) is not None

    kept = {path: file for path, file in files.items() if is_declared(path)}
    return Work(kept, tuple(filter(is_declared, folders)))


def inert(files: Tree) -> dict[str, File]:
    """Without links, and what would act by itself where it is copied to."""
    repositories = _repositories(files)
    found = {path: _harmless(path, file, repositories) for path, file in files.items() if not file.link}
    return {path: file for path, file in found.items() if file is not None}


def _harmless(path: str, file: File, repositories: Collection[str]) -> File | None:
    """The file, an index of git without its marks. None for one that acts by itself, and an index that is a link or
    can't be read."""
    if _acts_by_itself(path, repositories):
        return None
    if dirname(path) in repositories and basename(path) == "index":
        try:
            return replace(file, content=without_marks(file.content))
        except InvalidArgument:
            return None
    return file


def _repositories(paths: Iterable[str]) -> set[str]:
    """Folders that git takes for a repository, whichever name they have: .git, store.git, work."""
    there = {one for path in paths for one in (path, *_parents(path))}
    found = {dirname(path) for path in there if basename(path) == "HEAD"}
    whole = {one for one in found if f"{one}/commondir" in there or {f"{one}/objects", f"{one}/refs"} <= there}
    return whole | {one for one in there if basename(one) == ".git"}


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def untouched(folder: TaskFolder) -> dict[str, File]:
    """The task's files that no agent hands over."""
    return {path: file for path, file in folder.environment.items() if _artifact(folder.artifacts, path) is None}


def _artifact(artifacts: Iterable[Artifact], path: str) -> Artifact | None:
    for artifact in artifacts:
        below = path.removeprefix(f"{artifact.path}/")
        if path == artifact.path or below != path:
            beginnings = (*_parents(below), below) if artifact.exclude else ()
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


@lru_cache(10_000)
def _is_one(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _acts_by_itself(path: str, repositories: Collection[str]) -> bool:
    *parents, name = path.split("/")
    if name == ".git" or _is_one(name, _LOADED) or any(_is_one(part, _METADATA) for part in (*parents, name)):
        return True
    inners = [path[len(one) + 1 :].split("/") for one in _parents(path) if one in repositories]
    return any(
        "hooks" in inner or inner[-1] in ("config", "config.worktree", "commondir")
        for inner in inners
        if inner[0] not in _NAMED_FREELY
    )
