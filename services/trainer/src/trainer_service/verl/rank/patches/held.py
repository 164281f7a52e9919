"""What patches rest on: functions of verl and TransferQueue, each held to a hash of its source."""

import hashlib
import importlib
import inspect
from collections.abc import Mapping
from operator import attrgetter

Held = Mapping[str, str]
"""Of each name, `package.module:attribute`, the digest of its source."""


def check(held: Held) -> None:
    """Raises ImportError that names the first that is not as it was when the patch was written."""
    for name, digest in held.items():
        if (found := digest_of(name)) != digest:
            package = name.split(".")[0]
            raise ImportError(
                f"{name} is not the one that Ratchet's patch of it was written for (source {found}, not {digest}): "
                f"install the {package} that requirements-*.lock pins, or write the patch anew"
            )


def digest_of(name: str) -> str:
    """Raises ImportError where there is none."""
    module, _, attribute = name.partition(":")
    try:
        source = inspect.getsource(attrgetter(attribute)(importlib.import_module(module)))
    except AttributeError as error:
        raise ImportError(f"{name} is gone, and Ratchet patches it: install the pinned version") from error
    return hashlib.sha256(source.encode()).hexdigest()[:16]
