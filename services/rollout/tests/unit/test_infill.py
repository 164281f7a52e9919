"""The prompts of gaps to be filled, by family of models."""

from collections.abc import Sequence

import pytest

from rollout_service.adapters.engines.infill import FORMS, Form, infill_of

BOS = "<s>"


class Tokenizer:
    """A character is a token, but for special ones. `space`: put before each text, as SentencePiece does."""

    def __init__(self, special: Sequence[str], bos: str = "", space: str = "") -> None:
        self._special = sorted(special, key=len, reverse=True)
        self._space = space
        self._bos = bos
        self._ids: dict[str, int] = {}
        self.bos_token_id = self._id(bos) if bos else None

    def get_vocab(self) -> dict[str, int]:
        return {token: self._id(token) for token in self._special}

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids = [self._id(self._bos)] if self._bos and add_special_tokens else []
        rest = self._space + text if text else ""
        while rest:
            token = next((one for one in self._special if rest.startswith(one)), rest[0])
            ids.append(self._id(token))
            rest = rest[len(token) :]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        texts = {number: token for token, number in self._ids.items()}
        return "".join(texts[number] for number in ids)

    def _id(self, token: str) -> int:
        return self._ids.setdefault(token, len(self._ids))


@pytest.mark.parametrize(
    ("special", "bos", "space", "wanted"),
    [
        (
            ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"],
            *("", "", "<|fim_prefix|>ab<|fim_suffix|>cd<|fim_middle|>"),
        ),
        (["<fim_prefix>", "<fim_middle>", "<fim_suffix>"], "", "", "<fim_prefix>ab<fim_suffix>cd<fim_middle>"),
        (
            ["<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"],
            *(BOS, "", "<s><｜fim▁begin｜>ab<｜fim▁hole｜>cd<｜fim▁end｜>"),
        ),
        (["▁<PRE>", "▁<MID>", "▁<SUF>", "▁<EOT>"], BOS, "▁", "<s>▁<PRE>▁ab▁<SUF>cd▁<MID>"),
    ],
)
def test_each_family_has_its_form(special: list[str], bos: str, space: str, wanted: str) -> None:
    tokenizer = Tokenizer(special, bos, space)
    infill = infill_of(tokenizer)
    assert infill is not None
    assert tokenizer.decode(infill.tokens("ab", "cd")) == wanted
    assert {tokenizer.decode([token]) for token in infill.end_ids} == set(special)


def test_a_gap_at_the_begin_has_no_text_before_it() -> None:
    tokenizer = Tokenizer(FORMS[0].marks)
    infill = infill_of(tokenizer)
    assert infill is not None
    assert tokenizer.decode(infill.tokens("", "cd")) == "<|fim_prefix|><|fim_suffix|>cd<|fim_middle|>"


@pytest.mark.parametrize("form", FORMS)
def test_a_text_that_says_where_the_gap_is_is_refused(form: Form) -> None:
    infill = infill_of(Tokenizer(form.marks))
    assert infill is not None
    for texts in ((f"a{form.middle}", "b"), ("a", f"{form.suffix}b")):
        with pytest.raises(ValueError, match="must not hold"):
            infill.tokens(*texts)


@pytest.mark.parametrize("special", [[], ["<fim_prefix>", "<fim_suffix>"], ["<|endoftext|>", "<repo_name>"]])
def test_a_model_without_all_tokens_fills_no_gaps(special: list[str]) -> None:
    assert infill_of(Tokenizer(special)) is None
