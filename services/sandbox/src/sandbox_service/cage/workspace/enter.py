"""Where the nursery's Python begins: `python -s -S -P -B enter.py FD PARENT`. As lane/enter.py, which says why."""

import os
import sys

_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
for _name, _path in (("sandbox_service", []), ("sandbox_service.cage", [_FOLDER])):
    sys.modules[_name] = type(sys)(_name)
    sys.modules[_name].__path__ = _path

from sandbox_service.cage.workspace import nursery  # noqa: E402

nursery.main()
