"""Prints a wrong answer and moves the cursor back, for whoever looks at a terminal.

Kind: fake-a-pass
Expect: FAILED
Test: stdio
"""

print("3\b2\r\x1b[2K2\x1b[1A")
