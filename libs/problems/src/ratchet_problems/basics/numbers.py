"""Basic problems about numbers."""

from ratchet_problems.basics.collection import Collection

collection = Collection("numbers")
problem = collection.problem


@problem("returns whether n is even", ((4,), True), (0,), (7,), (-2,), (-3,))
def is_even(n: int) -> bool:
    return n % 2 == 0


@problem("returns the sign of n: -1, 0 or 1", ((-5,), -1), (0,), (8,))
def sign(n: int) -> int:
    return (n > 0) - (n < 0)


@problem("returns n limited to the range from low to high", ((7, 0, 5), 5), (-1, 0, 5), (3, 0, 5), (0, 0, 0))
def clamp(n: int, low: int, high: int) -> int:
    return max(low, min(high, n))


@problem("returns the largest of a, b and c", ((1, 9, 4), 9), (-1, -2, -3), (5, 5, 5), (0, 1, 2))
def largest_of_three(a: int, b: int, c: int) -> int:
    return max(a, b, c)


@problem("returns the middle one of a, b and c by size", ((9, 1, 4), 4), (5, 5, 1), (-1, 0, 1), (2, 2, 2))
def middle_of_three(a: int, b: int, c: int) -> int:
    return sorted((a, b, c))[1]


@problem("returns n factorial, for n of 0 or more", ((5,), 120), (0,), (1,), (10,))
def factorial(n: int) -> int:
    result = 1
    for factor in range(2, n + 1):
        result *= factor
    return result


@problem(
    "returns the n-th Fibonacci number; the 0th is 0, the 1st is 1", ((7,), 13), (0,), (1,), (2,), (30,), difficulty=2
)
def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@problem("returns whether n is prime", ((13,), True), (0,), (1,), (2,), (9,), (91,), (97,), difficulty=2)
def is_prime(n: int) -> bool:
    return n > 1 and all(n % divisor for divisor in range(2, int(n**0.5) + 1))


@problem(
    "returns the greatest common divisor of a and b, both 0 or more",
    ((12, 18), 6),
    (0, 5),
    (7, 13),
    (100, 75),
    difficulty=2,
)
def greatest_common_divisor(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return a


@problem(
    "returns the least common multiple of a and b, both 1 or more", ((4, 6), 12), (1, 9), (7, 7), (8, 12), difficulty=3
)
def least_common_multiple(a: int, b: int) -> int:
    multiple = a
    while multiple % b:
        multiple += a
    return multiple


@problem("returns the sum of the digits of n, whatever its sign", ((-123,), 6), (0,), (9,), (4096,))
def digit_sum(n: int) -> int:
    return sum(int(digit) for digit in str(abs(n)))


@problem("returns how many digits n has, whatever its sign", ((-123,), 3), (0,), (9,), (10,), (99999,))
def digit_count(n: int) -> int:
    return len(str(abs(n)))


@problem("returns n with its digits reversed, keeping the sign", ((-120,), -21), (0,), (7,), (1234,), difficulty=2)
def reverse_digits(n: int) -> int:
    reverse = int(str(abs(n))[::-1])
    return -reverse if n < 0 else reverse


@problem(
    "returns the sorted list of the divisors of n, for n of 1 or more",
    ((12,), [1, 2, 3, 4, 6, 12]),
    (1,),
    (7,),
    (36,),
    difficulty=2,
)
def divisors(n: int) -> list[int]:
    return [divisor for divisor in range(1, n + 1) if n % divisor == 0]


@problem(
    "returns whether n, 1 or more, is the sum of its divisors below itself",
    ((6,), True),
    (1,),
    (28,),
    (12,),
    (496,),
    difficulty=3,
)
def is_perfect(n: int) -> bool:
    return n == sum(divisor for divisor in range(1, n) if n % divisor == 0)


@problem("returns the binary digits of n, 0 or more, as text", ((10,), "1010"), (0,), (1,), (255,), difficulty=2)
def to_binary(n: int) -> str:
    return bin(n)[2:]


@problem(
    "returns the number that the binary digits in s stand for",
    (("1010",), 10),
    ("0",),
    ("1",),
    ("11111111",),
    difficulty=2,
)
def from_binary(s: str) -> int:
    return int(s, 2)


@problem(
    "returns how many steps n, 1 or more, takes to 1 when halved if even, else tripled plus one",
    ((6,), 8),
    (1,),
    (2,),
    (27,),
    difficulty=3,
)
def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@problem(
    "returns whether the year has 366 days in the Gregorian calendar",
    ((2000,), True),
    (1900,),
    (2024,),
    (2023,),
    difficulty=2,
)
def is_leap_year(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


@problem("returns the distance between a and b on the number line", ((3, -4), 7), (0, 0), (-5, -9), (2, 10))
def distance(a: int, b: int) -> int:
    return abs(a - b)


@problem(
    "returns the largest whole number whose square is at most n, for n of 0 or more",
    ((17,), 4),
    (0,),
    (1,),
    (15,),
    (16,),
    difficulty=2,
)
def integer_root(n: int) -> int:
    root = 0
    while (root + 1) ** 2 <= n:
        root += 1
    return root


@problem("returns whether n, 1 or more, is a power of two", ((64,), True), (1,), (2,), (3,), (96,), difficulty=2)
def is_power_of_two(n: int) -> bool:
    return n & (n - 1) == 0


@problem(
    "returns the prime factors of n, 2 or more, in ascending order with repetitions",
    ((60,), [2, 2, 3, 5]),
    (2,),
    (49,),
    (97,),
    (360,),
    difficulty=4,
)
def prime_factors(n: int) -> list[int]:
    factors, divisor = [], 2
    while n > 1:
        while n % divisor == 0:
            factors.append(divisor)
            n //= divisor
        divisor += 1
    return factors


@problem("returns n, from 1 to 3999, in Roman numerals", ((1994,), "MCMXCIV"), (1,), (4,), (58,), (3999,), difficulty=4)
def to_roman(n: int) -> str:
    numerals = {
        1000: "M",
        900: "CM",
        500: "D",
        400: "CD",
        100: "C",
        90: "XC",
        50: "L",
        40: "XL",
        10: "X",
        9: "IX",
        5: "V",
        4: "IV",
        1: "I",
    }
    text = ""
    for value, letters in numerals.items():
        while n >= value:
            text += letters
            n -= value
    return text


@problem(
    "returns the number of ways to make n, 0 or more, as an unordered sum of the distinct coins",
    ((5, [1, 2, 5]), 4),
    (0, [1]),
    (3, [2]),
    (10, [1, 5, 10]),
    difficulty=5,
)
def coin_ways(n: int, coins: list[int]) -> int:
    ways = [1] + [0] * n
    for coin in coins:
        for total in range(coin, n + 1):
            ways[total] += ways[total - coin]
    return ways[n]
