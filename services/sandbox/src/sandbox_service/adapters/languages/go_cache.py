"""Go builds its standard library anew for each program, 8 s of CPU time, unless it finds it built: once a user it is.

The folder is shown to programs read-only. What fills it is our own source, compiled by the service itself.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from ratchet_kit.logs import get_logger

log = get_logger(__name__)

_LIMIT = 300  # seconds
_PACKAGES = (
    "bufio bytes cmp container/heap container/list container/ring context crypto/md5 encoding/hex encoding/json errors "
    "fmt io maps math math/big math/bits math/cmplx math/rand os reflect regexp slices sort strconv strings sync "
    "sync/atomic text/tabwriter time unicode unicode/utf8"
)
_DONE = "ratchet-done-with-testing"


def folder(version: str) -> Path | None:
    """Where it is, made if need be. None where this user has no place to keep it."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    path = Path(home) / "ratchet" / f"go-{version}"
    # programs have a /tmp of their own, which would hide it
    if not path.is_absolute() or path.is_relative_to("/tmp"):
        return None
    try:
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
    except OSError:
        return None
    return path if os.access(path, os.W_OK) else None


async def fill(path: Path, go: str, root: str) -> None:
    """Builds what's missing. What fails is logged: programs then compile more slowly, that's all."""
    if (path / _DONE).exists():
        return
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(path), "GOCACHE": str(path), "GOROOT": root, "CGO_ENABLED": "0"}
    environment |= {"GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    with tempfile.TemporaryDirectory(prefix="ratchet-go-") as work:
        source = Path(work) / "main_test.go"
        imports = "".join(f'import _ "{name}"\n' for name in _PACKAGES.split())
        source.write_text(f'package main\nimport "testing"\n{imports}func TestNothing(*testing.T) {{}}\n')
        process = await asyncio.create_subprocess_exec(
            *(go, "test", "-c", "-vet=off", "-o", f"{work}/program", str(source)),
            cwd=work,
            env=environment,
            umask=0o022,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_LIMIT):
                _, complaint = await process.communicate()
        except TimeoutError:
            complaint = b"it took too long"
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode == 0:
        (path / _DONE).touch()
    else:
        log.warning("go_library.not_built", reason=complaint.decode("utf-8", "replace")[-500:])
