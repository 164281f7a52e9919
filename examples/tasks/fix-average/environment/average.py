import sys

numbers = [int(line) for line in sys.stdin]
print(f"{sum(numbers) // len(numbers):.2f}")
