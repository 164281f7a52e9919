"""The `ratchet` command. Every error is one sentence on stderr and an exit code, never a trace.

Exit codes: 0 done; 1 the work failed or cannot be done here; 2 wrong usage; 3 the platform refused the request;
4 no platform answers; 130 interrupted.
"""

import sys

import typer

from ratchet_client.cli import batching, evaluating, platform, releasing, runtimes, sandboxing, showing, training
from ratchet_client.cli.output import stderr
from ratchet_client.errors import ApiError, CommandError, Unreachable

app = typer.Typer(
    name="ratchet",
    help="Post-train code models with reinforcement learning, and ship only what measurably improved.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
platform.add_to(app)
training.add_to(app)
evaluating.add_to(app)
releasing.add_to(app)
showing.add_to(app)
sandboxing.add_to(app)
runtimes.add_to(sandboxing.app)
batching.add_to(sandboxing.app)


def main() -> None:
    try:
        # Wrong usage and Ctrl-C are answered by typer itself, which then exits.
        app()
    except CommandError as error:
        _leave(str(error), error.code)
    except ApiError as error:
        _leave(str(error), 3)
    except Unreachable as error:
        _leave(str(error), 4)
    except BrokenPipeError:
        sys.exit(0)


def _leave(sentence: str, code: int) -> None:
    stderr.print(f"[bold red]ratchet:[/] {_escape(sentence)}", highlight=False, soft_wrap=True)
    sys.exit(code)


def _escape(text: str) -> str:
    return text.replace("[", "\\[")


if __name__ == "__main__":
    main()
