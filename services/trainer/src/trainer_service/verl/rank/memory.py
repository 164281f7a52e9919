"""What a training rank takes of memory at its peak."""

from pathlib import Path

from verl.utils.device import get_device_name, get_torch_device

_OF_PROCESS = Path("/proc/self")


def take_peak() -> int:
    """Bytes at this process's peak since the last call: resident on CPU, allocated on CUDA."""
    if get_device_name() != "cpu":
        device = get_torch_device()
        peak: int = device.max_memory_allocated()
        device.reset_peak_memory_stats()
        return peak
    return take_resident_peak(_OF_PROCESS)


def take_resident_peak(process: Path) -> int:
    """`process`: its folder in /proc. The kernel counts anew after a 5 in clear_refs (proc(5))."""
    lines = (process / "status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    (process / "clear_refs").write_text("5")
    return peak * 1024
