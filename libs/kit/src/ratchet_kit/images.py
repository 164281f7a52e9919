"""Names of container images, as `docker save` and `FROM` have them: "registry/name:tag", "name@sha256:..."."""

import re

_NAME = re.compile(r"[a-z0-9]([a-z0-9._/-]|:[0-9]+/)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?")
_USUAL = ("docker.io/", "index.docker.io/", "localhost/", "library/")
"""Beginnings that engines add or leave out as they like."""


def is_image(runtime: str) -> bool:
    """True for the name of an image in full, which no runtime of a node can have."""
    return ":" in runtime or "@" in runtime


def normal(name: str) -> str:
    """The name in full, without what engines leave out: "docker.io/library/python" is "python:latest". Raises
    ValueError."""
    if not _NAME.fullmatch(name) or len(name) > 300:
        raise ValueError(f"{name[:120]!r} is no name of an image")
    for beginning in _USUAL:
        name = name.removeprefix(beginning)
    return name if "@" in name or ":" in name.rpartition("/")[2] else f"{name}:latest"
