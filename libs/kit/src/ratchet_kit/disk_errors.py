"""The one table between what a disk answers and errors of ours."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from ratchet_kit.errors import FailedPrecondition, NotFound, ResourceExhausted, Unavailable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""No byte more can be written there: the disk, a quota, or the largest file that is allowed."""
_ADVICE = {
    errno.EMFILE: "this service has as many files open as it may: raise its limit (ulimit -n)",
    errno.ENFILE: "this machine has as many files open as it can",
    errno.EROFS: "its disk takes no writes: it was mounted read-only, perhaps after a fault",
    errno.EIO: "its disk fails to read or write data",
}


@contextmanager
def disk_errors(place: str) -> Iterator[None]:
    """Around work with the files of `place` (a path or a URL): raises an error of ours in place of an OSError.

    Raises NotFound, FailedPrecondition (no access), ResourceExhausted (full), Unavailable (anything else).
    """
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{place}: {error.filename or error} does not exist") from error
    except PermissionError as error:
        raise FailedPrecondition(f"this service has no access to {place}: {error}") from error
    except OSError as error:
        if error.errno in FULL:
            raise ResourceExhausted(f"no space is left for the files of {place}: free some there") from error
        advice = _ADVICE.get(error.errno or 0, "")
        raise Unavailable(f"{place} cannot be reached: {f'{advice} ({error})' if advice else error}") from error
