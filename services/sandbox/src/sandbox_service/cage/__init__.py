"""The code inside the cage: run by a bare interpreter, so with the standard library alone and no import of the service.

Each lane is a Python process of its own. `lane/enter.py` is its script, exec'd once per lane with a clean environment.
It makes this package known by its name and nothing else of the service, and no folder of it is on sys.path.

Eight rooms, each of which imports those below it:

workspace/   nursery.py   forks the keeper of each workspace, into namespaces and a root of its own (lane/outside.py)
             keeper.py    has pid 1 (init.py) fork what the service orders, and measures it
             start.py     what a fork does before its program begins, or before it moves files (files.py)
lane/        outside.py   makes namespaces (jail.py) and a private root (root.py) where it may, and begins again inside
             start.py     locks the process in (lockdown.py), forks the zygote, and becomes the keeper
             forks.py     the zygote: it forks a process for each program. cradle.py: what that does before the program
                          begins. rehearsal.py: a first program of our own
             keeper.py    takes requests, supervises programs, answers. It reads no program, no tests and no results:
                          what it collects it passes on unread. zygote.py: how it has the zygote fork
             child.py     what the keeper holds of a program: its process, its pipes (pipe.py), its files (files.py),
                          its time and memory (limits.py, process_tree.py, cpu_time.py)
             world.py     what is new for each program (scratch.py); proof.py: that the lane is as it was after it
test_code/   tester.py    runs test code, in a process of its own, and ahead of that compiles it in another
             collect.py   what it holds to run: pytest's, unittest's (cases.py), doctest's (examples.py). bundled.py:
                          modules that come with it
             counting.py  what its comparisons came to (comparisons.py, caught.py, elements.py, marking.py)
             foreign.py   what the program made is never run
objects/     link.py      how program and tests ask each other, and hold objects in common (shared.py). The program's
                          side is owner.py, describe.py and guests.py, the tests' proxies.py, classes.py, making.py,
                          mirrors.py and lent.py. proxy.py: what an object is to the tests, by the rules of
                          standing.py (grades.py); operators.py, protocols.py, equality.py, methods.py, answers.py
                          (moment.py): what it does. details.py: what exceptions hold; drawn.py: for how long elements
                          are drawn; vanished.py: exceptions of the program that ended loops of the tests
             reports.py   what the program prints, warns of, logs and reads; replay.py: the same with the tests.
                          surroundings.py, python_settings.py: environment, folder, arguments, seeds and the like of
                          the tests are the program's. series.py: many calls at once
run/         runner.py    runs a program in its process: calls or a script; command.py: another language
own_pytest/  little_pytest.py (nearness.py, outcomes.py), arguments.py, fixtures.py (captures.py, patches.py)
wire/        wire.py      how all of them speak (channel.py); codec.py: the form of values (library.py, arrays.py).
                          errors.py: what may not cross. adapters/lanes/protocol.py is the service's side
kernel/      system calls: seccomp, Landlock, namespaces
"""
