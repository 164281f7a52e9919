from collections import Counter

import pytest

from ratchet_policies import ChatPrompt, TextPrompt, TokenPrompt
from ratchet_policies.prefix_choice import beginning, choose, ranked
from ratchet_problems import Message

NODES = ["a", "b", "c", "d"]


def chosen(key: str, loads: dict[str, int]) -> str:
    return choose(sorted(loads), lambda name: name, loads.__getitem__, key.encode())


def test_turns_of_a_conversation_begin_alike() -> None:
    first = (Message("system", "Be brief."), Message("user", "Write f."))
    later = (*first, Message("assistant", "def f(): ..."), Message("user", "Now g."))
    other = (first[0], Message("user", "Write h."))
    assert beginning(ChatPrompt(first)) == beginning(ChatPrompt(later)) != beginning(ChatPrompt(other))


@pytest.mark.parametrize("prompt", [TextPrompt("x" * 600), TokenPrompt(tuple(range(200)))])
def test_a_long_prompt_counts_with_its_beginning(prompt: TextPrompt | TokenPrompt) -> None:
    longer = TextPrompt(prompt.text + "y") if isinstance(prompt, TextPrompt) else TokenPrompt((*prompt.ids, 1))
    assert beginning(prompt) == beginning(longer)


def test_the_same_beginning_goes_to_the_same_engine_while_it_is_not_busy() -> None:
    assert len({chosen("k", dict.fromkeys(NODES, 0)) for _ in range(5)}) == 1
    assert chosen("k", dict.fromkeys(NODES, 10)) == chosen("k", dict.fromkeys(NODES, 0))


def test_beginnings_are_spread_evenly() -> None:
    counts = Counter(chosen(f"key {index}", dict.fromkeys(NODES, 0)) for index in range(4000))
    assert all(900 < count < 1100 for count in counts.values())


def test_one_popular_beginning_is_spread_by_load() -> None:
    loads = dict.fromkeys(NODES, 0)
    for _ in range(400):
        loads[chosen("everybody's system prompt", loads)] += 1
    assert max(loads.values()) <= 1.25 * 100 + 1


def test_the_busy_one_is_passed_over() -> None:
    home = chosen("k", dict.fromkeys(NODES, 0))
    assert chosen("k", dict.fromkeys(NODES, 0) | {home: 8}) != home


def test_a_node_that_leaves_moves_only_its_own() -> None:
    for index in range(200):
        key = f"key {index}".encode()
        before = NODES[ranked(key, NODES)[0]]
        left = [name for name in NODES if name != "b"]
        assert before == "b" or left[ranked(key, left)[0]] == before
