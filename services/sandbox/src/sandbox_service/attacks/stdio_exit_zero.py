"""Prints that it passed and leaves with success.

Kind: fake-a-pass
Expect: FAILED
Test: stdio
"""

import os

print("PASSED\nOK\nAll tests passed", flush=True)
os._exit(0)
