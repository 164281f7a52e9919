"""Puts texts that the program has not seen beside it, and compares what it prints."""

import collections
import pathlib
import random
import subprocess
import sys

draw = random.Random(7)
for number in range(5):
    words = draw.choices(["Ox", "ox", "ant", "Bee", "cow", "dove"], k=30)
    pathlib.Path(f"/tmp/t{number}.txt").write_text(" ".join(words[:15]) + "\n" + "\n".join(words[15:]) + "\n")
    subprocess.run(["subject", "put", f"/tmp/t{number}.txt", "/data"], check=True)
    asked = ["subject", "run", "/app/count", f"/data/t{number}.txt"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    counted = collections.Counter(word.lower() for word in words)
    wanted = [f"{word} {times}" for word, times in sorted(counted.items(), key=lambda it: (-it[1], it[0]))]
    if done.stdout.split("\n")[:-1] != wanted:
        sys.exit(f"text {number}: {done.stdout!r}, not {wanted}; {done.stderr}")
