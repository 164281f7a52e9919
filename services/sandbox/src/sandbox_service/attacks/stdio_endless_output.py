"""Prints for ever where what it prints is judged.

Kind: break-out
Expect: OUTPUT_LIMIT
Test: stdio
"""

while True:
    print("2 " * 100)
