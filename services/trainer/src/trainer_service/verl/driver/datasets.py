"""Problems as verl's data sets: prompts for RL, worked examples for SFT; and pairs, for DPO. The "file" of one is the
name of the set."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import Dataset

from ratchet_environments import Task
from ratchet_kit.errors import InvalidArgument
from ratchet_problems import Problem, data_digest, pairs
from ratchet_problems.examples import Examples
from ratchet_problems.messages import under
from ratchet_problems.pairs import Pair
from ratchet_problems.prompting import Form, Prompt
from ratchet_problems.sets import load_pairs
from trainer_service.domain.spec.spec import ProblemSetRef
from trainer_service.job.run.faults import check_data
from trainer_service.job.samples import problems as problem_sets
from trainer_service.job.samples.endings import Ending, ending
from trainer_service.job.samples.prompt_limits import Fitting, fitting
from trainer_service.job.samples.prompting import conversation_ids, prompt_ids, prompt_of, system_of


@dataclass(frozen=True, slots=True)
class Followed:
    """A newer version of a run's problems."""

    digest: str
    """The digest of all that it holds."""
    places: Sequence[int]
    """Where the problems with room are in the data set."""
    fitting: Fitting[Problem]


class PromptDataset(Dataset[dict[str, Any]]):
    """One row per problem whose prompt has at most `config.max_prompt_length` tokens. The problem itself stays here,
    under the row's `index`. `digest`: of all problems that were read.

    Raises InvalidArgument where none has so few, and for the first that has more where `config` says not to filter.
    """

    def __init__(
        self, data_files: str | None, tokenizer: Any, config: Any, max_samples: int = -1, **unused: Any
    ) -> None:
        read: Sequence[Problem] = problem_sets.read(data_files, limit=_limit(max_samples)) if data_files else ()
        self.digest = data_digest(read)
        self._tokenizer = tokenizer
        self._config = config
        self.fitting = self._fitting(read)
        self.problems = list(self.fitting.problems)

    def follow(self, name: str, limit: int | None) -> "Followed":
        """Adds the problems of a newer version that are new. Raises as for the first."""
        read = problem_sets.read(name, limit=limit)
        found = self._fitting(read)
        known = {problem.digest: place for place, problem in enumerate(self.problems)}
        for problem in found.problems:
            if known.setdefault(problem.digest, len(self.problems)) == len(self.problems):
                self.problems.append(problem)
        return Followed(data_digest(read), [known[problem.digest] for problem in found.problems], found)

    def _fitting(self, read: Sequence[Problem]) -> Fitting[Problem]:
        config, problems = self._config, _shown(read, self._config)
        prompts = [prompt_ids(self._tokenizer, prompt_of(problem, config.prompt_form)) for problem in problems]
        lengths = [_counted(tokens, problem.id, config) for tokens, problem in zip(prompts, problems, strict=True)]
        return fitting(problems, lengths, config.max_prompt_length, config.filter_overlong_prompts)

    def __len__(self) -> int:
        return len(self.problems)

    def __getitem__(self, index: int) -> dict[str, Any]:
        # verl wants a tensor in each row, and a raw_prompt to count rows by.
        return {
            "index": index,
            "raw_prompt": Task.of(self.problems[index]).conversation,
            "dummy_tensor": torch.tensor([0], dtype=torch.uint8),
        }


class ExampleDataset(Dataset[dict[str, torch.Tensor]]):
    """One row per problem with a reference: prompt and reference as tokens, the loss on reference and what ends it.
    Those of more than `config.max_length` tokens are left out, or refused, as in PromptDataset. With
    `config.all_answers` there is a row, too, for each answer in its conversation, to the messages before it.

    The prompt is tokenized exactly as for generation, so that SFT and RL see the same boundary.
    """

    def __init__(self, parquet_files: str, tokenizer: Any, config: Any, max_samples: int = -1, **unused: Any) -> None:
        read = problem_sets.read(parquet_files, limit=_limit(max_samples))
        self.digest = data_digest(read)
        problems = _shown([problem for problem in read if problem.references], config)
        end = ending(tokenizer, config.stops, config.prompt_form)
        rows = {
            problem.id: [
                answered(tokenizer, put, answer, end)
                for put, answer in _examples(problem, config.prompt_form, config.all_answers)
            ]
            for problem in problems
        }
        lengths = [
            max(_counted(row["input_ids"].tolist(), name, config) for row in some) for name, some in rows.items()
        ]
        self.fitting = fitting(problems, lengths, config.max_length, config.filter_overlong_prompts)
        self._rows = [row for problem in self.fitting.problems for row in rows[problem.id]]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self._rows[index]


class PairDataset(Dataset[Sequence[dict[str, torch.Tensor]]]):
    """Two rows per pair, the better answer first, each as in ExampleDataset. Those of which one has more than
    `config.max_length` tokens are left out, or refused, as there."""

    def __init__(self, parquet_files: str, tokenizer: Any, config: Any, max_samples: int = -1, **unused: Any) -> None:
        read = load_pairs(parquet_files, limit=_limit(max_samples))
        self.digest = pairs.pairs_digest(read)
        rows = []
        end = ending(tokenizer, config.stops, config.prompt_form)
        for pair in read:
            put = _prompt_of_pair(pair, config.prompt_form, system_of(config.system))
            rows.append([self._row(tokenizer, put, answer, end) for answer in (pair.chosen, pair.rejected)])
        lengths = [
            max(_counted(row["input_ids"].tolist(), pair.id, config) for row in both)
            for pair, both in zip(read, rows, strict=True)
        ]
        self.fitting = fitting(read, lengths, config.max_length, config.filter_overlong_prompts, "pair")
        self._rows = [both for both, length in zip(rows, lengths, strict=True) if length <= config.max_length]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Sequence[dict[str, torch.Tensor]]:
        return self._rows[index]

    @staticmethod
    def _row(tokenizer: Any, put: Prompt, answer: str, end: Ending) -> dict[str, torch.Tensor]:
        return answered(tokenizer, put, answer, end)


class ChosenDataset(Dataset[dict[str, torch.Tensor]]):
    """The better answers of pairs, as the examples of SFT: one row per pair, otherwise as ExampleDataset."""

    def __init__(self, parquet_files: str, tokenizer: Any, config: Any, max_samples: int = -1, **unused: Any) -> None:
        read = load_pairs(parquet_files, limit=_limit(max_samples))
        self.digest = pairs.pairs_digest(read)
        end = ending(tokenizer, config.stops, config.prompt_form)
        puts = [_prompt_of_pair(pair, config.prompt_form, system_of(config.system)) for pair in read]
        rows = [answered(tokenizer, put, pair.chosen, end) for put, pair in zip(puts, read, strict=True)]
        lengths = [_counted(row["input_ids"].tolist(), pair.id, config) for row, pair in zip(rows, read, strict=True)]
        self.fitting = fitting(read, lengths, config.max_length, config.filter_overlong_prompts, "pair")
        self._rows = [row for row, length in zip(rows, lengths, strict=True) if length <= config.max_length]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return self._rows[index]


class ConversationPairDataset(PairDataset):
    """The same with each row as a reward model scores it: the whole conversation."""

    @staticmethod
    def _row(tokenizer: Any, put: Prompt, answer: str, end: Ending) -> dict[str, torch.Tensor]:
        tokens = torch.tensor(conversation_ids(tokenizer, put.messages, answer))
        return {
            "input_ids": tokens,
            "position_ids": torch.arange(len(tokens)),
            "loss_mask": torch.ones_like(tokens),  # verl asks for one
        }


def _shown(problems: Sequence[Problem], config: Any) -> list[Problem]:
    """Under the run's message of the system, and with its examples. Raises DataLoss where those have changed."""
    examples = Examples()
    if config.examples:
        examples, digest = problem_sets.examples(config.examples, config.shots)
        check_data(ProblemSetRef(config.examples, digest=config.examples_digest), digest)
    return [examples.before(problem.under(system_of(config.system))) for problem in problems]


def _examples(problem: Problem, form: Form, all_answers: bool) -> Iterator[tuple[Prompt, str]]:
    for place, message in enumerate(problem.conversation if all_answers else ()):
        if message.role == "assistant":
            yield Prompt(messages=problem.conversation[:place]), message.content
    yield prompt_of(problem, form), problem.references[0]


def answered(tokenizer: Any, put: Prompt, answer: str, end: Ending) -> dict[str, torch.Tensor]:
    """A prompt with its answer and what ends it, which are what is learned."""
    prompt = prompt_ids(tokenizer, put)
    rest = answer.removeprefix(put.text)  # a text may begin it
    learned = [*tokenizer(rest, add_special_tokens=False)["input_ids"], *end.tokens]
    return {
        "input_ids": torch.tensor(prompt + learned),
        "position_ids": torch.arange(len(prompt) + len(learned)),
        "loss_mask": torch.tensor([0] * len(prompt) + [1] * len(learned)),
    }


def _prompt_of_pair(pair: Pair, form: Form, system: str) -> Prompt:
    """Conversations and texts as they stand; a problem as any."""
    if pair.text:
        return Prompt(text=pair.text)
    if pair.messages:
        return Prompt(messages=under(system, pair.messages))
    return prompt_of(pair.as_problem.under(system), form)


def _counted(tokens: Sequence[int], name: str, config: Any) -> int:
    """How many there are. Raises InvalidArgument for one that the base has no row for: a token that was added to the
    tokenizer alone."""
    if config.vocabulary and (largest := max(tokens, default=0)) >= config.vocabulary:
        known = f"the base knows {config.vocabulary} (vocab_size in config.json)"
        raise InvalidArgument(f"{name} has the token {largest}, and {known}: they do not belong together")
    return len(tokens)


def _limit(max_samples: int) -> int | None:
    """verl's -1 is all of them."""
    return max_samples if max_samples > 0 else None
