"""Basic problems about strings."""

from ratchet_problems.basics.collection import Collection

collection = Collection("strings")
problem = collection.problem


@problem("returns s reversed", (("abc",), "cba"), ("",), ("a",), ("Hello there",))
def reverse(s: str) -> str:
    return s[::-1]


@problem("returns whether s reads the same backwards", (("level",), True), ("",), ("ab",), ("abba",), ("Aa",))
def is_palindrome(s: str) -> bool:
    return s == s[::-1]


@problem("returns the number of vowels (aeiou, in either case) in s", (("Education",), 5), ("",), ("xyz",), ("AEIOU",))
def count_vowels(s: str) -> int:
    return sum(character in "aeiou" for character in s.lower())


@problem("returns s without its vowels (aeiou, in either case)", (("Education",), "dctn"), ("",), ("xyz",), ("AEIOU",))
def remove_vowels(s: str) -> str:
    return "".join(character for character in s if character.lower() not in "aeiou")


@problem(
    "returns the number of words in s, separated by white space", (("to be  or not",), 4), ("",), ("  ",), ("one",)
)
def count_words(s: str) -> int:
    return len(s.split())


@problem(
    "returns the words of s in reverse order, joined by one space", (("to be or",), "or be to"), ("",), (" a  b ",)
)
def reverse_words(s: str) -> str:
    return " ".join(reversed(s.split()))


@problem(
    "returns the first of the longest words of s, or '' if there are none",
    (("a bee saw you",), "bee"),
    ("",),
    ("x",),
    difficulty=2,
)
def longest_word(s: str) -> str:
    return max(s.split(), key=len, default="")


@problem(
    "returns s with the first letter of each space-separated word in upper case and the rest unchanged",
    (("two mcDonalds",), "Two McDonalds"),
    ("",),
    ("a",),
    ("x  y",),
    difficulty=2,
)
def capitalize_words(s: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in s.split(" "))


@problem(
    "returns the first letters of the words of s, in upper case",
    (("light in action",), "LIA"),
    ("",),
    ("one",),
    (" a  b",),
)
def acronym(s: str) -> str:
    return "".join(word[0].upper() for word in s.split())


@problem(
    "returns whether a and b have the same letters the same number of times",
    (("listen", "silent"), True),
    ("", ""),
    ("a", "aa"),
    ("ab", "cd"),
    difficulty=2,
)
def are_anagrams(a: str, b: str) -> bool:
    return sorted(a) == sorted(b)


@problem(
    "returns whether every letter from a to z occurs in s, in either case",
    (("The quick brown fox jumps over the lazy dog",), True),
    ("",),
    ("abc",),
    ("Sphinx of black quartz judge my vow",),
    difficulty=2,
)
def is_pangram(s: str) -> bool:
    return set("abcdefghijklmnopqrstuvwxyz") <= set(s.lower())


@problem(
    "returns s with each run of one character replaced by the character and the run's length",
    (("aaab",), "a3b1"),
    ("",),
    ("x",),
    ("aabbaa",),
    difficulty=3,
)
def run_length_encode(s: str) -> str:
    parts: list[str] = []
    start = 0
    for end in range(1, len(s) + 1):
        if end == len(s) or s[end] != s[start]:
            parts.append(f"{s[start]}{end - start}")
            start = end
    return "".join(parts)


@problem(
    "returns the text that s encodes: characters, each followed by its one-digit count",
    (("a3b1",), "aaab"),
    ("",),
    ("x2",),
    ("a1b2c3",),
    difficulty=3,
)
def run_length_decode(s: str) -> str:
    return "".join(s[index] * int(s[index + 1]) for index in range(0, len(s), 2))


@problem(
    "returns s with each letter moved k places on in the alphabet, around its end, keeping case and all else",
    (("xyz Abc", 3), "abc Def"),
    ("", 5),
    ("Hi!", 0),
    ("zZ", 1),
    difficulty=3,
)
def caesar(s: str, k: int) -> str:
    result = ""
    for character in s:
        if character.isascii() and character.isalpha():
            base = ord("a") if character.islower() else ord("A")
            character = chr((ord(character) - base + k) % 26 + base)
        result += character
    return result


@problem(
    "returns the characters of s without repetitions, in order of first appearance",
    (("banana",), "ban"),
    ("",),
    ("aaa",),
    ("abc",),
    difficulty=2,
)
def unique_characters(s: str) -> str:
    return "".join(dict.fromkeys(s))


@problem(
    "returns the first character that occurs once in s, or '' if there is none",
    (("swiss",), "w"),
    ("",),
    ("aabb",),
    ("z",),
    difficulty=2,
)
def first_unique(s: str) -> str:
    return next((character for character in s if s.count(character) == 1), "")


@problem(
    "returns the longest common beginning of a and b",
    (("flower", "flow"), "flow"),
    ("", "x"),
    ("dog", "car"),
    ("same", "same"),
    difficulty=2,
)
def common_prefix(a: str, b: str) -> str:
    length = 0
    while length < min(len(a), len(b)) and a[length] == b[length]:
        length += 1
    return a[:length]


@problem(
    "returns whether the brackets ()[]{} in s, which holds nothing else, close in the right order",
    (("([]{})",), True),
    ("",),
    ("(",),
    ("(]",),
    ("}{",),
    ("([)]",),
    difficulty=3,
)
def is_balanced(s: str) -> bool:
    closes = {")": "(", "]": "[", "}": "{"}
    stack: list[str] = []
    for bracket in s:
        if bracket not in closes:
            stack.append(bracket)
        elif not stack or stack.pop() != closes[bracket]:
            return False
    return not stack


@problem(
    "returns how often part occurs in s, overlaps counted; part is not empty",
    (("aaa", "aa"), 2),
    ("", "a"),
    ("abcabc", "bc"),
    ("x", "xx"),
    difficulty=2,
)
def count_overlapping(s: str, part: str) -> int:
    return sum(s.startswith(part, index) for index in range(len(s)))


@problem(
    "returns s cut into pieces of k characters; the last may be shorter",
    (("abcde", 2), ["ab", "cd", "e"]),
    ("", 3),
    ("abc", 5),
    ("abcd", 2),
    difficulty=2,
)
def chunk_text(s: str, k: int) -> list[str]:
    return [s[index : index + k] for index in range(0, len(s), k)]


@problem(
    "returns the name s, in camelCase, in snake_case",
    (("myVariableName",), "my_variable_name"),
    ("",),
    ("word",),
    ("aBC",),
    difficulty=3,
)
def camel_to_snake(s: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in s)


@problem(
    "returns the name s, in snake_case, in camelCase",
    (("my_variable_name",), "myVariableName"),
    ("",),
    ("word",),
    ("a_b_c",),
    difficulty=3,
)
def snake_to_camel(s: str) -> str:
    first, *rest = s.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


@problem(
    "returns the number of places where a and b, of one length, differ",
    (("karolin", "kathrin"), 3),
    ("", ""),
    ("a", "a"),
    ("ab", "ba"),
)
def hamming_distance(a: str, b: str) -> int:
    return sum(x != y for x, y in zip(a, b, strict=True))


@problem(
    "returns the length of the longest part of s without a repeated character",
    (("abcabcbb",), 3),
    ("",),
    ("bbbb",),
    ("pwwkew",),
    difficulty=4,
)
def longest_distinct_run(s: str) -> int:
    start, best = 0, 0
    seen: dict[str, int] = {}
    for end, character in enumerate(s):
        start = max(start, seen.get(character, -1) + 1)
        seen[character] = end
        best = max(best, end - start + 1)
    return best


@problem(
    "returns the fewest insertions, deletions and replacements of a character that turn a into b",
    (("kitten", "sitting"), 3),
    ("", "abc"),
    ("same", "same"),
    ("ab", "ba"),
    difficulty=5,
)
def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]
