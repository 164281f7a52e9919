"""Where a lane's Python begins: `python -s -S -P -B enter.py FD PARENT STAGE UID`, and once more inside its root.

Kept tiny: Python compiles a script at each start, and every fork inherits the memory that compiling used.
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

if len(sys.argv) > 3:
    import outside

    outside.main()
else:
    import start

    start.main(start.note())
