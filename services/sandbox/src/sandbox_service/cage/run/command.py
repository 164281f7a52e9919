"""Programs that aren't Python: a compiler or what it made takes the forked child's place."""

import os
import signal

from sandbox_service.cage.run import runner
from sandbox_service.cage.wire import wire


def run_command(frames: wire.Frames, argv: tuple[str, ...], environment: dict[str, str]) -> int:
    """Becomes `argv`, a name by the PATH of `environment`. Returns only if it can't be started: a frame reports why."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores them, and its children would, too
    os.set_inheritable(wire.RESULT_FD, False)
    try:
        os.execvpe(argv[0], argv, environment)
    except OSError as error:
        frames.send("error", *runner.describe(error))
    return 127
