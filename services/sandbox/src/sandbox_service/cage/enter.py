"""Where a lane's Python begins: `python -s -S -P -B enter.py FD PARENT STAGE UID`. See zygote.py.

A script of its own, as Python compiles that each time, and what compiling leaves in memory every fork inherits.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import zygote

zygote.main()
