"""Where a lane's Python begins: `python -s -S -P -B enter.py FD PARENT STAGE UID`, and once more inside its root.

The package `cage` is made known here by its name. No folder of ours is ever on sys.path: so nothing beside the cage can
be found by way of it, and nothing of the cage in place of what a runtime's packages import.

Kept tiny: Python compiles a script at each start, and every fork inherits the memory that compiling used.
"""

import os
import sys

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _name, _path in (("sandbox_service", []), ("sandbox_service.cage", [_FOLDER])):
    sys.modules[_name] = type(sys)(_name)
    sys.modules[_name].__path__ = _path

if len(sys.argv) > 3:
    from sandbox_service.cage.lane import outside

    outside.main()
else:
    from sandbox_service.cage.lane import start

    start.main(start.note())
