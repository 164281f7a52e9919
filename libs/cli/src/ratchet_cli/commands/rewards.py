"""`ratchet new reward` and `ratchet reward`: a reward of one's own, from its template to the registry."""

import sys
from keyword import iskeyword
from pathlib import Path
from typing import Annotated

import typer

from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_cli.commands import plugins
from ratchet_cli.commands.options import Limit, TargetOption, named
from ratchet_cli.commands.sandbox import local_target
from ratchet_cli.terminal.errors import CommandError
from ratchet_cli.terminal.output import JsonFlag, ago, print_fields, print_json, print_list, print_table, say
from ratchet_client import Client
from ratchet_client.rewards import COMBINATIONS, reward
from ratchet_kit.errors import RatchetError
from ratchet_kit.names import RewardRef
from ratchet_workflows.datasets import local
from ratchet_workflows.notation.yaml_files import reward_spec

app = typer.Typer(help="Rewards of your own: try, add, list, show, delete.", no_args_is_help=True)
new = typer.Typer(help="New files from templates.", no_args_is_help=True)

CombineOption = Annotated[str, typer.Option(help=f"Combination of the components: {', '.join(COMBINATIONS)}.")]
TASKS = ("code", "math", "qa")
REGISTERED = "name@number; name alone is its newest version."
REWARD = (
    "A component, a preset, or components with weights: tests=0.7,style=0.2,brevity.py=0.1,safety=veto:0.5. One of the "
    "registry: brevity@2. A plug-in: plugin:NAME. Or a .yaml."
)


@app.callback()
def rewards() -> None:
    """Rewards of your own."""


@new.callback()
def templates() -> None:
    """New files from templates."""


def parsed(text: str, combine: str = "") -> trainer_pb2.RewardSpec:
    """Raises CommandError for what is no reward."""
    if text.endswith((".yaml", ".yml")):
        if combine:
            raise CommandError("--combine: the file of a reward says how it is combined.", code=2)
        return reward_spec(Path(text))
    try:
        return reward(text, combine)
    except ValueError as error:
        raise CommandError(f"--reward {text}: {error}.", code=2) from error
    except OSError as error:
        raise CommandError(f"--reward {text}: {error.filename} cannot be read: {error.strerror}.", code=2) from error


@new.command("reward")
def new_reward(
    name: Annotated[str, typer.Argument(help="Name of the reward: letters, digits and _.")],
    task: Annotated[str, typer.Option(help=f"Task that it scores: {', '.join(TASKS)}.")] = "code",
    folder: Annotated[Path, typer.Option(help="Folder for its files.")] = Path(),
    installed: Annotated[
        bool,
        typer.Option(
            "--installed", help="Write a plug-in (a package with an entry point), which runs beside training."
        ),
    ] = False,
) -> None:
    """Write a reward of your own, NAME.py, and its test."""
    from importlib.resources import files

    if task not in TASKS:
        raise CommandError(f"--task {task}: choose one of {', '.join(TASKS)}.", code=2)
    if installed:
        plugins.new_installed_reward(task, name, folder)
        return
    if not (name.isidentifier() and name.isascii()) or iskeyword(name):
        raise CommandError(f"{name} is not a name for a reward: use letters, digits and _.", code=2)
    if name in sys.stdlib_module_names:
        raise CommandError(f"{name} is a module of Python's, which {name}.py would hide: take another name.", code=2)
    templates = files("ratchet_cli") / "templates" / "rewards"
    for file, template in ((f"{name}.py", f"{task}.py.txt"), (f"test_{name}.py", f"test_{task}.py.txt")):
        path = folder / file
        try:
            with path.open("x", encoding="utf-8") as new_file:
                new_file.write((templates / template).read_text(encoding="utf-8").replace("NAME", name))
        except FileExistsError as error:
            raise CommandError(f"{path} is there already.") from error
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
        say(str(path))
    own = f"--problems problems/mine.jsonl --validation problems/held-out.jsonl --reward {name}.py"
    of_tests = f"--reward tests=0.9,{name}.py=0.1" if task == "code" else own
    trained = f"Train on it: ratchet train --model starter {of_tests}"
    say(f"Test it: pytest {folder / f'test_{name}.py'}. {trained}")


@app.command("add")
def add_reward(
    file: Annotated[Path, typer.Argument(help="Python file of the reward.")],
    name: Annotated[str, typer.Option(help="Name; default: the file's.")] = "",
    description: Annotated[str, typer.Option(help="Description, for people.")] = "",
    as_json: JsonFlag = False,
) -> None:
    """Register a reward as the next version of its name. If a version has this source already, that one is returned."""
    try:
        source = file.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.", code=2) from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{file} is not UTF-8 text.", code=2) from error
    with Client() as client:
        made = client.rewards.create(name or file.stem, source, description)
    print_json(made) if as_json else say(f"{_name(made)}  {made.digest}")


@app.command("list")
def list_rewards(
    name: Annotated[str, typer.Argument(help="Only versions of this reward.")] = "",
    limit: Limit = 0,
    as_json: JsonFlag = False,
) -> None:
    """List all versions, by name and then newest first."""
    with Client() as client:
        print_list(
            client.rewards.list(name),
            limit,
            as_json,
            {
                "reward": _name,
                "digest": lambda one: one.digest[7:19],
                "bytes": lambda one: one.size_bytes,
                "runs": lambda one: one.runs,
                "by": lambda one: one.actor or "-",
                "created": lambda one: ago(one.create_time),
                "description": lambda one: one.description or "-",
            },
            breakable=("description",),
        )


@app.command("show")
def show_reward(reward: Annotated[str, typer.Argument(help=REGISTERED)], as_json: JsonFlag = False) -> None:
    """Show a version of a reward, and its source."""
    ref = named(RewardRef.parse, reward)
    with Client() as client:
        found = client.rewards.get(ref.name, ref.number)
    if as_json:
        print_json(found)
        return
    runs = f"{found.runs}, {found.last_run_id} the last" if found.runs else "none"
    print_fields(
        [
            ("reward", _name(found)),
            ("digest", found.digest),
            ("description", found.description or "-"),
            ("created", f"{ago(found.create_time)}{f' by {found.actor}' if found.actor else ''}"),
            ("runs", runs),
        ]
    )
    say("")
    say(found.source.rstrip("\n"))


@app.command("delete")
def remove_reward(
    reward: Annotated[str, typer.Argument(help="name@number.")],
    force: Annotated[
        bool, typer.Option("--force", help="Delete it even if runs used it: they keep its source.")
    ] = False,
) -> None:
    """Delete a version of a reward."""
    ref = named(RewardRef.parse, reward)
    if ref.number is None:
        raise CommandError(f"{reward} is not a version of a reward: write {reward}@1.", code=2)
    with Client() as client:
        client.rewards.delete(ref.name, ref.number, force=force)
    say(f"{ref} is deleted.")


def _name(reward: registry_pb2.Reward) -> str:
    return f"{reward.name}@{reward.number}"


@app.command("try")
def try_reward(
    reward: Annotated[str, typer.Argument(help=REWARD)],
    samples: Annotated[Path, typer.Option(help="JSONL of samples: task_id, and a completion or a solution.")],
    problems: Annotated[str, typer.Option(help="Named set or JSONL file with their problems.")],
    combine: CombineOption = "",
    step: Annotated[int, typer.Option(help="Step whose weights are used.", min=1)] = 1,
    target: TargetOption = "",
    as_json: JsonFlag = False,
) -> None:
    """Score samples as a run would: their tests are run, each component is measured, and all are combined."""
    from ratchet_reports import rewards as work  # the sandbox's client, the readers: only for this command

    spec = parsed(reward, combine)
    try:
        with local(problems) as here:
            found = work.score(spec, samples, here, step, target or local_target())
    except RatchetError as error:
        raise CommandError(f"The samples cannot be scored: {error.message}.") from error
    if as_json:
        print_json({"samples": [one.to_json() for one in found]})
        return
    names = next((list(one.values) for one in found if one.values), [])
    print_table(
        ("problem", "sample", "verdict", *names, "reward"),
        [
            (
                one.problem_id,
                one.index,
                one.verdict,
                *(f"{one.values[name]:.3f}" if one.values else "-" for name in names),
                "-" if one.reward is None else f"{one.reward:.3f}" + (" (vetoed)" if one.vetoed else ""),
            )
            for one in found
        ],
    )
