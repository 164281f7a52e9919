"""When an engine hangs. A look is a second."""

import asyncio
import os
import signal
import sys
import time
from datetime import timedelta

from rollout_service.adapters.engines.hang_detection import ProcessorTime, Pulse, used_by

LIMIT = timedelta(seconds=3)


class Engine:
    """`leader` and `others`: seconds of processor time that each look adds."""

    def __init__(self, leader: float = 0, others: float = 0) -> None:
        self.leader, self.others = leader, others
        self._used = ProcessorTime()
        self.pulse = Pulse(LIMIT, lambda: self._used)

    def looks(self, count: int, beat: bool | None = None) -> str:
        """What the last of so many looks says. `beat`: before each comes one that says so."""
        said = ""
        for _ in range(count):
            if beat is not None:
                self.pulse.beat(beat)
            self._used = ProcessorTime(self._used.leader + self.leader, self._used.others + self.others)
            said = self.pulse.look()
        return said


def test_one_that_answers_lives() -> None:
    assert Engine().looks(1000, beat=True) == ""


def test_one_that_is_silent_and_computes_nothing_hangs() -> None:
    engine = Engine()
    assert engine.looks(3) == "", "before the first look it spoke"
    assert engine.looks(1) == "it has neither answered nor computed for 3 s"


def test_one_answer_begins_anew() -> None:
    engine = Engine()
    engine.looks(3)
    assert engine.looks(1, beat=True) == ""
    assert engine.looks(2) == ""


def test_one_that_computes_has_as_long_as_a_call() -> None:
    engine = Engine(others=0.5)
    assert engine.looks(600, beat=False) == ""
    assert engine.looks(1, beat=False) == "it computes, and has answered nothing for 600 s"


def test_after_it_has_computed_it_hangs() -> None:
    engine = Engine(others=0.5)
    engine.looks(100, beat=False)
    engine.others = 0
    assert engine.looks(2, beat=False) == ""
    assert engine.looks(1, beat=False)


def test_that_prompts_still_arrive_does_not_excuse_what_should_compute() -> None:
    assert Engine(leader=0.5).looks(5, beat=False)


def test_a_process_that_reads_a_long_prompt_does_not_hang() -> None:
    assert Engine(leader=0.5).looks(100) == ""


async def test_the_processor_time_of_a_group_is_that_of_its_processes() -> None:
    program = "import os, time\nif os.fork():\n  time.sleep(60)\nelse:\n  while True: pass"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, start_new_session=True)
    try:
        end = time.monotonic() + 30
        while used_by(process.pid).others < 0.1 and time.monotonic() < end:
            await asyncio.sleep(0.05)
        used = used_by(process.pid)
        assert used.others >= 0.1
        assert used.leader < used.others
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
