"""Exits 0 when a service answers SERVING: `python -m ratchet_kit.healthcheck HOST:PORT`, for containers."""

import asyncio
import sys
from datetime import timedelta

from ratchet_kit.client import wait_healthy
from ratchet_kit.errors import RatchetError


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: python -m ratchet_kit.healthcheck HOST:PORT")
    try:
        asyncio.run(wait_healthy(sys.argv[1], timedelta(seconds=4)))
    except RatchetError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
