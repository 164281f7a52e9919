"""A fingerprint finds the same problem in another set."""

from dataclasses import replace

from ratchet_problems import CallTest, Message, Problem, fingerprint, load, taught

ADD = Problem("add", "Add two  numbers.\n", (CallTest.of([1, 2], 3),), entry_point="add")


def test_it_is_about_what_is_asked() -> None:
    same = replace(ADD, id="other", prompt="add two numbers.", tests=(CallTest.of([2, 2], 4),), source="elsewhere")
    assert fingerprint(same) == fingerprint(ADD)
    assert fingerprint(replace(ADD, prompt="Add three numbers.")) != fingerprint(ADD)
    assert len(fingerprint(ADD)) == 16


def test_a_conversation_is_known_by_all_that_was_said_but_by_the_system() -> None:
    system, before = Message("system", "Be brief."), (Message("user", "Hello."), Message("assistant", "Yes?"))
    assert fingerprint(replace(ADD, conversation=(system,))) == fingerprint(ADD)
    assert taught(ADD) == (fingerprint(ADD),)
    asked = replace(ADD, conversation=(system, *before))
    assert fingerprint(asked) == fingerprint(replace(ADD, prompt="Hello. Yes? Add two numbers."))
    assert taught(asked) == (fingerprint(asked), fingerprint(replace(ADD, prompt="Hello.")), fingerprint(ADD))


def test_the_splits_share_no_problem() -> None:
    train, test = ({fingerprint(problem) for problem in load(f"composed/{split}")} for split in ("train", "test"))
    assert train
    assert not train & test
