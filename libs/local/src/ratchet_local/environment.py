"""The environment that a platform's processes inherit from whoever starts it: variables that they are known to
read, and nothing else. A shell holds secrets, and what a process has in its environment its children have too."""

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

MACHINE = (
    *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "XDG_CACHE_HOME"),
    *("PYTHONPATH", "LD_LIBRARY_PATH"),
)
"""Variables of every process, Redis too. A `*` stands for any letters."""
PLATFORM = ("RATCHET_DATA", "RATCHET_TLS_*_FILE", "REDIS_PASSWORD_FILE", "DATABASE_PASSWORD_FILE", "OTEL_*")
"""Variables of every service, beside those with its own prefix (RATCHET_EVAL_)."""
STORES = (
    *("AWS_*", "GOOGLE_*", "AZURE_*", "FSSPEC_*"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
"""Variables of services that read and write models in object stores."""
COMPUTING = (
    *("CUDA_*", "NVIDIA_*", "NCCL_*", "GLOO_*", "UCX_*", "OMP_*", "KMP_*", "GOMP_*", "MKL_*", "TRITON_*"),
    *("TORCH*", "PYTORCH_*", "RAY_*", "VLLM_*", "CC", "CXX", "LD_PRELOAD"),
)
"""Variables of services that run models."""
TRACKERS = (
    *("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    *("WANDB_API_KEY", "WANDB_BASE_URL", "WANDB_ENTITY", "WANDB_MODE"),
)
"""Where runs are shown."""
PRICES = ("RATCHET_PRICES",)
"""Variables of services whose work has a cost."""
TOOL_SERVERS = ("RATCHET_TOOL_SERVERS",)
"""Variables of services that play episodes."""
PARTS = ("RATCHET_SOURCES", *PRICES, *TOOL_SERVERS, "REDIS_URL", "DATABASE_URL", "RAY_ADDRESS", "ARTIFACT_URL")
"""Variables of the platform, beside its services' own."""
_MORE: Mapping[str, Iterable[str]] = {
    "registry": STORES,
    "rollout": (*STORES, *COMPUTING),
    "trainer": (*STORES, *COMPUTING, *TRACKERS, *PRICES, *TOOL_SERVERS),
    "eval": (*PRICES, *TOOL_SERVERS),
    "gateway": PRICES,
}


def of_machine(environment: Mapping[str, str]) -> dict[str, str]:
    return _only(environment, MACHINE)


def of_service(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    return _only(environment, (*MACHINE, *PLATFORM, f"RATCHET_{name.upper()}_*", *_MORE.get(name, ())))


def settings(services: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are set for the platform, without those of the machine and of libraries."""
    return _only(environment, (*PARTS, *(f"RATCHET_{name.upper()}_*" for name in services)))


def of_supervisor(services: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that it hands on to its services, and the addresses of parts that it does not start."""
    found = _only(environment, (*MACHINE, *PARTS))
    for name in services:
        found |= of_service(name, environment)
    return found


def _only(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    allowed = tuple(patterns)
    return {name: value for name, value in environment.items() if any(fnmatchcase(name, one) for one in allowed)}
