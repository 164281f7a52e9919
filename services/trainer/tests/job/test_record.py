"""What a job puts on record."""

from pathlib import Path

from trainer_service.job.run.record import HIDDEN, Record, without_secrets


def test_secrets_are_hidden_and_what_only_sounds_like_them_is_not() -> None:
    config = {
        "trainer": {"wandb_proxy": "http://user:pass@proxy:3128", "logger": ["console"]},
        "data": {"prompt_key": "prompt", "max_tokens": 3, "pad_token_id": 0},
        "server": {"api_key": "abc", "auth_token": "def", "password": "", "token": None},
        "list": [{"secret": "x"}],
    }
    assert without_secrets(config) == {
        "trainer": {"wandb_proxy": f"http://{HIDDEN}@proxy:3128", "logger": ["console"]},
        "data": {"prompt_key": "prompt", "max_tokens": 3, "pad_token_id": 0},
        "server": {"api_key": HIDDEN, "auth_token": HIDDEN, "password": "", "token": None},
        "list": [{"secret": HIDDEN}],
    }


def test_files_lie_below_the_record(tmp_path: Path) -> None:
    record = Record(tmp_path)
    record.config(2, "a: 1\n")
    assert (tmp_path / "record/config/attempt-2.yaml").read_text() == "a: 1\n"
