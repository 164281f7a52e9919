"""How each service of the local platform is started: its environment, its settings, its place in the order."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ratchet_kit.embedded import redis_server_command
from ratchet_kit.service_auth import DIGEST_FILE, TOKEN_FILE
from ratchet_local import environment as inherit
from ratchet_local.home import Home
from ratchet_local.ports import Ports

# Which virtual environment runs a service; the others share the light one.
ENVIRONMENTS = {"trainer": "trainer", "rollout": "rollout"}
SERVICES = ("sandbox", "rollout", "registry", "eval", "trainer", "gateway")
"""In the order of their start."""
PEERS: Mapping[str, Sequence[str]] = {
    "gateway": ("trainer", "rollout", "sandbox", "eval", "registry"),
    "trainer": ("rollout", "sandbox", "eval", "registry"),
    "rollout": (),
    "sandbox": (),
    "eval": ("rollout", "sandbox", "registry"),
    "registry": ("eval",),
}


@dataclass(frozen=True, slots=True)
class Service:
    """One process to keep alive. `port` is where it answers once it is healthy."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    port: int
    needs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class External:
    """Parts that are not run here but pointed at, from the user's own environment variables."""

    redis_url: str | None = None
    database_url: str | None = None
    ray_address: str | None = None
    artifact_url: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "External":
        return cls(
            redis_url=environment.get("REDIS_URL") or None,
            database_url=environment.get("DATABASE_URL") or None,
            ray_address=environment.get("RAY_ADDRESS") or None,
            artifact_url=environment.get("ARTIFACT_URL") or None,
        )


def environments_folder() -> Path:
    """The folder of virtual environments that `make setup` built, beside the one that runs this."""
    return Path(sys.prefix).parent


def missing_environments(folder: Path) -> list[str]:
    return sorted(env for env in {"light", *ENVIRONMENTS.values()} if not (folder / env / "bin" / "python").exists())


def database_url(home: Home, external: External, service: str) -> str:
    """Each service has a database of its own: a SQLite file, or `<DATABASE_URL>/ratchet_<service>` on a server."""
    if external.database_url:
        return f"{external.database_url.rstrip('/')}/ratchet_{service}"
    return f"sqlite:///{home.databases / f'{service}.db'}"


def models_folder() -> Path:
    """The models that come with the project, beside the virtual environments."""
    return environments_folder().parent / "models"


def bundled_redis_url(home: Home, ports: Ports) -> str:
    return f"redis://:{home.redis_password()}@{ports.target('redis')}/0"


def plan(home: Home, ports: Ports, external: External, inherited: Mapping[str, str]) -> list[Service]:
    """All processes of the platform, dependencies first. `inherited`: the environment of whoever starts them."""
    envs = environments_folder()
    redis_url = external.redis_url or bundled_redis_url(home, ports)
    digest = str(home.digest_file())
    services: list[Service] = []
    base = {
        "RATCHET_INSTANCE": str(home.path),
        "RATCHET_HOME": str(home.path),
        "PYTHONUNBUFFERED": "1",
        "RATCHET_SOURCES": ",".join(filter(None, [str(models_folder()), inherited.get("RATCHET_SOURCES")])),
        "SPT_NOENV": "1",  # vLLM and Ray give processes titles: not over their environment, by which `down` finds them
    }
    if not external.redis_url:
        services.append(
            Service(
                "redis",
                redis_server_command(ports["redis"], home.redis, password=home.redis_password()),
                inherit.of_machine(inherited) | base,
                ports["redis"],
            ),
        )
    for name in SERVICES:
        prefix = f"RATCHET_{name.upper()}_"
        environment = inherit.of_service(name, inherited) | base
        environment |= {
            f"{prefix}HOST": "127.0.0.1",
            f"{prefix}PORT": str(ports[name]),
            f"{prefix}METRICS_PORT": str(ports[f"{name}-metrics"]),
            "REDIS_URL": redis_url,
            "DATABASE_URL": database_url(home, external, name),
            "ARTIFACT_URL": external.artifact_url or str(home.artifacts),
        }
        environment |= {f"{prefix}{peer.upper()}_TARGET": ports.target(peer) for peer in PEERS[name]}
        # Beside strangers' code the token itself is not to be had: the sandbox calls no other service.
        environment |= {DIGEST_FILE: digest} if name == "sandbox" else {TOKEN_FILE: str(home.token_file)}
        match name:
            case "gateway":
                environment |= {
                    f"{prefix}HTTP_PORT": str(ports["gateway-http"]),
                    f"{prefix}ADMIN_KEY": home.admin_key(),
                }
            case "trainer":
                environment |= {
                    f"{prefix}RAY_PORT": str(ports["ray"]),
                    f"{prefix}RUNS_FOLDER": str(home.runs),
                }
                if external.ray_address:
                    environment["RAY_ADDRESS"] = external.ray_address
            case "sandbox":
                environment |= {f"{prefix}HTTP_PORT": str(ports["sandbox-http"])}
            case "rollout":
                environment |= {f"{prefix}WORK_DIR": str(home.path / "rollout")}
        python = envs / ENVIRONMENTS.get(name, "light") / "bin" / "python"
        needs = () if external.redis_url or name in ("sandbox", "rollout") else ("redis",)
        services.append(Service(name, [str(python), "-m", f"{name}_service.main"], environment, ports[name], needs))
    return services
