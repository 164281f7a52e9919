import errno
import os
import resource
import signal

import pytest

from ratchet_kit.disk_errors import disk_errors
from ratchet_kit.errors import FailedPrecondition, NotFound, ResourceExhausted, Unavailable


@pytest.mark.parametrize(
    ("number", "meant", "advice"),
    [
        (errno.ENOSPC, ResourceExhausted, "free some"),
        (errno.EDQUOT, ResourceExhausted, "free some"),
        (errno.EROFS, Unavailable, "read-only"),
        (errno.EIO, Unavailable, "read or write"),
        (errno.EMFILE, Unavailable, "ulimit -n"),
        (errno.ENFILE, Unavailable, "as many files open"),
        (errno.ESTALE, Unavailable, "cannot be reached"),
        (errno.ENOENT, NotFound, "does not exist"),
        (errno.EACCES, FailedPrecondition, "no access"),
    ],
)
def test_what_a_disk_answers(number, meant, advice):
    with pytest.raises(meant, match=advice):
        with disk_errors("/place"):
            raise OSError(number, os.strerror(number), "/place/file")


def test_a_file_that_may_not_grow(tmp_path):
    """In a process of its own: the limit holds for whatever it writes."""
    if pid := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return
    status = 1
    try:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with disk_errors(str(tmp_path)):
            (tmp_path / "file").write_bytes(bytes(10_000))
    except ResourceExhausted:
        status = 0
    finally:
        os._exit(status)
