import pytest

from ratchet_kit.text import check_encodable, encodable, storable, without_machines, without_paths


def test_what_cannot_be_sent_or_stored_is_replaced() -> None:
    assert encodable("a\ud800b\x00é") == "a?b\x00é"
    assert storable("a\ud800b\x00é") == "a?b\ufffdé"


def test_a_text_is_checked_for_halves_of_pairs() -> None:
    assert check_encodable("é🙂") == "é🙂"
    with pytest.raises(ValueError, match="unpaired surrogate"):
        check_encodable("\ud83d")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "connections to all backends failing; last error: UNKNOWN: ipv4:10.0.0.5:8706: Connection refused",
            "connections to all backends failing",
        ),
        ("failed to connect: ipv6:%5B::1%5D:8706", "failed to connect"),
        (
            'the database cannot be used now: connection failed: connection to server at "10.0.0.5", port 5432 failed: '
            'FATAL: password authentication failed for user "ratchet"',
            "the database cannot be used now",
        ),
        ('connection to server on socket "/run/x" failed', "a part of the platform cannot be reached"),
        ("starter@2 is being loaded", "starter@2 is being loaded"),
    ],
)
def test_strangers_see_no_machines(text: str, shown: str) -> None:
    assert without_machines(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/var/lib/a-b/ab12 holds no policy: config.json is gone", "[path] holds no policy: config.json is gone"),
        ("vLLM died: killed; see /var/log/starter@2.log.", "vLLM died: killed; see [path]."),
        ("cannot read '/srv/x y'", "cannot read '[path] y'"),
        ("could not load s3://bucket/models/1: away", "could not load [path]: away"),
        ("file:///srv/x, ~/.ratchet/x and (/srv/y)", "[path], [path] and ([path])"),
        ("1/2 of starter@2 and/or 3 / 4, at 5 tokens/s", "1/2 of starter@2 and/or 3 / 4, at 5 tokens/s"),
    ],
)
def test_strangers_see_no_paths(text: str, shown: str) -> None:
    assert without_paths(text) == shown
