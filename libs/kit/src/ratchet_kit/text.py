"""Text that goes to people, and text from elsewhere: JSON and models can write halves of surrogate pairs and NUL."""

import re

# How gRPC and libpq go on when they name the machine that they could not reach, and its users.
_MACHINES = re.compile(
    r"[\s:;(]*(?:last error: |connection failed: |connection to server |(?:ipv[46]|unix|dns):\S).*", re.DOTALL
)

_PATHS = re.compile(r"""(?<![\w./:])(?:[a-z][a-z0-9+.-]*:/|~)?/[^\s'"`,;()<>]*[^\s'"`,;:.()<>]""")


def clip(text: str, most_bytes: int) -> str:
    """Valid UTF-8 of at most `most_bytes` bytes; "..." at its end says that it was longer."""
    data = text[: most_bytes + 1].encode("utf-8", "replace")
    return data.decode() if len(data) <= most_bytes else data[: most_bytes - 3].decode("utf-8", "ignore") + "..."


def without_machines(text: str) -> str:
    """An error's text up to where gRPC's or PostgreSQL's client names hosts, ports and users: for strangers' eyes."""
    return _MACHINES.sub("", text) or "a part of the platform cannot be reached"


def without_paths(text: str) -> str:
    """With "[path]" for each absolute path and each URL: for strangers' eyes."""
    return _PATHS.sub("[path]", text)


def encodable(text: str) -> str:
    """With "?" for each half of a surrogate pair, which UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode()


def storable(text: str) -> str:
    """As `encodable`, and without NUL, which PostgreSQL cannot hold."""
    return encodable(text.replace("\x00", "\ufffd"))


def check_encodable(text: str) -> str:
    """The text itself, for pydantic's validators. Raises ValueError where it holds half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("must not hold an unpaired surrogate") from error
    return text
