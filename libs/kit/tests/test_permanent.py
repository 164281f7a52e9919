"""Which faults each try would meet, told of the error itself and of its text in another process's log."""

import errno
import json

import pytest

from ratchet_kit.errors import (
    DataLoss,
    FailedPrecondition,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unavailable,
    Unimplemented,
)
from ratchet_kit.permanent import is_permanent, is_permanent_text


@pytest.mark.parametrize(
    "error",
    [
        InvalidArgument("no such field"),
        DataLoss("other weights"),
        PermissionDenied("not yours"),
        Unimplemented("not here"),
        ValueError("Model architectures ['Nowhere'] are not supported for now"),
        ModuleNotFoundError("No module named 'flashinfer'"),
        json.JSONDecodeError("Expecting value", "{", 1),
        NotImplementedError("Could not run 'aten::mm' with arguments from the 'XPU' backend"),
        OSError("It looks like the config file at 'config.json' is not a valid JSON file."),
        RuntimeError("CUDA error: no kernel image is available for execution on the device"),
        RuntimeError("\"addmm_impl_cpu_\" not implemented for 'Half'"),
        RuntimeError("start (0) + length (1024) exceeds dimension size (512)."),
    ],
)
def test_each_try_would_meet_it(error: Exception) -> None:
    assert is_permanent(error)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("away"),
        ResourceExhausted("full"),
        FailedPrecondition("not now"),
        NotFound("gone"),
        Internal("a bug of another service"),
        MemoryError(),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(),
        TimeoutError("timed out"),
        ConnectionResetError("by peer"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        ValueError("Free memory on device cuda:0 (3.1/80 GiB) on startup is less than desired GPU memory utilization"),
        ValueError("Available memory on node 0 (3.1/16 GiB) on kv cache allocation is less than requested memory"),
        AssertionError("Error in memory profiling. Initial free memory 60 GiB, current free memory 62 GiB."),
    ],
)
def test_another_try_may_not(error: Exception) -> None:
    assert not is_permanent(error)


@pytest.mark.parametrize(
    ("line", "permanent"),
    [
        ("ModuleNotFoundError: No module named 'flashinfer'", True),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff", True),
        ("SafetensorError: Error while deserializing header: header too small", True),
        ("OSError: no file named config.json", True),
        ("AcceleratorError: CUDA error: no kernel image is available for execution on the device", True),
        ("OSError: [Errno 28] No space left on device", False),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.", False),
        ("ValueError: Free memory on device cuda:0 (3/80 GiB) on startup is less than desired", False),
        ("RuntimeError: NCCL error: remote process exited", False),
        ("killed, or out of memory; see p.log", False),
    ],
)
def test_a_line_of_a_log_says_it_too(line: str, permanent: bool) -> None:
    assert is_permanent_text(line) is permanent
