"""Whether a plug-in's function can be called as its kind is: at Create by its source, which is read and not imported,
since what it imports (torch, say) takes longer than whoever makes a run waits; in the job by the function itself."""

import ast
import importlib.util
import inspect
from importlib.metadata import EntryPoint
from pathlib import Path

from ratchet_kit.errors import InvalidArgument
from ratchet_kit.syntax import parse
from trainer_service.domain.spec.plugins import PluginKind

TAKES = {
    PluginKind.SAMPLER: ("problems", "seed", "number"),
    PluginKind.LOSS: (
        *("old_log_prob", "log_prob", "advantages", "response_mask", "loss_agg_mode", "config"),
        "rollout_is_weights",
    ),
    PluginKind.ADVANTAGE: ("token_level_rewards", "response_mask", "index", "config"),
    PluginKind.ALGORITHM: (),
    PluginKind.DATASET: ("split",),
    PluginKind.REWARD: ("samples",),
    PluginKind.ENVIRONMENT: ("problem", "answers", "result"),
}
EARNED = "earned"
"""Argument that a sampler may take, too."""
BY_NAME = (PluginKind.LOSS, PluginKind.ADVANTAGE)
"""Kinds that verl calls, by the names of arguments."""


TRIED = (PluginKind.ALGORITHM, PluginKind.DATASET, PluginKind.ENVIRONMENT)
"""Kinds that are imported at Create: that says more than their source."""


def check(kind: PluginKind, name: str, signature: inspect.Signature) -> None:
    """Raises InvalidArgument where what has this signature cannot be called with the arguments of its kind."""
    takes = TAKES[kind]
    try:
        if kind in BY_NAME:
            signature.bind(**dict.fromkeys(takes))
        elif kind == PluginKind.SAMPLER and EARNED in signature.parameters:
            signature.bind(*takes, **{EARNED: ()})
        else:
            signature.bind(*takes)
    except TypeError as error:
        raise InvalidArgument(
            f"the {kind} {name} must take ({', '.join(takes)}), as in its template (docs/plugins.md): {error}"
        ) from error


def fault(kind: PluginKind, point: EntryPoint) -> str:
    """What its source shows to be wrong; empty where nothing does, which is also where it says too little: a name that
    is imported or decorated, say."""
    if kind in TRIED:
        return ""
    file = _file_of(point.module)
    if file is None:
        return f"the {kind} {point.name} cannot be imported: there is no module {point.module}"
    try:
        source = file.read_text(encoding="utf-8")
        tree = parse(source)
    except SyntaxError as error:
        where = f"{file.name} is not valid Python: line {error.lineno}: {error.msg}"
        return f"the {kind} {point.name} cannot be imported: {where}"
    except (OSError, ValueError, RecursionError, MemoryError):
        return ""
    if point.attr not in source and "import *" not in source and "." not in point.attr:
        return f"the {kind} {point.name} cannot be imported: {file.name} has no {point.attr}"
    signature = _signature(tree, point.attr)
    try:
        if signature:
            check(kind, point.name, signature)
    except InvalidArgument as error:
        return error.message
    return ""


def _file_of(module: str) -> Path | None:
    """None where there is none. Packages are not imported for it."""
    top, *rest = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        path = Path(folder, *rest)
        for file in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            if file.is_file():
                return file
    return None


def _signature(tree: ast.Module, name: str) -> inspect.Signature | None:
    """Of the function or class of this name; None where the source does not say."""
    found = [one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef) and one.name == name]
    if not found or found[-1].decorator_list:
        return None
    if isinstance(made := found[-1], ast.FunctionDef):
        return inspect.Signature(_parameters(made.args))
    begins = [one for one in made.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    return inspect.Signature(_parameters(begins[-1].args)[1:]) if begins else None


def _parameters(given: ast.arguments) -> list[inspect.Parameter]:
    kinds = inspect.Parameter
    placed = [one.arg for one in (*given.posonlyargs, *given.args)]
    needed = len(placed) - len(given.defaults)
    empty = inspect.Parameter.empty
    made = [
        inspect.Parameter(
            name,
            kinds.POSITIONAL_ONLY if place < len(given.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD,
            default=empty if place < needed else None,
        )
        for place, name in enumerate(placed)
    ]
    if given.vararg:
        made.append(inspect.Parameter(given.vararg.arg, kinds.VAR_POSITIONAL))
    made += [
        inspect.Parameter(one.arg, kinds.KEYWORD_ONLY, default=empty if default is None else None)
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
    ]
    if given.kwarg:
        made.append(inspect.Parameter(given.kwarg.arg, kinds.VAR_KEYWORD))
    return made
