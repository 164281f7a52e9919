"""Functions of plug-ins in a process of their own."""

from typing import Any

import pytest

from ratchet_kit.errors import DataLoss, InvalidArgument
from trainer_service.job.plugins import entry_points, process
from trainer_service.job.plugins.process import PluginProcess

SOURCE = """
import os, time

calls = 0


def mine(what, *rest):
    global calls
    calls += 1
    if what == "words":
        os.write(2, rest[0].encode())
        os._exit(3)
    print("aside")
    if what == "end":
        os._exit(3)
    if what == "hang":
        time.sleep(60)
    if what == "raise":
        raise KeyError("k")
    if what == "object":
        return object()
    return [what, calls, *rest]
"""


@pytest.fixture
def call(make_plugin: Any) -> Any:
    make_plugin("mine", SOURCE, reward="mine")
    with PluginProcess("reward", "mine") as function:
        yield function


def test_values_go_in_and_out_of_one_process(call: PluginProcess) -> None:
    assert call("a", {"b": None}) == ["a", 1, {"b": None}]
    assert call("a") == ["a", 2]


def test_the_last_words_are_those_of_the_process_that_ended(call: PluginProcess) -> None:
    for words in ("many\n" * 100 + "more", "the last"):
        with pytest.raises(InvalidArgument) as raised:
            call("words", words)
        assert raised.value.message == f"the reward mine has no answer: {words.splitlines()[-1]}"


@pytest.mark.parametrize(
    ("what", "reason", "calls"),
    [
        ("end", "the reward mine has no answer: ", 1),
        ("raise", "the reward mine failed: KeyError: 'k'", 2),
        ("object", "the reward mine failed: TypeError: JSON has no object", 2),
    ],
)
def test_one_that_fails_says_why_and_is_there_for_the_next_call(
    call: PluginProcess, what: str, reason: str, calls: int
) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        call(what)
    assert call("a") == ["a", calls]


def test_one_that_never_ends_is_ended(call: PluginProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "CALL_S", 1.0)
    with pytest.raises(InvalidArgument, match="it took more than 1 s"):
        call("hang")
    assert call("a") == ["a", 1]


def test_other_code_is_not_called(make_plugin: Any) -> None:
    make_plugin("mine", SOURCE, reward="mine")
    (found,) = entry_points.installed()
    with PluginProcess("reward", "mine", found.digest) as call:
        assert call("a") == ["a", 1]
    with PluginProcess("reward", "mine", "sha256:other") as call, pytest.raises(DataLoss, match="not here as it was"):
        call("a")


def test_one_that_cannot_be_imported_says_why(make_plugin: Any) -> None:
    make_plugin("mine", "import nothing_of_that_name", reward="mine")
    with (
        PluginProcess("reward", "mine") as call,
        pytest.raises(InvalidArgument, match="No module named 'nothing_of_that_name'"),
    ):
        call("a")
