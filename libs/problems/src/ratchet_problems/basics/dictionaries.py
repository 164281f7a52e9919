"""Basic problems about dictionaries."""

from ratchet_problems.basics.collection import Collection

collection = Collection("dictionaries")
problem = collection.problem


@problem(
    "returns the value of key in d, or default if d has no such key",
    (({"a": 1}, "a", 0), 1),
    ({}, "a", 7),
    ({"a": 1}, "b", -1),
)
def lookup(d: dict[str, int], key: str, default: int) -> int:
    return d.get(key, default)


@problem("returns the sum of the values of d", (({"a": 1, "b": 5},), 6), ({},), ({"x": -2},))
def sum_values(d: dict[str, int]) -> int:
    return sum(d.values())


@problem("returns the sorted list of the keys of d", (({"b": 1, "a": 2},), ["a", "b"]), ({},), ({"z": 0},))
def sorted_keys(d: dict[str, int]) -> list[str]:
    return sorted(d)


@problem(
    "returns the alphabetically first key with the largest value in d, or '' if d is empty",
    (({"b": 3, "a": 3, "c": 1},), "a"),
    ({},),
    ({"x": -1},),
    difficulty=2,
)
def best_key(d: dict[str, int]) -> str:
    return min(d, key=lambda key: (-d[key], key), default="")


@problem(
    "returns a dictionary from the values of d to their keys; the values are distinct",
    (({"a": 1, "b": 2},), {1: "a", 2: "b"}),
    ({},),
    ({"x": 0},),
)
def invert(d: dict[str, int]) -> dict[int, str]:
    return {value: key for key, value in d.items()}


@problem(
    "returns a dictionary from each value of d to the sorted list of its keys",
    (({"a": 1, "b": 2, "c": 1},), {1: ["a", "c"], 2: ["b"]}),
    ({},),
    ({"x": 0},),
    difficulty=3,
)
def invert_all(d: dict[str, int]) -> dict[int, list[str]]:
    result: dict[int, list[str]] = {}
    for key in sorted(d):
        result.setdefault(d[key], []).append(key)
    return result


@problem(
    "returns a dictionary of how often each character occurs in s",
    (("abca",), {"a": 2, "b": 1, "c": 1}),
    ("",),
    ("zz",),
)
def count_characters(s: str) -> dict[str, int]:
    return {character: s.count(character) for character in s}


@problem(
    "returns a dictionary of how often each word occurs in s, in lower case",
    (("To be or to do",), {"to": 2, "be": 1, "or": 1, "do": 1}),
    ("",),
    ("x X",),
    difficulty=2,
)
def count_words_in(s: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in s.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


@problem(
    "returns a dictionary with all entries of a and b; b wins where both have a key",
    (({"x": 1, "y": 2}, {"y": 5}), {"x": 1, "y": 5}),
    ({}, {}),
    ({}, {"a": 1}),
)
def merge(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {**a, **b}


@problem(
    "returns a dictionary of the sums of the values of a and b by key",
    (({"x": 1, "y": 2}, {"y": 5}), {"x": 1, "y": 7}),
    ({}, {}),
    ({}, {"a": 1}),
    difficulty=2,
)
def add_dictionaries(a: dict[str, int], b: dict[str, int]) -> dict[str, int]:
    return {key: a.get(key, 0) + b.get(key, 0) for key in [*a, *b]}


@problem(
    "returns the entries of d whose value is at least limit",
    (({"a": 1, "b": 5}, 2), {"b": 5}),
    ({}, 0),
    ({"x": 3}, 3),
    ({"x": 3}, 4),
)
def at_least(d: dict[str, int], limit: int) -> dict[str, int]:
    return {key: value for key, value in d.items() if value >= limit}


@problem(
    "returns the entries of d whose key is in keys",
    (({"a": 1, "b": 2}, ["b", "c"]), {"b": 2}),
    ({}, ["a"]),
    ({"a": 1}, []),
)
def pick(d: dict[str, int], keys: list[str]) -> dict[str, int]:
    return {key: value for key, value in d.items() if key in keys}


@problem(
    "returns the entries of d whose key is not in keys",
    (({"a": 1, "b": 2}, ["b", "c"]), {"a": 1}),
    ({}, ["a"]),
    ({"a": 1}, []),
)
def omit(d: dict[str, int], keys: list[str]) -> dict[str, int]:
    return {key: value for key, value in d.items() if key not in keys}


@problem("returns d with every value doubled", (({"a": 1, "b": -2},), {"a": 2, "b": -4}), ({},), ({"x": 0},))
def double_values(d: dict[str, int]) -> dict[str, int]:
    return {key: 2 * value for key, value in d.items()}


@problem(
    "returns a dictionary from the elements of keys to those of values, pair by pair, as far as both go",
    ((["a", "b"], [1, 2]), {"a": 1, "b": 2}),
    ([], []),
    (["a"], [1, 2]),
)
def pair_up(keys: list[str], values: list[int]) -> dict[str, int]:
    return dict(zip(keys, values, strict=False))


@problem(
    "returns a dictionary from first letter to the list of words with it, in order; no word is empty",
    ((["ant", "bee", "ape"],), {"a": ["ant", "ape"], "b": ["bee"]}),
    ([],),
    (["x"],),
    difficulty=2,
)
def group_by_initial(words: list[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for word in words:
        groups.setdefault(word[0], []).append(word)
    return groups


@problem(
    "returns a dictionary from length to the number of words with it",
    ((["a", "bb", "c"],), {1: 2, 2: 1}),
    ([],),
    (["", "x"],),
    difficulty=2,
)
def length_histogram(words: list[str]) -> dict[int, int]:
    lengths = [len(word) for word in words]
    return {length: lengths.count(length) for length in lengths}


@problem(
    "returns the smallest of the most frequent numbers in xs, which is not empty",
    (([3, 1, 3, 1, 2],), 1),
    ([5],),
    ([2, 2, 9],),
    ([4, 3],),
    difficulty=3,
)
def mode(xs: list[int]) -> int:
    return min(xs, key=lambda x: (-xs.count(x), x))


@problem(
    "returns the k most frequent words, ties in alphabetical order",
    ((["b", "a", "b", "c"], 2), ["b", "a"]),
    ([], 3),
    (["x", "y"], 1),
    (["x"], 0),
    difficulty=3,
)
def most_frequent(words: list[str], k: int) -> list[str]:
    return sorted(set(words), key=lambda word: (-words.count(word), word))[:k]


@problem(
    "returns whether a and b have the same keys",
    (({"x": 1}, {"x": 2}), True),
    ({}, {}),
    ({"x": 1}, {"y": 1}),
    ({"x": 1}, {}),
)
def same_keys(a: dict[str, int], b: dict[str, int]) -> bool:
    return a.keys() == b.keys()


@problem(
    "returns the sorted list of [key, value] pairs of d, smallest value first, ties by key",
    (({"a": 2, "b": 1},), [["b", 1], ["a", 2]]),
    ({},),
    ({"y": 1, "x": 1},),
    difficulty=2,
)
def by_value(d: dict[str, int]) -> list[list[str | int]]:
    return [[key, d[key]] for key in sorted(d, key=lambda key: (d[key], key))]


@problem(
    "returns the total price of a cart of item counts; items without a price are free",
    (({"tea": 2, "cup": 1}, {"tea": 3, "cup": 5}), 11),
    ({}, {}),
    ({"x": 4}, {}),
    difficulty=2,
)
def cart_total(cart: dict[str, int], prices: dict[str, int]) -> int:
    return sum(count * prices.get(item, 0) for item, count in cart.items())


@problem(
    "returns d, whose values may be dictionaries in turn, as one dictionary whose keys are paths joined by dots",
    (({"a": {"b": 1}, "c": 2},), {"a.b": 1, "c": 2}),
    ({},),
    ({"x": {"y": {"z": 3}}},),
    difficulty=4,
)
def flatten_dictionary(d: dict[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in d.items():
        if isinstance(value, dict):
            result.update({f"{key}.{rest}": leaf for rest, leaf in flatten_dictionary(value).items()})
        else:
            result[key] = value
    return result


@problem(
    "returns the tasks in an order that puts those in needs[task] first, of ready ones always the"
    " alphabetically first, or [] if there is a cycle",
    (({"b": ["a"], "a": [], "c": ["a"]},), ["a", "b", "c"]),
    ({},),
    ({"x": ["y"], "y": ["x"]},),
    ({"m": ["n"], "n": ["p"], "p": []},),
    difficulty=5,
)
def task_order(needs: dict[str, list[str]]) -> list[str]:
    order: list[str] = []
    while len(order) < len(needs):
        ready = [task for task in needs if task not in order and all(need in order for need in needs[task])]
        if not ready:
            return []
        order.append(min(ready))
    return order


@problem(
    "returns the number of steps from start to goal in graph, a dictionary from node to neighbours,"
    " by the shortest way, or -1 if there is none",
    (({"a": ["b"], "b": ["c"], "c": []}, "a", "c"), 2),
    ({"a": []}, "a", "a"),
    ({"a": [], "b": []}, "a", "b"),
    ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, "a", "d"),
    difficulty=5,
)
def shortest_path(graph: dict[str, list[str]], start: str, goal: str) -> int:
    reached, frontier, steps = {start}, [start], 0
    while frontier:
        if goal in frontier:
            return steps
        frontier = sorted({neighbour for node in frontier for neighbour in graph[node]} - reached)
        reached.update(frontier)
        steps += 1
    return -1
