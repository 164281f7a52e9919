"""Container images as files, as `docker save` writes them, of this machine's own programs: no engine, no network."""

import hashlib
import io
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

PROGRAMS = (
    "bash", "cat", "chmod", "cp", "dirname", "env", "find", "git", "grep", "head", "id", "ln", "ls", "mkdir", "mv",
    "rm", "sed", "sleep", "stat", "touch", "true",
)  # fmt: skip
_PATH = "/usr/bin:/bin"
_LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages", "dist-packages",
    "pydoc_data", "distutils",
}  # fmt: skip
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def save(
    path: Path, name: str, layers: Sequence[bytes], environment: Mapping[str, str] = {}, workdir: str = "/"
) -> Path:
    """A tar of one image, with its layers from the lowest up."""
    names = [f"{hashlib.sha256(layer).hexdigest()}/layer.tar" for layer in layers]
    config = json.dumps({
        "os": "linux", "architecture": _MACHINES.get(platform.machine(), platform.machine()),
        "config": {"Env": [f"{key}={value}" for key, value in environment.items()], "WorkingDir": workdir},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }).encode()  # fmt: skip
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": names}]).encode()
    files = {"config.json": config, "manifest.json": manifest, **dict(zip(names, layers, strict=True))}
    path.write_bytes(layer(entry(one, content) for one, content in files.items()))
    return path


def entry(name: str, content: bytes = b"", mode: int = 0o644, **more: object) -> tuple[tarfile.TarInfo, bytes]:
    """`more`: other fields of a TarInfo."""
    made = tarfile.TarInfo(name)
    made.size, made.mode = len(content), mode
    for field, value in more.items():
        setattr(made, field, value)
    return made, content


def layer(entries: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for made, content in entries:
            archive.addfile(made, io.BytesIO(content))
    return into.getvalue()


def of_folder(folder: Path, at: str) -> bytes:
    """A layer with a folder of this machine."""
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        archive.add(folder, at)
    return into.getvalue()


def of_machine(programs: Iterable[str] = PROGRAMS) -> bytes:
    """A layer with programs of this machine, its own Python with a standard library, and what they link to."""
    python = shutil.which("python3", path=_PATH) or sys.executable
    found = [path for name in (*programs, "python3") if (path := shutil.which(name, path=_PATH))]
    probe = "import sysconfig; print(sysconfig.get_path('stdlib'))"
    library = subprocess.run([python, "-I", "-c", probe], capture_output=True, text=True, check=True).stdout.strip()
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w") as archive:
        for name in ("bin", "lib", "lib64"):
            if os.path.islink(f"/{name}"):
                archive.add(f"/{name}", name)
        extensions = [str(path) for path in Path(library).glob("lib-dynload/_ctypes.*.so")]
        for path in sorted({*found, *_linked([*found, *extensions])}):
            archive.add(os.path.realpath(path), path.lstrip("/"))
        archive.add(library, library.lstrip("/"), filter=_needed)
        for name, target in (("sh", "bash"), ("python", "python3")):
            archive.addfile(entry(f"usr/bin/{name}", type=tarfile.SYMTYPE, linkname=target)[0])
    return into.getvalue()


def _needed(made: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = os.path.basename(made.name)
    return None if name in _LEFT_OUT or name.startswith("config-") or ".opt-" in name else made


def _linked(paths: Sequence[str]) -> Iterator[str]:
    said = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=False).stdout
    for line in said.splitlines():
        if match := re.match(r"\s+(?:\S+ => )?(/\S+) \(0x", line):
            yield os.path.normpath(match[1])
