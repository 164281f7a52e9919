"""Chat templates in the forms of eleven families of models, and a tokenizer of bytes to read them with.

The templates are written for these tests, after what the families' own do: how a turn ends, where calls of tools stand,
what of the past is left out. They are nobody's files.
"""

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from jinja2 import Template
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

_TOOLS = "{% if tools %}{{ '<tools>' ~ (tools | tojson) ~ '</tools>' }}{% endif %}"
_CALL = '{"name": {{ c.function.name | tojson }}, "arguments": {{ c.function.arguments | tojson }}}'
_CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}SAID"
    "{% for c in m.tool_calls or [] %}{{ '\n<tool_call>\n' }}" + _CALL + "{{ '\n</tool_call>' }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_QWEN = _TOOLS + _CHATML.replace("SAID", "{{ m.content or '' }}")
_THINKING = _TOOLS + _CHATML.replace(
    "SAID",
    "{% set said = (m.content or '').split('</think>')[-1] if m.role == 'assistant' and not loop.last else m.content %}"
    "{{ said }}",
)
_LLAMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' ~ ('ipython' if m.role == 'tool' else m.role) ~ "
    "'<|end_header_id|>\n\n' }}{% if m.tool_calls %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call "
    "at once') }}{% endif %}{% set c = m.tool_calls[0] %}" + _CALL + "{% elif m.role == 'tool' %}"
    "{{ {'output': m.content} | tojson }}{% else %}{{ (m.content or '') | trim }}{% endif %}{{ '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
_MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ '[SYSTEM]' ~ m.content ~ '[/SYSTEM]' }}"
    "{% elif m.role == 'user' %}{{ '[INST] ' ~ m.content ~ ' [/INST]' }}{% elif m.role == 'tool' %}"
    "{{ '[TOOL_RESULTS] ' ~ ({'content': m.content, 'call_id': m.tool_call_id} | tojson) ~ '[/TOOL_RESULTS]' }}"
    "{% elif m.tool_calls %}{{ '[TOOL_CALLS] [' }}{% for c in m.tool_calls %}" + _CALL + "{{ ', ' if not loop.last }}"
    "{% endfor %}{{ ']' ~ eos_token }}{% else %}{{ ' ' ~ m.content ~ ' ' ~ eos_token }}{% endif %}{% endfor %}"
)
_DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% elif m.role == 'user' %}"
    "{{ '<｜User｜>' ~ m.content }}{% elif m.role == 'tool' %}{{ '<｜tool▁output▁begin｜>' ~ m.content ~ "
    "'<｜tool▁output▁end｜>' }}{% else %}{{ '<｜Assistant｜>' ~ (m.content or '').split('</think>')[-1] }}"
    "{% for c in m.tool_calls or [] %}{{ '<｜tool▁call▁begin｜>' ~ c.function.name ~ '\n```json\n' ~ "
    "(c.function.arguments | tojson) ~ '\n```<｜tool▁call▁end｜>' }}{% endfor %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜><think>\n' }}{% endif %}"
)
_GPT_OSS = (
    "{% set last = namespace(name='') %}{% for m in messages %}{% if m.role == 'tool' %}{{ '<|start|>functions.' ~ "
    "last.name ~ ' to=assistant<|message|>' ~ (m.content | tojson) ~ '<|end|>' }}{% elif m.role == 'assistant' %}"
    "{% if m.tool_calls %}{% if m.content %}{{ '<|start|>assistant<|channel|>analysis<|message|>' ~ m.content ~ "
    "'<|end|>' }}{% endif %}{% for c in m.tool_calls %}{% set last.name = c.function.name %}{{ '<|start|>assistant to="
    "functions.' ~ c.function.name ~ '<|message|>' ~ (c.function.arguments | tojson) ~ '<|call|>' }}{% endfor %}"
    "{% elif loop.last and not add_generation_prompt %}{{ '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~"
    " '<|return|>' }}{% else %}{{ '<|start|>assistant<|channel|>final<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}"
    "{% else %}{{ '<|start|>' ~ m.role ~ '<|message|>' ~ m.content ~ '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant' }}{% endif %}"
)
_GEMMA = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' ~ ((m.content or '') | trim) }}"
    "{% for c in m.tool_calls or [] %}{{ '```tool_code\n' }}" + _CALL + "{{ '\n```' }}{% endfor %}{{ '<end_of_turn>\n' "
    "}}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
_PHI = (
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ (m.content or '') }}{% for c in m.tool_calls or [] %}"
    "{{ '<|tool_call|>' }}" + _CALL + "{{ '<|/tool_call|>' }}{% endfor %}{{ '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
_SMOLLM = (
    "{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
    "{% endif %}" + _QWEN
)
_GLM = (
    "[gMASK]{% for m in messages %}{{ '<|observation|>' if m.role == 'tool' else '<|' ~ m.role ~ '|>' }}{{ '\n' ~ "
    "(m.content or '') }}{% for c in m.tool_calls or [] %}{{ '\n<tool_call>' ~ c.function.name ~ '\n' ~ "
    "(c.function.arguments | tojson) ~ '\n</tool_call>' }}{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
_STARTER = (
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}{% if m.role == 'assistant' %}<|end|>{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Form:
    """A family's template. `stops`: at which its engine ends an answer, the usual one first; `of_calls`: an answer with
    calls."""

    template: str
    stops: tuple[str, ...]
    of_calls: str = ""
    takes_calls: bool = True


FORMS: Mapping[str, Form] = {
    "qwen2.5": Form(_QWEN, ("<|im_end|>", "<|endoftext|>")),
    "qwen3": Form(_THINKING, ("<|im_end|>", "<|endoftext|>")),
    "llama3": Form(_LLAMA, ("<|eot_id|>", "<|end_of_text|>")),
    "mistral": Form(_MISTRAL, ("</s>",)),
    "deepseek": Form(_DEEPSEEK, ("<｜end▁of▁sentence｜>",)),
    "gpt-oss": Form(_GPT_OSS, ("<|return|>", "<|call|>"), "<|call|>"),
    "gemma": Form(_GEMMA, ("<end_of_turn>", "<eos>")),
    "phi": Form(_PHI, ("<|end|>", "<|endoftext|>")),
    "smollm": Form(_SMOLLM, ("<|im_end|>",)),
    "glm": Form(_GLM, ("<|user|>", "<|observation|>", "<|endoftext|>"), "<|observation|>"),
    "starter": Form(_STARTER, ("<|end|>",), takes_calls=False),
}
_SPECIAL = re.compile(
    r"<\|/?[a-z_]+\|>|<｜[^｜]+｜>|<(?:start|end)_of_turn>|<eos>|<s>|</s>|\[/?[A-Z_]+\]|\[gMASK\]|</?tool_call>"
)
_PIECES = ("hello", "import", "    ", "\n\n", "}}", '"}', "```", " ~", "日本", "</", "tool", "user", "\n<")


@dataclass(slots=True)
class ByteTokenizer:
    """As a Hugging Face tokenizer, as far as rendering uses one. Its tokens are bytes and runs of bytes, some of which
    cut a character; longest first."""

    form: Form
    chat_template: str = field(init=False)
    _ids: dict[bytes, int] = field(init=False)
    _special: dict[str, int] = field(init=False)
    _texts: dict[int, bytes] = field(init=False)
    _split: re.Pattern[str] = field(init=False)

    def __post_init__(self) -> None:
        self.chat_template = self.form.template
        pieces = [piece.encode() for piece in _PIECES]
        cut = [b"\xe6\x97", b"\xa5\xe6", b"\xf0\x9f", b"\xf0\x9f\x91\xa9", b"\x80\x8d\xf0"]
        self._ids = {piece: 256 + place for place, piece in enumerate([*pieces, *cut])}
        self._ids |= {bytes([byte]): byte for byte in range(256)}
        found = sorted({*_SPECIAL.findall(self.form.template), *self.form.stops, "<s>"})
        roles = ["<|user|>", "<|assistant|>", "<|system|>", "<|tool|>"]
        self._special = {text: 1000 + place for place, text in enumerate(dict.fromkeys([*found, *roles]))}
        self._texts = {id: piece for piece, id in self._ids.items()}
        self._texts |= {id: text.encode() for text, id in self._special.items()}
        self._split = re.compile("(" + "|".join(map(re.escape, sorted(self._special, key=len, reverse=True))) + ")")

    @property
    def eos_token_id(self) -> int:
        return self._special[self.form.stops[0]]

    @property
    def stops(self) -> set[int]:
        return {self._special[text] for text in self.form.stops}

    @property
    def all_special_ids(self) -> list[int]:
        return list(self._special.values())

    @property
    def added_tokens_decoder(self) -> dict[int, str]:
        return {id: text for text, id in self._special.items()}

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        ids: list[int] = []
        for part in self._split.split(text):
            ids += [self._special[part]] if part in self._special else self._plain(part.encode(), 6)
        return ids

    def sampled(self, text: str, chance: random.Random) -> list[int]:
        """Tokens of the text as a model may write it: seldom those that `encode` finds."""
        ids: list[int] = []
        for part in self._split.split(text):
            ids += [self._special[part]] if part in self._special else self._plain(part.encode(), chance.randint(1, 6))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(self._texts[id] for id in ids).decode(errors="replace")

    def _plain(self, data: bytes, longest: int) -> list[int]:
        ids, place = [], 0
        while place < len(data):
            size = next(size for size in range(longest, 0, -1) if data[place : place + size] in self._ids)
            piece = data[place : place + size]
            ids.append(self._ids[piece])
            place += len(piece)
        return ids

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool, **options: Any
    ) -> str:
        """As transformers renders (utils/chat_template_utils.py)."""
        return _compiled(options.get("chat_template") or self.chat_template).render(
            messages=conversation,
            add_generation_prompt=add_generation_prompt,
            tools=options.get("tools"),
            bos_token="<s>",
            eos_token=self.form.stops[-1] if self.form.template == _PHI else self.form.stops[0],
        )


@lru_cache
def _compiled(source: str) -> Template:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    environment.globals["raise_exception"] = _raise
    return environment.from_string(source)


def _raise(text: str) -> None:
    raise ValueError(text)
