"""Which processes a platform has, and with which settings."""

import stat
from pathlib import Path

from ratchet_kit.service_auth import DIGEST_FILE, TOKEN_FILE, digest_of
from ratchet_local.environment import of_supervisor
from ratchet_local.home import Home
from ratchet_local.ports import Ports
from ratchet_local.services import SERVICES, External, models_folder, plan


def test_each_service_gets_its_own_database_and_its_peers(home: Home) -> None:
    ports = Ports.from_base(9100)
    services = {service.name: service for service in plan(home, ports, External(), {})}
    assert list(services) == ["redis", "sandbox", "rollout", "registry", "eval", "trainer", "gateway"]
    assert len({service.environment.get("DATABASE_URL") for service in services.values()}) == 7
    assert services["trainer"].environment["RATCHET_TRAINER_ROLLOUT_TARGET"] == ports.target("rollout")
    assert services["trainer"].command[0].endswith("trainer/bin/python")


def test_services_share_a_token_that_the_sandbox_cannot_show(home: Home) -> None:
    services = {service.name: service.environment for service in plan(home, Ports.from_base(9100), External(), {})}
    token = home.service_token()
    callers = ("gateway", "trainer", "rollout", "eval", "registry")
    assert {Path(services[name][TOKEN_FILE]).read_text() for name in callers} == {token}
    assert Path(services["sandbox"][DIGEST_FILE]).read_text().split() == [digest_of(token)]
    assert TOKEN_FILE not in services["sandbox"]
    assert not [value for value in services["sandbox"].values() if token in value]


def test_the_bundled_redis_has_a_password(home: Home) -> None:
    services = {service.name: service for service in plan(home, Ports.from_base(9100), External(), {})}
    password = home.redis_password()
    assert f":{password}@" in services["eval"].environment["REDIS_URL"]
    assert not [word for word in services["redis"].command if password in word]
    for file in ("service.token", "redis.password"):
        assert stat.S_IMODE((home.path / file).stat().st_mode) == 0o600


def test_models_of_the_project_and_of_the_user_may_be_read(home: Home) -> None:
    services = plan(home, Ports.from_base(9100), External(), {"RATCHET_SOURCES": "s3://mine"})
    assert {service.environment["RATCHET_SOURCES"] for service in services} == {f"{models_folder()},s3://mine"}


def test_what_is_pointed_elsewhere_is_not_started_here(home: Home) -> None:
    external = External.from_environment(
        {"REDIS_URL": "redis://elsewhere:6379/0", "DATABASE_URL": "postgresql://u@db:5432", "RAY_ADDRESS": "ray:6379"}
    )
    services = {service.name: service for service in plan(home, Ports.from_base(9100), external, {})}
    assert "redis" not in services
    assert services["eval"].environment["REDIS_URL"] == "redis://elsewhere:6379/0"
    assert services["eval"].environment["DATABASE_URL"] == "postgresql://u@db:5432/ratchet_eval"
    assert services["trainer"].environment["RAY_ADDRESS"] == "ray:6379"


def test_services_get_of_a_shell_what_they_read_and_nothing_else(home: Home) -> None:
    shell = {
        "PATH": "/bin",
        "LC_ALL": "C.UTF-8",
        "GITHUB_TOKEN": "a secret",
        "OPENAI_API_KEY": "a secret",
        "RATCHET_API_KEY": "a secret",
        "RATCHET_SERVICE_TOKEN_FILE": "/elsewhere",
        "RATCHET_GATEWAY_ADMIN_KEY": "of the gateway",
        "RATCHET_EVAL_SLOTS": "3",
        "RATCHET_TLS_KEY_FILE": "/key",
        "AWS_SECRET_ACCESS_KEY": "of the store",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    services = plan(home, Ports.from_base(9100), External(), shell)
    assert not [one.name for one in services if "a secret" in one.environment.values()]
    assert all(one.environment["PATH"] == "/bin" and one.environment["LC_ALL"] == "C.UTF-8" for one in services)

    def who_has(name: str) -> set[str]:
        return {one.name for one in services if name in one.environment}

    assert "/elsewhere" not in {one.environment.get("RATCHET_SERVICE_TOKEN_FILE") for one in services}
    assert who_has("RATCHET_GATEWAY_ADMIN_KEY") == {"gateway"}
    assert who_has("RATCHET_EVAL_SLOTS") == {"eval"}
    assert who_has("RATCHET_TLS_KEY_FILE") == {one.name for one in services} - {"redis"}
    assert who_has("AWS_SECRET_ACCESS_KEY") == {"registry", "rollout", "trainer"}
    assert who_has("CUDA_VISIBLE_DEVICES") == {"rollout", "trainer"}


def test_who_supervises_has_no_more_than_it_hands_on(home: Home) -> None:
    shell = {"PATH": "/bin", "GITHUB_TOKEN": "a secret", "REDIS_URL": "redis://elsewhere", "RATCHET_TRAINER_LEASE": "3"}
    found = of_supervisor(SERVICES, shell)
    assert found == {name: value for name, value in shell.items() if value != "a secret"}
