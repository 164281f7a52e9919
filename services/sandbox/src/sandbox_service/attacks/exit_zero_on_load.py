"""Leaves before a test could ask.

Kind: fake-a-pass
Expect: RUNTIME_ERROR
"""

import os

os._exit(0)
