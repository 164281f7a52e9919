"""The GPUs of this machine, as CUDA counts them."""

import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path


def visible(environ: Mapping[str, str] = os.environ, devices: Path = Path("/dev")) -> list[str]:
    """The NVIDIA GPUs that this process may use, each by what names it in CUDA_VISIBLE_DEVICES; without that variable
    all of the machine or the container."""
    named = environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(number) for number in range(len(list(devices.glob("nvidia[0-9]*"))))]
    # CUDA ignores what stands after a number that it does not have, by convention -1.
    return list(takewhile(lambda name: name not in ("", "-1"), (name.strip() for name in named.split(","))))
