"""What chat templates do with what is put into them is known before a run begins."""

from pathlib import Path

import pytest

from ratchet_problems.templates import Template, examined

STARTER = (Path(__file__).parents[3] / "models/starter/chat_template.jinja").read_text()
CHATML = (
    "{%- if messages[0]['role'] == 'system' %}{{ messages[0]['content'] }}{% set loop_messages = messages[1:] %}"
    "{%- else %}{% set loop_messages = messages %}{% endif %}"
    "{%- for m in loop_messages -%}<|im_start|>{{ m.role }}\n"
    "{% generation %}{{ m['content'] | trim }}{% endgeneration %}"
    "<|im_end|>\n{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def changed(content: str) -> str:
    """The starter's with another expression for what is said."""
    return STARTER.replace("message['content']", content)


@pytest.mark.parametrize("source", [STARTER, CHATML, changed("message['content'] | trim")])
def test_most_write_what_is_put_into_them(source: str) -> None:
    assert examined(source, {"bos_token": "<s>"}) == Template()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("\n{{ raise_exception('only with tools') }}", "raises an error in line 2: only with tools"),
        ("\n\n{% for", "raises an error in line 3: "),
        ("{{ messages[0].content.nonesuch.other }}", "raises an error in line 1: "),
        ("{{ messages.append(1) }}", "raises an error in line 1: "),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "raises an error in line 1: "),
        ("Hello!", "does not write what the user says"),
        (changed("message['content'][:5]"), "does not write what the user says"),
        (changed("message['content'] | upper"), "does not write what the user says"),
    ],
)
def test_one_that_puts_no_problem(source: str, said: str) -> None:
    assert examined(source, {}).fault.startswith(said)


@pytest.mark.parametrize(
    ("content", "of_problems", "of_turns"),
    [
        ("message['content'] | replace('-', ' - ')", "changes what the user says: it writes", "changes a reply"),
        ("message['content'] | escape", "changes what the user says", "changes a reply"),
        ("message['content'] | tojson", "changes what the user says", "changes a reply"),
        ("message['content'] * 2", "writes what the user says 2 times", "writes an earlier answer 2 times"),
        ("(message['content'] if loop.first else '')", "", "writes an earlier answer 0 times"),
        (
            "(message['content'] if message['role'] == 'assistant' or loop.first else '')",
            "",
            "does not write a reply",
        ),
    ],
)
def test_one_that_changes_what_is_put_into_it(content: str, of_problems: str, of_turns: str) -> None:
    found = examined(changed(content), {})
    assert found.fault == ""
    assert found.changes.startswith(of_problems)
    assert bool(found.changes) == bool(of_problems)
    assert found.turns_fault.startswith(of_turns)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 5 s"),
        ("{{ 'x' * 10**10 }}", "raises an error in line 1: MemoryError"),
    ],
)
def test_one_without_an_end_holds_up_nothing(source: str, said: str) -> None:
    assert examined(source, {}).fault.startswith(said)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + STARTER,
            "raises an error for a message of the system: no system",
        ),
        (
            STARTER.replace(
                "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
            ),
            "writes a message of the system 0 times",
        ),
        (
            "{% for message in messages[:1] %}{{ message.content }}{% endfor %}",
            "does not write what the user says after a message of the system",
        ),
    ],
)
def test_one_that_takes_no_message_of_the_system(source: str, said: str) -> None:
    found = examined(source, {})
    assert (found.fault, found.system_fault) == ("", said)


def test_one_that_takes_no_second_turn() -> None:
    found = examined(
        "{% if messages | length > 1 %}{{ raise_exception('once') }}{% endif %}{{ messages[0].content }}", {}
    )
    assert (found.fault, found.turns_fault) == ("", "raises an error: once")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (changed("message['content'].split('</think>')[-1]"), "leaves out what an earlier answer has between <think>"),
        (
            STARTER.replace("<|assistant|>{% endif", "<|assistant|><think>{% endif"),
            "writes an earlier answer otherwise",
        ),
    ],
)
def test_one_by_which_an_earlier_answer_is_not_as_it_was_sampled(source: str, said: str) -> None:
    found = examined(source, {})
    assert (found.fault, found.turns_fault, found.changes) == ("", "", "")
    assert found.turns_changes.startswith(said)


def test_a_change_is_shown_where_it_begins() -> None:
    said = examined(changed("message['content'] | escape"), {}).changes
    assert said == "changes what the user says: it writes 'x x-1 &lt;b&' for 'x x-1 <b> !\"'"
