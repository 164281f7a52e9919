"""The reader's process: programs come in, one line of JSON goes out for each. `python -I -m
ratchet_quality.child style`, with the components that it will be asked for."""

import json
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FrameType

from ratchet_kit import syntax
from ratchet_problems import Problem
from ratchet_quality.components import component
from ratchet_quality.score import Parameters, Score, Unreadable
from ratchet_quality.tokens import significant

MEMORY = 1 << 30
FILE_BYTES = 16 << 20
CPU_S = 10.0
"""For one program, where the parser lets Python come to it."""


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _late)
    requests, answers = sys.stdin.buffer, os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    for name in sys.argv[1:]:
        component(name)  # what it imports is not the first program's time
    os.write(answers, b"ready\n")
    while size := requests.read(8):
        source, problem, components = pickle.loads(requests.read(int.from_bytes(size, "big")))
        line = json.dumps({name: (score.value, score.detail) for name, score in _scores(source, problem, components)})
        os.write(answers, f"{line}\n".encode())


def _scores(source: str, problem: Problem, components: Mapping[str, Parameters]) -> Iterator[tuple[str, Score]]:
    """All 0 where there is nothing that can be read."""
    fine = _limited(partial(_readable, source))
    for name, parameters in components.items():
        yield name, _limited(partial(component(name), source, problem, **parameters)) if fine.value else fine


def _readable(source: str) -> Score:
    """1, or Unreadable."""
    try:
        syntax.parse(source)
    except (SyntaxError, ValueError) as error:
        raise Unreadable(f"no Python: {str(error)[:100]}") from error
    if not significant(source):
        raise Unreadable("no code")
    return Score(1.0, "Python")


def _limited(read: Callable[[], Score]) -> Score:
    signal.setitimer(signal.ITIMER_PROF, CPU_S)
    try:
        return read()
    except Unreadable as error:
        return Score(0.0, f"not read: {error}")
    except (MemoryError, RecursionError):
        return Score(0.0, "not read: nested too deeply, or more memory than there is")
    except TimeoutError:
        return Score(0.0, f"not read: it took more than {CPU_S:.0f} s")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


if __name__ == "__main__":
    main()
