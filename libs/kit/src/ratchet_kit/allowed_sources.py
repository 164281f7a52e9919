"""Where models and sets of problems that callers name may lie: below the folders and URLs that a service is given.

A caller's path is read with the rights of the service, and a caller's URL is opened from inside its network. So a path
is resolved, its links included, and a URL must begin with one that the operator named: the host or the bucket is never
the caller's to choose.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from ratchet_kit.errors import InvalidArgument
from ratchet_kit.storage import Folder

PROTOCOLS = frozenset({"file", "s3", "gs", "gcs", "az", "abfs", "abfss", "memory"})
"""Those of stores: one that follows redirects (http), opens archives (zip, tar) or logs in to hosts (ssh) is none."""
MAX_BYTES = 1 << 40
"""Of a model; a setting says otherwise."""
MAX_SET_BYTES = 1 << 28
"""Of a file of problems."""

_URL = re.compile(r"([a-z][a-z0-9]*)://(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\?]")


class Places:
    """The folders and URLs below which callers' models and sets of problems may lie.

    `open` and `file` raise InvalidArgument for what is elsewhere, without looking whether it is there.
    """

    def __init__(self, roots: Iterable[str], max_bytes: int = MAX_BYTES) -> None:
        """`roots`: folders, and URLs such as s3://bucket/prefix; the empty ones are left out.

        Raises InvalidArgument for a URL whose protocol is none of PROTOCOLS, or that names no bucket.
        """
        self._folders: list[Path] = []
        self._urls: list[tuple[str, ...]] = []
        self.max_bytes = max_bytes
        for root in filter(None, (root.strip() for root in roots)):
            path = _local(root)
            if path is not None:
                self._folders.append(path)
                continue
            parts = _parts(root)
            if parts[0] not in PROTOCOLS or (len(parts) < 2 and parts[0] != "memory"):
                raise InvalidArgument(
                    f"{root} cannot be a place of models: it must be a folder, or the URL of a bucket or of a folder "
                    f"in one ({', '.join(sorted(PROTOCOLS - {'file', 'memory'}))})"
                )
            self._urls.append(parts)

    def check(self, uri: str) -> str:
        """The same path, resolved, or the same URL. Raises InvalidArgument when it lies elsewhere."""
        path = _local(uri)
        if path is not None:
            self._require(path, uri)
            return str(path)
        parts = _parts(uri)
        if not any(parts[: len(root)] == root for root in self._urls):
            raise _elsewhere(uri)
        return uri

    def open(self, uri: str) -> Folder:
        """The folder of a model. Its methods raise InvalidArgument for a link out of the places, and for a size above
        `max_bytes`."""
        self.check(uri)
        path = _local(uri)
        # The caller's own path: what it is called stays as it was given, and what is opened is looked at once more.
        return Folder(uri if path is None else str(path), self._require, self.max_bytes)

    def file(self, uri: str) -> Path:
        """The file of a set of problems. Raises InvalidArgument for one that is elsewhere, too large, or no file."""
        path = _local(uri)
        if path is None:
            raise InvalidArgument(f"{_shown(uri)} must be a file on the service's machine")
        self._require(path, uri)
        try:
            if path.exists():
                if not path.is_file():
                    raise InvalidArgument(f"{_shown(uri)} is not a file")
                if path.stat().st_size > MAX_SET_BYTES:
                    raise InvalidArgument(f"{_shown(uri)} has more than {MAX_SET_BYTES >> 20} MiB")
        except OSError as error:  # a name that no disk takes, a folder that is not ours to look into
            raise InvalidArgument(f"{_shown(uri)} cannot be read: {error.strerror}") from error
        return path

    def _require(self, path: Path, uri: str) -> None:
        if not any(path.is_relative_to(folder) for folder in self._folders):
            raise _elsewhere(uri)


def _local(uri: str) -> Path | None:
    """The absolute path, with its links resolved; None for a URL of something else."""
    text = uri.removeprefix("file://") if uri.startswith("file:///") else uri
    if "://" in text or "::" in text:
        return None
    if "\0" in text:
        raise InvalidArgument("a path holds no zero bytes")
    try:
        return Path(text).expanduser().resolve()
    except (OSError, RuntimeError) as error:  # a circle of links, a user that there is not
        raise InvalidArgument(f"{_shown(uri)} cannot be resolved: {error}") from error


def _parts(uri: str) -> tuple[str, ...]:
    """Protocol, bucket and names of a URL."""
    found = _URL.fullmatch(uri)
    if found is None or "::" in uri or _CONTROL.search(uri):
        raise _elsewhere(uri)
    protocol, path = found.groups()
    names = path.rstrip("/").split("/") if path.strip("/") else []
    if protocol == "memory":  # it alone has no host: memory:///a is memory://a
        names = [name for name in names if name]
    if any(name in ("", ".", "..") or "%2e" in name.lower() for name in names):
        raise _elsewhere(uri)
    return (protocol, *names)


def _elsewhere(uri: str) -> InvalidArgument:
    return InvalidArgument(
        f"{_shown(uri)} cannot be used: it is not below a folder or URL that this service may read: put it into "
        "models/ or problems/ of its RATCHET_HOME (~/.ratchet), or name its folder in RATCHET_SOURCES "
        "(docs/operations.md)"
    )


def _shown(uri: str) -> str:
    return repr(uri[:200])
