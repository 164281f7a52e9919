"""What other languages need: which compilers and interpreters are here, and how each is called in the cage."""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ratchet_kit.logs import get_logger
from sandbox_service.adapters.languages import go_cache, java
from sandbox_service.domain.capabilities import Runtime
from sandbox_service.domain.program import File

log = get_logger(__name__)

_VERSION_LIMIT = 60  # seconds: one that is slow on a busy machine is not broken
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@dataclass(frozen=True, slots=True)
class Language:
    """How a language is compiled and run.

    `programs`: what must be on the PATH; the first prints the version. In the commands, "{gcc}" is where that is,
    "{file}" the source, "{main}" its main class, "{mib}" the memory limit. `files`: what the compiler wants to find.
    `keep`: what it makes. `root`: how the first program prints its own folder, since some only start one that lies
    elsewhere. `own_libraries`: they are in lib/ beside its bin/, which it can't find without a /proc.
    `compile_tests`, `run_tests`, `file_of_tests`: with its own runner of tests, or with assertions on, where these
    are not as for any program.
    `out_of_memory`: the status and the words with which a run-time system gives up by itself.
    """

    name: str
    file: str
    programs: tuple[str, ...]
    install: str
    run: tuple[str, ...]
    compile: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    version: tuple[str, ...] = ("--version",)
    environment: Mapping[str, str] = field(default_factory=dict)
    own_libraries: bool = False
    files: tuple[File, ...] = ()
    root: tuple[str, ...] = ()
    out_of_memory: tuple[int, str] | None = None
    compile_tests: tuple[str, ...] = ()
    run_tests: tuple[str, ...] = ()
    file_of_tests: str = ""


_JAVA = (
    "-Xmx{mib}m",
    "-Xss64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-cp",
    "classes",
    "{main}",
)
_RUSTC = (
    "-O", "--edition=2021", "-Cstrip=symbols", "-Clinker={cc}", "-Clink-arg=-fuse-ld=bfd", "-o", "program", "{file}",
)  # fmt: skip
LANGUAGES = (
    Language(
        "c",
        "main.c",
        ("gcc",),
        "install gcc",
        ("./program",),
        ("{gcc}", "-O2", "-o", "program", "{file}", "-lm"),
        ("program",),
    ),
    Language(
        "cpp",
        "main.cpp",
        ("g++",),
        "install g++",
        ("./program",),
        ("{g++}", "-O2", "-std=gnu++17", "-o", "program", "{file}"),
        ("program",),
    ),
    Language(
        "java",
        "Main.java",
        ("javac", "java"),
        "install a JDK (default-jdk-headless)",
        # few threads and no reserve, for a short life; the heap may grow to the limit, which counts all the rest, too
        ("{java}", *_JAVA),
        ("{javac}", "-J-Xmx1024m", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-J-XX:-UsePerfData",
         "-encoding", "UTF-8", "-d", "classes", "{file}"),
        ("classes/",),
        own_libraries=True,
        out_of_memory=(3, "Terminating due to java.lang.OutOfMemoryError"),
        run_tests=("{java}", "-ea", *_JAVA),
    ),
    Language(
        "javascript",
        "main.js",
        ("node",),
        "install nodejs",
        ("{node}", "--max-old-space-size={mib}", "--stack-size=15000", "{file}"),
    ),
    Language(
        "go",
        "main.go",
        ("go",),
        "install golang",
        ("./program",),
        ("{go}", "build", "-o", "program", "{file}"),
        ("program",),
        ("version",),
        {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "-mod=mod", "GOMAXPROCS": "2"},
        files=(File(".config/go/telemetry/mode", b"off"),),
        root=("env", "GOROOT"),
        compile_tests=("{go}", "test", "-c", "-vet=off", "-o", "program", "{file}"),
        file_of_tests="main_test.go",
    ),
    Language(
        "rust",
        "main.rs",
        ("rustc", "cc"),
        "install rustc and a C compiler, its linker",
        ("./program",),
        ("{rustc}", *_RUSTC),
        ("program",),
        own_libraries=True,
        root=("--print", "sysroot"),
        compile_tests=("{rustc}", "--test", *_RUSTC),
        run_tests=("./program", "--nocapture", "--test-threads=1"),
    ),
    Language("bash", "main.sh", ("bash",), "install bash", ("{bash}", "{file}")),
)  # fmt: skip
_BY_NAME = {language.name: language for language in LANGUAGES}

# What compilers, interpreters and the shell read. Nothing here is private to the machine: no /home, no /root, no /var.
SYSTEM_PATHS = (
    "/bin", "/usr/bin", "/usr/libexec", "/usr/include", "/usr/share/nodejs", "/usr/share/java", "/usr/local/bin",
    "/usr/local/lib", "/usr/local/include", "/usr/local/go", "/etc/alternatives",
)  # fmt: skip
_ALREADY_THERE = ("/usr/bin/", "/usr/lib/", "/bin/", "/usr/local/bin/", "/usr/local/go/")


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A language that this machine has. `programs`: where each is, inside the cage as outside."""

    language: Language
    programs: Mapping[str, str]
    version: str
    cache: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        root = Path(os.path.realpath(self.programs[self.language.programs[0]])).parent.parent
        environment = dict(self.language.environment)
        if self.language.own_libraries:
            environment["LD_LIBRARY_PATH"] = str(root / "lib")
        if self.language.name == "go":
            environment |= {"GOROOT": str(root), "GOCACHE": str(self.cache or "/tmp/.cache/go")}
        return environment

    def words(self, source: str) -> Mapping[str, str]:
        """What the source itself says for the commands: "file", "main"."""
        if self.language.name != "java":
            return {"file": self.language.file}
        names = java.read(source)
        return {"file": f"{names.file}.java", "main": names.main}

    def command(self, template: tuple[str, ...], words: Mapping[str, str], memory_bytes: int) -> tuple[str, ...]:
        known = {**self.programs, **words, "mib": str(memory_bytes >> 20)}
        return tuple(part.format_map(known) for part in template)


class Toolchains:
    """What's on the PATH is known at once. The rest, which takes up to a second, is found out when first needed."""

    def __init__(self) -> None:
        candidates = {language.name: _where(language) for language in LANGUAGES}
        self._found = {name: programs for name, programs in candidates.items() if programs}
        self._versions: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._ready: asyncio.Task[None] | None = None
        self._go_cache: Path | None = None
        self._filling: asyncio.Task[None] | None = None

    async def stop(self) -> None:
        tasks = [task for task in (self._ready, self._filling) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def ready(self) -> None:
        """Versions are known, and what doesn't work is off the list."""
        if self._ready is None:
            self._ready = asyncio.create_task(self._look_closer())
        await asyncio.shield(self._ready)

    @property
    def runtimes(self) -> list[Runtime]:
        return [Runtime(name, name, self._versions.get(name, "")) for name in self._found]

    @property
    def missing(self) -> dict[str, str]:
        return {language.name: language.install for language in LANGUAGES if language.name not in self._found}

    @property
    def paths(self) -> tuple[str, ...]:
        """What the cage has to show. Only once `ready`."""
        versioned = [*Path("/etc").glob("java*"), *Path("/usr/share").glob("go-*")]
        folders = [str(path) for path in (*versioned, self._go_cache) if path and path.is_dir()]
        return (*SYSTEM_PATHS, *folders, *dict.fromkeys(self._folders()))

    def _folders(self) -> list[str]:
        """Of what lies elsewhere, the folder that holds its bin/."""
        programs = [self._real.get(path, path) for found in self._found.values() for path in found.values()]
        return [str(Path(path).parent.parent) for path in programs if not path.startswith(_ALREADY_THERE)]

    async def get(self, name: str) -> Toolchain | None:
        await self.ready()
        if name not in self._found:
            return None
        cache = None
        if name == "go" and self._filling is not None:
            await asyncio.shield(self._filling)
            cache = self._go_cache
        programs = {program: self._real.get(path, path) for program, path in self._found[name].items()}
        return Toolchain(_BY_NAME[name], programs, self._versions[name], cache)

    async def _look_closer(self) -> None:
        await asyncio.gather(*(self._ask(name) for name in list(self._found)))
        log.info("toolchains.found", **self._versions)

    async def _ask(self, name: str) -> None:
        """Its version. One that prints none doesn't work: it's taken off the list."""
        language, programs = _BY_NAME[name], self._found[name]
        first = programs[language.programs[0]]
        answer = await _output(first, *language.version)
        found = _VERSION.search(answer)
        if found is None:
            log.warning("toolchain.broken", language=name, program=first)
            del self._found[name]
            return
        self._versions[name] = found.group()
        if language.root:
            root = Path((await _output(first, *language.root)).strip())
            real = (root / "bin" / language.programs[0]).resolve()
            if real.is_file():
                self._real[first] = str(real)
            if name == "go" and (cache := go_cache.folder(found.group())):
                self._go_cache = cache
                self._filling = asyncio.create_task(go_cache.fill(cache, first, str(root)))


def _where(language: Language) -> dict[str, str]:
    found = {program: shutil.which(program) for program in language.programs}
    real = {program: os.path.realpath(path) for program, path in found.items() if path}
    if len(real) < len(language.programs):
        return {}
    # by the name that it was found under where the cage has that: that is what makes it g++ and not gcc
    return {
        program: path if path.startswith(_ALREADY_THERE) or language.root else real[program]
        for program, path in found.items()
        if path
    }


async def _output(*command: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_VERSION_LIMIT):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode("utf-8", "replace") if process.returncode == 0 else ""
