"""The first questions of those who come from other trainers and evaluators: a command answers each, on a terminal.

They were written down before anybody looked (28 November 2026); three had no answer then.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1500)]

RUN = "--model starter --steps 4 --validation composed/validation"
SETTINGS = {"display_name": "first", "batch_size": 8, "group_size": 4, "validate_every": 2, "checkpoint_every": 2}
QUESTIONS = [
    ("What did the model write at step 3, and what did each earn?", "samples show {run} {sample}", "reward +[01]\n"),
    ("Which are the worst answers of step 3, and why?", "samples list {run} --step 3 --below 0.5", "of 1.*(not|Error)"),
    (
        "Do reward, KL, entropy and length go up?",
        "runs show {run}",
        r"reward +0\.\d+ (?s:.*)KL .*\nentropy .*\ntokens",
    ),
    ("How many answers were cut off?", "runs show {run}", r"answers cut off +0"),
    ("How many groups have no gradient?", "runs show {run}", r"groups without spread +0\.\d"),
    ("With which settings did it work, defaults too?", "runs show {run}", r"(?s)learning_rate .*clip_high +0\.2\n"),
    ("How many prompts and completions has a step?", "runs show {run}", r"batch_size +8\ngroup_size +4\n"),
    ("Which checkpoint is the best, and where is it?", "runs show {run}", r"checkpoint \d +/.*, the best\n"),
    ("How do I load the result?", "models show {version}", r"files +/.*/models/starter/art_"),
    ("Where does a step's time go?", "runs show {run}", r"seconds of a step.*\n +sampling.*\n +updating.*\n +sending"),
    ("Which run is it?", "runs list", r"run_\w+ +first +starter@1 "),
    ("What is the score, with what error?", "evaluations show {new}", r"pass@1 +0\.\d+ +0\.\d+ to 0\.\d+"),
    (
        "Which samples failed, and why?",
        "samples show {new} {problem}:0",
        r"FAILED(?s:.*)failed +(?s:.*)Prompt\nWrite",
    ),
    ("How many failed by the machinery?", "evaluations show {new}", r"20 problems; PASSED \d+, FAILED \d+"),
    (
        "What stands behind the number?",
        "evaluations show {new}",
        r"{version}\nproblems +composed/test\n",
    ),
    ("How many tokens and seconds did it take?", "evaluations show {new}", r"used +.*CPU.*tokens in, [\d,]+ out"),
    ("Which problems were won and lost?", "evaluations compare {old} {new}", r"won +lost +problems"),
    ("How do I repeat it?", "evaluations show {new}", r"2 a problem at temperature 1, seed 0, \d+ tokens at most"),
    ("How do I get all samples into a file?", "samples download {new} {file}", r"40 samples are in"),
    ("Is it still going, how far?", "runs list", r"SUCCEEDED 4/4"),
]


class Known(NamedTuple):
    """What the questions are asked of."""

    run: str
    version: str
    old: str
    new: str
    sample: str
    problem: str
    file: Path


@pytest.fixture(scope="module")
def known(platform: Platform, tmp_path_factory: pytest.TempPathFactory) -> Known:
    def ids(pattern: str, *arguments: str) -> list[str]:
        done = platform.ratchet(*arguments)
        assert done.returncode == 0, done.stderr
        return re.findall(pattern, done.stdout + done.stderr)

    settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    named = sorted(set(ids(r"run_\w+|starter@\d+", "train", *RUN.split(), *settings)))
    run, version = named
    measure = ("--limit", "20", "--samples", "2")
    (old, *_), (new, *_) = (ids(r"eval_\w+", "evaluate", "--model", it, *measure) for it in ("starter@1", version))
    problem = ids(r"composed/test +(composed\S+) +0 +FAILED", "samples", "list", new)[0]
    sample = ids(r"3-\d-\d", "samples", "list", run, "--step", "3")[0]
    return Known(run, version, old, new, sample, problem, tmp_path_factory.mktemp("questions") / "samples.jsonl")


@pytest.mark.parametrize(("question", "command", "answer"), QUESTIONS, ids=[it[0] for it in QUESTIONS])
def test_a_command_answers(platform: Platform, known: Known, question: str, command: str, answer: str) -> None:
    done = platform.ratchet(*(part.format(**known._asdict()) for part in command.split()))
    assert done.returncode == 0, done.stderr
    assert re.search(answer.replace("{version}", known.version), done.stdout), f"{question}\n{done.stdout}"
