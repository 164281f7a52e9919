"""Quality of programs beyond passing their tests: how they are written, each aspect a score from 0 to 1.

    read([(source, problem)], ["style", "safety"])     what reading a program shows; the program is not run
    await efficiency.measure(executor, task, source)   what running it in the sandbox shows
    await measurer.measure(task, samples)              both, as a reward of a run takes them (`measuring`)

The components are defined in docs/quality.md. Each is a function from a source and its problem to a Score. Those that
read call Python's parser on what a model wrote, which may take it down: only `read` calls them, in a process of
their own with limits.
"""

from ratchet_quality.components import COMPONENTS, names
from ratchet_quality.reader import read
from ratchet_quality.score import Score, Unreadable

__all__ = ["COMPONENTS", "Score", "Unreadable", "names", "read"]
