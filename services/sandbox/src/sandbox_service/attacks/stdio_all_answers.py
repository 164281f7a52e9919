"""Prints every answer that there could be.

Kind: fake-a-pass
Expect: FAILED
Test: stdio
"""

print(*range(1000))
