import pytest

from ratchet_kit.text import check_encodable, encodable, storable


def test_what_cannot_be_sent_or_stored_is_replaced() -> None:
    assert encodable("a\ud800b\x00é") == "a?b\x00é"
    assert storable("a\ud800b\x00é") == "a?b\ufffdé"


def test_a_text_is_checked_for_halves_of_pairs() -> None:
    assert check_encodable("é🙂") == "é🙂"
    with pytest.raises(ValueError, match="unpaired surrogate"):
        check_encodable("\ud83d")
