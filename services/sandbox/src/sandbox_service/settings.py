"""The service's settings: RATCHET_SANDBOX_*."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from ratchet_kit import memory
from ratchet_kit.settings import ServiceSettings
from sandbox_service.domain.program import MAX_OUTPUT_BYTES, Limits


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_SANDBOX_")

    port: int = 8704
    http_port: int | None = Field(default=None, ge=0, le=65535)
    """Where SandboxFusion's clients are served (docs/sandboxfusion.md); unset is off, 0 takes a free port."""
    datasets_dir: Path | None = None
    """Where rows of data sets lie for /submit, `<dataset>.jsonl`; a request may also bring its row along."""
    lanes: int = Field(default_factory=lambda: len(os.sched_getaffinity(0)), ge=1, le=1024)
    """Programs that run at the same time; by default the cores of this process."""
    held_out_attempts: int = Field(default=100_000, ge=0)
    """How often one caller may have programs tried against the same held-out tests within a day, on this node; beyond
    it a call gets RESOURCE_EXHAUSTED. 0 bounds nothing: whoever tries often enough finds out what the tests are."""
    max_cpu_time: timedelta = timedelta(seconds=240)
    """The limit that BigCodeBench gives its programs, the highest of all benchmarks."""
    max_memory_bytes: int = 4 << 30
    max_result_bytes: int = 4 << 20
    """The longest answer to one call, encoded, and an eighth of all answers together; more is
    OUTPUT_LIMIT."""
    max_source_bytes: int = 1 << 20
    """The longest source, test code or literal of a call test; standard input and expected output may have 16 MiB."""
    idle_extra: timedelta = timedelta(seconds=1)
    """A program may sleep and wait for its CPU limit and this much more, in all."""
    wall_factor: float = Field(default=30.0, ge=1)
    """The bound on the clock is wall_factor x (CPU limit + idle_extra): the last resort, on an overloaded machine,
    where a program waits for its turn and neither computes nor idles."""
    runtimes_dir: Path | None = None
    """A folder of virtual environments, each a Python runtime of its name; by default those named sandbox-* beside the
    service's own."""
    images: Path | None = None
    """A folder of images that workspaces may have for their root: what `docker save` writes, or OCI layouts. They are
    unpacked in it, below .unpacked, or where it is read only, in $XDG_CACHE_HOME."""
    workspace_bytes: int = Field(default_factory=lambda: memory.of_machine() // 2, ge=0)
    """Memory and disk of all workspaces together (WorkspaceService); by default half of the machine's memory. 0: this
    node has none."""
    min_level: Literal["L1", "L2", "L3"] = "L1"
    """The least isolation to start with: docs/sandbox/isolation.md. Below it the service says what is missing."""

    redis_url: str = ""
    database_url: str = ""
    """With both, this node takes and works off stored batches (CreateBatch), together with all nodes that have the
    same two. Nothing else needs them."""
    batch_lease: timedelta = timedelta(seconds=30)
    """How long programs of a stored batch stay with a node that has died, or with one that failed them."""
    keep_batches: timedelta = timedelta(days=7)
    """How long a stored batch can be read after its end; 0: until it is deleted."""

    @property
    def missing_for_batches(self) -> list[str]:
        named = {"REDIS_URL": self.redis_url, "DATABASE_URL": self.database_url}
        return [name for name, value in named.items() if not value]

    @property
    def max_limits(self) -> Limits:
        return Limits(self.max_cpu_time, self.max_memory_bytes, MAX_OUTPUT_BYTES)
