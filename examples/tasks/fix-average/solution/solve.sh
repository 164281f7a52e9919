#!/bin/bash
set -e
cat > /app/average.py <<'END'
import sys

numbers = [float(line) for line in sys.stdin if line.strip()]
print(f"{sum(numbers) / len(numbers) if numbers else 0:.2f}")
END
