"""The problems that a name leads to: of a set, which may be of task folders, of a file, or of a plug-in of the kind
dataset, "plugin:NAME" or "plugin:NAME/SPLIT"."""

import json

from ratchet_environments.folders import sets as folders
from ratchet_environments.folders.sets import TaskSet
from ratchet_kit.errors import InvalidArgument, NotFound
from ratchet_problems import Problem, data_digest, jsonl, load, sets
from ratchet_problems.dataset_cache import cached_tasks
from ratchet_problems.examples import DEFAULT, LOOKED_AT, Examples
from trainer_service.domain.spec.plugins import PREFIX, PluginKind, dataset_of
from trainer_service.job.plugins.process import MOST, PluginProcess


def examples(name: str, count: int | None) -> tuple[Examples, str]:
    """Solved problems of a set, `count` for each problem, and the digest of those that they are of. Raises as `read`,
    and InvalidArgument where it has too few."""
    first = read(name, limit=LOOKED_AT)
    return Examples.of(name, first, count or DEFAULT), data_digest(first)


def read(name: str, *, limit: int | None = None) -> tuple[Problem, ...]:
    """All, or the first `limit`. Raises as `ratchet_problems.load`; for a plug-in InvalidArgument, with one sentence,
    and NotFound for a split that it has not."""
    plugin = dataset_of(name)
    if not plugin:
        dataset = sets.dataset_of(name)
        if dataset and (file := cached_tasks(dataset)).is_file():
            return tuple(folders.problems(TaskSet(file), limit).values())
        return load(name, limit=limit)
    split = name.removeprefix(PREFIX).partition("/")[2]
    with PluginProcess(PluginKind.DATASET, plugin) as call:
        given = call(split, most=MOST + 1 if limit is None else limit)
    if given is not None and not isinstance(given, list):
        raise InvalidArgument(f"the dataset {plugin} must give problems, not {json.dumps(given)[:60]}")
    if given and limit is None and len(given) > MOST:
        more = f"the dataset {plugin} gives more than {MOST:,} problems"
        raise InvalidArgument(f"{more}: say how many, in a file of the run: problems: {{name: {name}, limit: 1000}}")
    if not given:
        raise NotFound(f"the dataset {plugin} has no problems{f' in its split {split}' if split else ''}")
    # By this path an error names the plug-in, and problems without an id are called.
    path = name.replace("/", "-")
    numbered = ((f"{path} problem {number}", number, one) for number, one in enumerate(given, start=1))
    return tuple(jsonl.problems(numbered, lambda record, where: record, path))[:limit]
