"""One definition of a permanent fault: whoever tries the same work again meets it again.

Our own errors are told by class. Errors of libraries are told by class as well, and by text where the class says
nothing: torch's and CUDA's own are plain RuntimeErrors.
"""

import builtins
import re
from collections.abc import Sequence

from ratchet_kit.errors import DataLoss, InvalidArgument, PermissionDenied, RatchetError, Unimplemented

PERMANENT: tuple[type[RatchetError], ...] = (InvalidArgument, DataLoss, PermissionDenied, Unimplemented)
"""Faults of what was asked for, of its data, or of what is offered here."""

# What the same code makes of the same input each time; the last ones are of libraries.
_CLASSES = {
    "ArithmeticError",
    "AssertionError",
    "AttributeError",
    "ImportError",
    "LookupError",
    "NameError",
    "NotImplementedError",
    "TypeError",
    "ValueError",
    "JSONDecodeError",
    "SafetensorError",
    "StrictDataclassError",
    "ValidationError",
}
# No kernel for a type or a GPU; weights of other shapes than the config says.
_TEXTS = re.compile(
    r"no kernel image|not implemented for|not supported|unsupported"
    r"|exceeds dimension size|size mismatch|must match the size|shapes cannot be multiplied",
    re.I,
)
# vLLM, where a neighbour has the memory now (v1/worker/utils.py, gpu_worker.py, cpu_worker.py).
_PASSING = re.compile(r"(free|available) memory on (device|node)|error in memory profiling", re.I)


def is_permanent(error: BaseException) -> bool:
    """True for an error that is permanent itself, whatever caused it."""
    if isinstance(error, RatchetError):
        return isinstance(error, PERMANENT)
    return _is([base.__name__ for base in type(error).__mro__], str(error))


def is_permanent_text(line: str) -> bool:
    """The same of an error of another process, known by the end of its trace: "ValueError: no such layer"."""
    name, _, message = line.partition(": ")
    kind = getattr(builtins, name, None)
    return _is([base.__name__ for base in kind.__mro__] if isinstance(kind, type) else [name], message)


def _is(classes: Sequence[str], message: str) -> bool:
    if _PASSING.search(message):
        return False
    # A library's own sentence about its files. The system's have a number: no space, no permission.
    if classes[0] == "OSError":
        return bool(message) and "[Errno" not in message
    return not _CLASSES.isdisjoint(classes) or bool(_TEXTS.search(message))
