"""Leaves before a test could ask.

Expect: RUNTIME_ERROR
"""

import os

os._exit(0)
