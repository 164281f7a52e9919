"""docker-compose.yml: strangers' programs sit apart, no password is fixed, GPUs are shared."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
OURS = ("gateway", "trainer", "rollout", "sandbox", "eval", "registry", "trainer-gpu", "rollout-gpu")


def networks(service: dict[str, Any]) -> set[str]:
    if "network_mode" in service:
        return set()
    return set(service.get("networks", ["default"]))


def test_the_sandbox_reaches_no_store_of_the_others() -> None:
    beside = {name for name, service in COMPOSE.items() if networks(service) & networks(COMPOSE["sandbox"])}
    assert beside == {"sandbox", "sandbox-redis", "gateway", "eval", "trainer", "trainer-gpu", "prometheus"}
    assert not beside & {"redis", "postgres", "s3", "secrets", "rollout", "registry"}


def test_the_sandbox_has_a_digest_of_the_token_and_no_more() -> None:
    environment, volumes = COMPOSE["sandbox"]["environment"], COMPOSE["sandbox"]["volumes"]
    assert "RATCHET_SERVICE_TOKEN_DIGEST_FILE" in environment
    assert not {"RATCHET_SERVICE_TOKEN", "RATCHET_SERVICE_TOKEN_FILE"} & set(environment)
    assert not [volume for volume in volumes if volume.startswith("secrets:")]


@pytest.mark.parametrize("name", [name for name in OURS if name != "sandbox"])
def test_every_other_service_shows_the_token(name: str) -> None:
    assert COMPOSE[name]["environment"]["RATCHET_SERVICE_TOKEN_FILE"] == "/secrets/service.token"
    assert "secrets:/secrets:ro" in COMPOSE[name]["volumes"]


def test_level_2_is_for_the_sandbox_alone_and_it_writes_into_its_own_volume() -> None:
    override = yaml.safe_load((ROOT / "deploy/docker/sandbox-l2.yml").read_text())["services"]
    assert override.keys() == {"sandbox"}
    own = override["sandbox"]
    assert {"no-new-privileges:true", "systempaths=unconfined"} < set(own["security_opt"])
    assert own["volumes"] == ["${RATCHET_IMAGES:-./images}:/images:ro"]
    volumes = [volume.split(":")[1] for volume in COMPOSE["sandbox"]["volumes"] if not volume.endswith(":ro")]
    assert own["environment"]["XDG_CACHE_HOME"].startswith(f"{volumes[0]}/")


def test_redis_and_postgresql_have_passwords_that_are_made() -> None:
    for name in ("redis", "sandbox-redis"):
        assert "requirepass" in COMPOSE[name]["entrypoint"][-1]
    assert COMPOSE["postgres"]["environment"]["POSTGRES_PASSWORD_FILE"] == "/secrets/postgres/password"
    urls = [COMPOSE[name]["environment"].get("DATABASE_URL", "") for name in OURS]
    assert not [url for url in urls if "@postgres" in url and ":" in url.split("@")[0].removeprefix("postgresql://")]


def test_trainer_and_rollout_use_the_gpus_that_they_are_given() -> None:
    for name, variable in (("rollout-gpu", "RATCHET_ROLLOUT_GPUS"), ("trainer-gpu", "RATCHET_TRAINER_GPUS")):
        assert COMPOSE[name]["environment"][variable]
        assert COMPOSE[name]["deploy"]["resources"]["reservations"]["devices"][0]["count"] == "all"
    # By default they are the same one, of which vLLM must not claim all.
    assert (
        COMPOSE["rollout-gpu"]["environment"]["RATCHET_ROLLOUT_GPU_MEMORY_UTILIZATION"] == "${ROLLOUT_GPU_MEMORY:-0.4}"
    )


def test_images_for_gpus_have_a_compiler() -> None:
    lines = (ROOT / "deploy/docker/Dockerfile").read_text().splitlines()
    assert [line for line in lines if line.startswith('RUN if [ "$DEVICE" = cuda ]') and " g++ " in line]
