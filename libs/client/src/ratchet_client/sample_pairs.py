"""Pairs for DPO, or a reward model, of an evaluation's samples: of one problem, one that passes and one that fails.

with open("pairs.jsonl", "w") as file:
    for row in sample_pairs.rows(client.evaluations.samples(id), prompt):
        file.write(json.dumps(row) + "\\n")
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ratchet.common.v1 import verdict_pb2
from ratchet.eval.v1 import eval_pb2 as pb

Prompt = str | Sequence[Mapping[str, str]]
"""A problem's text, or the messages of a conversation."""


def rows(samples: Iterable[pb.Sample], prompt: Callable[[str, str], Prompt]) -> Iterator[Mapping[str, Any]]:
    """Lines of a file of pairs. `samples`: those of a problem one after the other, as `Evaluations.samples` gives them;
    `prompt`: of a problem, by its set and its id.

    A text is in one pair at most, so that a problem makes as many as it has different samples of the rarer kind. Left
    out are samples without a verdict, those that were cut off at max_tokens, whose end the model did not choose, and
    whole programs that were imported.
    """
    for (benchmark, problem), some in groupby(samples, key=lambda sample: (sample.benchmark, sample.problem_id)):
        passed: dict[str, None] = {}  # in order, each text once
        failed: dict[str, None] = {}
        for sample in some:
            if sample.verdict and not (sample.truncated or sample.is_program) and sample.completion.strip():
                (passed if sample.verdict == verdict_pb2.VERDICT_PASSED else failed).setdefault(sample.completion)
        for chosen, rejected in zip(passed, [text for text in failed if text not in passed], strict=False):
            given = prompt(benchmark, problem)
            if isinstance(given, str):
                yield {"problem": given, "chosen": chosen, "rejected": rejected}
            else:
                yield {"prompt": given, "chosen": _answer(chosen), "rejected": _answer(rejected)}


def _answer(text: str) -> Sequence[Mapping[str, str]]:
    return [{"role": "assistant", "content": text}]
