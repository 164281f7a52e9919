from datetime import timedelta

import pytest
from pydantic import ValidationError
from pydantic_settings import SettingsConfigDict

from ratchet_kit.settings import ServiceSettings


class Settings(ServiceSettings):
    model_config = SettingsConfigDict(env_prefix="RATCHET_DEMO_")
    port: int = 8702
    database_url: str = "sqlite:///demo.db"
    sandbox_target: str = "127.0.0.1:8704"


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("REDIS_URL", "DATABASE_URL", "RAY_ADDRESS", "ARTIFACT_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("variable", ["RATCHET_DEMO_GRACES", "RATCHET_DEMO_LIMITS__ONE", "ratchet_demo_graces"])
def test_a_variable_that_is_no_setting_ends_the_process(env, variable):
    env.setenv(variable, "3")
    with pytest.raises(SystemExit, match=f"^{variable} is not a setting: unset it$"):
        Settings.read()


def test_defaults(env):
    settings = Settings()
    assert (settings.host, settings.port, settings.metrics_port) == ("127.0.0.1", 8702, 0)
    assert settings.grace == timedelta(seconds=10)
    assert settings.otlp_endpoint is None


def test_the_services_own_variables(env):
    env.setenv("RATCHET_DEMO_PORT", "9000")
    env.setenv("RATCHET_DEMO_GRACE", "2.5")
    env.setenv("RATCHET_DEMO_SANDBOX_TARGET", "sandbox:8704")
    settings = Settings()
    assert (settings.port, settings.sandbox_target) == (9000, "sandbox:8704")
    assert settings.grace == timedelta(seconds=2.5)


def test_a_bare_number_is_of_seconds_also_where_none_is_a_choice(env):
    class Patient(Settings):
        patience: timedelta | None = None

    env.setenv("RATCHET_DEMO_PATIENCE", "2.5")
    assert Patient().patience == timedelta(seconds=2.5)


def test_what_services_share_has_one_name(env):
    env.setenv("REDIS_URL", "redis://shared:1/0")
    env.setenv("DATABASE_URL", "postgresql://shared/ratchet")
    env.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")
    settings = Settings()
    assert settings.redis_url == "redis://shared:1/0"
    assert settings.database_url == "postgresql://shared/ratchet"
    assert settings.otlp_endpoint == "http://collector:4317"
    env.setenv("RATCHET_DEMO_DATABASE_URL", "postgresql://own/demo")
    with pytest.raises(ValueError, match="RATCHET_DEMO_DATABASE_URL is not a setting: set DATABASE_URL"):
        Settings()


def test_an_empty_variable_is_as_good_as_none(env):
    env.setenv("REDIS_URL", "")
    env.setenv("RATCHET_DEMO_PORT", "")
    assert Settings() == Settings(port=8702)


def test_what_is_given_goes_before_the_environment(env):
    env.setenv("RATCHET_DEMO_PORT", "9000")
    assert Settings(port=1).port == 1


def test_a_port_has_to_be_one(env):
    env.setenv("RATCHET_DEMO_PORT", "70000")
    with pytest.raises(ValidationError, match="port"):
        Settings()


def test_settings_do_not_change(env):
    with pytest.raises(ValidationError, match="frozen"):
        Settings().port = 1


def test_a_worker_has_the_name_of_its_port(env):
    assert ServiceSettings(port=8705).worker_name() == ServiceSettings(port=8705).worker_name()
    assert ServiceSettings(port=8705).worker_name().endswith(":8705")
    assert ServiceSettings(port=0).worker_name() != ServiceSettings(port=0).worker_name()


def test_passwords_come_from_files(monkeypatch, tmp_path):
    (tmp_path / "password").write_text("se:cret\n")
    monkeypatch.setenv("REDIS_PASSWORD_FILE", str(tmp_path / "password"))
    monkeypatch.setenv("REDIS_URL", "redis://redis:6379/0")
    assert Settings().redis_url == "redis://:se%3Acret@redis:6379/0"
    monkeypatch.setenv("REDIS_URL", "redis://:own@redis:6379/0")
    assert Settings().redis_url == "redis://:own@redis:6379/0"


def test_values_that_cannot_be_end_the_process_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(ServiceSettings):
        model_config = SettingsConfigDict(env_prefix="RATCHET_SANDBOX_")
        port: int = 8704

    monkeypatch.setenv("RATCHET_SANDBOX_PORT", "x")
    monkeypatch.setenv("RATCHET_SANDBOX_METRICS_PORT", "70000")
    with pytest.raises(SystemExit) as ended:
        Settings.read()
    assert "RATCHET_SANDBOX_PORT: Input should be a valid integer" in ended.value.code
    assert "RATCHET_SANDBOX_METRICS_PORT: a port is between 0 and 65535" in ended.value.code
    monkeypatch.setenv("RATCHET_SANDBOX_REDIS_URL", "redis://x")
    with pytest.raises(SystemExit, match="RATCHET_SANDBOX_REDIS_URL is not a setting: set REDIS_URL"):
        Settings.read()
