"""Writes that it passed to the channel that tells how it ended.

Kind: fake-a-pass
Expect: TAMPERED
Test: stdio
"""

import os

os.write(3, b'["passed"]\n{"verdict": "PASSED"}\n')
print("3")
