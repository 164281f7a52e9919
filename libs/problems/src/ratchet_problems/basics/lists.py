"""Basic problems about lists."""

from ratchet_problems.basics.collection import Collection

collection = Collection("lists")
problem = collection.problem


@problem("returns the sum of the numbers in xs", (([1, 2, 3],), 6), ([],), ([-4],), ([5, -5, 7],))
def total(xs: list[int]) -> int:
    return sum(xs)


@problem("returns the largest number in xs, or None if xs is empty", (([3, 9, 2],), 9), ([],), ([-4],), ([-3, -1],))
def largest(xs: list[int]) -> int | None:
    return max(xs, default=None)


@problem(
    "returns the second largest of the distinct numbers in xs, or None if there is none",
    (([5, 9, 9, 1],), 5),
    ([],),
    ([4],),
    ([2, 2],),
    ([1, 2],),
    difficulty=2,
)
def second_largest(xs: list[int]) -> int | None:
    distinct = sorted(set(xs))
    return distinct[-2] if len(distinct) > 1 else None


@problem("returns the mean of the numbers in xs, or 0 if xs is empty", (([1, 2, 6],), 3.0), ([],), ([5],), ([1, 2],))
def mean(xs: list[int]) -> float:
    return sum(xs) / len(xs) if xs else 0


@problem(
    "returns the median of the numbers in xs, which is not empty",
    (([4, 1, 3, 2],), 2.5),
    ([5],),
    ([3, 1, 2],),
    ([2, 2, 8, 9],),
    difficulty=2,
)
def median(xs: list[int]) -> float:
    ordered, half = sorted(xs), len(xs) // 2
    return ordered[half] if len(xs) % 2 else (ordered[half - 1] + ordered[half]) / 2


@problem("returns how many numbers in xs are even", (([1, 2, 4],), 2), ([],), ([1],), ([0, -2, 3],))
def count_even(xs: list[int]) -> int:
    return sum(x % 2 == 0 for x in xs)


@problem("returns the positive numbers of xs in their order", (([3, -1, 0, 2],), [3, 2]), ([],), ([-1],), ([5],))
def positives(xs: list[int]) -> list[int]:
    return [x for x in xs if x > 0]


@problem("returns the list of the squares of xs", (([1, -2, 3],), [1, 4, 9]), ([],), ([0],), ([10, 5],))
def squares(xs: list[int]) -> list[int]:
    return [x * x for x in xs]


@problem(
    "returns xs without repetitions, in order of first appearance",
    (([3, 1, 3, 2, 1],), [3, 1, 2]),
    ([],),
    ([1, 1],),
    ([4, 5],),
    difficulty=2,
)
def deduplicate(xs: list[int]) -> list[int]:
    return list(dict.fromkeys(xs))


@problem("returns the running totals of xs", (([1, 2, 3],), [1, 3, 6]), ([],), ([5],), ([1, -1, 2],), difficulty=2)
def running_totals(xs: list[int]) -> list[int]:
    totals, current = [], 0
    for x in xs:
        current += x
        totals.append(current)
    return totals


@problem(
    "returns the differences between each number in xs and the one before it",
    (([1, 4, 2],), [3, -2]),
    ([],),
    ([5],),
    ([1, 1],),
)
def differences(xs: list[int]) -> list[int]:
    return [xs[index] - xs[index - 1] for index in range(1, len(xs))]


@problem(
    "returns whether the numbers in xs never go down", (([1, 1, 2],), True), ([],), ([3],), ([2, 1],), ([1, 3, 2],)
)
def is_sorted(xs: list[int]) -> bool:
    return xs == sorted(xs)


@problem(
    "returns xs with its elements moved k places to the right, the last ones coming first; k is 0 or more",
    (([1, 2, 3, 4], 1), [4, 1, 2, 3]),
    ([], 3),
    ([1, 2], 5),
    ([1, 2, 3], 0),
    difficulty=2,
)
def rotate(xs: list[int], k: int) -> list[int]:
    k = k % len(xs) if xs else 0
    return xs[-k:] + xs[:-k] if k else xs[:]


@problem(
    "returns one list with the elements of the lists in xss, in order",
    (([[1], [], [2, 3]],), [1, 2, 3]),
    ([],),
    ([[]],),
    ([[4, 5]],),
)
def flatten(xss: list[list[int]]) -> list[int]:
    return [x for xs in xss for x in xs]


@problem(
    "returns xs cut into lists of k elements; the last may be shorter",
    (([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]]),
    ([], 2),
    ([1], 3),
    ([1, 2, 3], 1),
    difficulty=2,
)
def chunk(xs: list[int], k: int) -> list[list[int]]:
    return [xs[index : index + k] for index in range(0, len(xs), k)]


@problem(
    "returns the elements of xs and ys in turn; what is left of the longer one comes last",
    (([1, 2, 3], [9]), [1, 9, 2, 3]),
    ([], []),
    ([], [1, 2]),
    ([1, 3], [2, 4]),
    difficulty=3,
)
def interleave(xs: list[int], ys: list[int]) -> list[int]:
    shorter = min(len(xs), len(ys))
    result = [element for pair in zip(xs, ys, strict=False) for element in pair]
    return result + xs[shorter:] + ys[shorter:]


@problem(
    "returns the sorted distinct elements that xs and ys share",
    (([3, 1, 2, 3], [3, 2, 5]), [2, 3]),
    ([], [1]),
    ([1], [2]),
    ([1, 1], [1]),
)
def intersection(xs: list[int], ys: list[int]) -> list[int]:
    return sorted(set(xs) & set(ys))


@problem(
    "returns the sorted list of all elements of the sorted lists xs and ys",
    (([1, 4], [2, 3, 5]), [1, 2, 3, 4, 5]),
    ([], []),
    ([], [1]),
    ([1, 1], [1]),
    difficulty=2,
)
def merge_sorted(xs: list[int], ys: list[int]) -> list[int]:
    return sorted(xs + ys)


@problem(
    "returns the transpose of the matrix rows, whose rows have one length",
    (([[1, 2, 3], [4, 5, 6]],), [[1, 4], [2, 5], [3, 6]]),
    ([],),
    ([[7]],),
    ([[1], [2]],),
    difficulty=2,
)
def transpose(rows: list[list[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]


@problem(
    "returns the index of x in the sorted list xs of distinct numbers, or -1 if it is not there",
    (([1, 3, 5, 7], 5), 2),
    ([], 1),
    ([2], 2),
    ([1, 4, 9], 5),
    difficulty=3,
)
def binary_search(xs: list[int], x: int) -> int:
    low, high = 0, len(xs)
    while low < high:
        half = (low + high) // 2
        if xs[half] < x:
            low = half + 1
        else:
            high = half
    return low if low < len(xs) and xs[low] == x else -1


@problem(
    "returns the sorted indices of two numbers in xs that add up to target, first found from the left, or []",
    (([2, 7, 11, 15], 9), [0, 1]),
    ([], 0),
    ([3, 3], 6),
    ([1, 2, 3], 7),
    difficulty=3,
)
def two_sum(xs: list[int], target: int) -> list[int]:
    seen: dict[int, int] = {}
    for index, x in enumerate(xs):
        if target - x in seen:
            return [seen[target - x], index]
        seen.setdefault(x, index)
    return []


@problem(
    "returns xs with all zeros moved to the end, the rest in order",
    (([0, 1, 0, 3],), [1, 3, 0, 0]),
    ([],),
    ([0],),
    ([1, 2],),
    difficulty=2,
)
def zeros_last(xs: list[int]) -> list[int]:
    return sorted(xs, key=lambda x: x == 0)


@problem(
    "returns the largest sum of a non-empty run of neighbours in xs, which is not empty",
    (([-2, 1, -3, 4, -1, 2, 1, -5, 4],), 6),
    ([-3],),
    ([-2, -1],),
    ([1, 2, 3],),
    difficulty=4,
)
def best_run(xs: list[int]) -> int:
    best = current = xs[0]
    for x in xs[1:]:
        current = max(x, current + x)
        best = max(best, current)
    return best


@problem(
    "returns the sorted list of intervals [start, end] that the overlapping or touching ones in spans merge into",
    (([[1, 3], [8, 9], [2, 6]],), [[1, 6], [8, 9]]),
    ([],),
    ([[1, 4], [4, 5]],),
    ([[1, 9], [2, 3]],),
    difficulty=4,
)
def merge_intervals(spans: list[list[int]]) -> list[list[int]]:
    merged: list[list[int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


@problem(
    "returns the length of the longest strictly increasing subsequence of xs",
    (([10, 9, 2, 5, 3, 7, 101],), 4),
    ([],),
    ([7, 7],),
    ([1, 2, 3],),
    difficulty=5,
)
def longest_increasing(xs: list[int]) -> int:
    lengths: list[int] = []
    for index, x in enumerate(xs):
        lengths.append(1 + max((lengths[before] for before in range(index) if xs[before] < x), default=0))
    return max(lengths, default=0)
