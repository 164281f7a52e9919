from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ratchet_kit.errors import InvalidArgument
from ratchet_kit.pages import Page, decode_token, encode_token, fetch_page, page_size

positions = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner), max_leaves=5)


@given(positions)
def test_a_token_gives_its_position_back(position):
    assert decode_token(encode_token(position)) == position


def test_the_empty_token_is_the_first_page():
    assert decode_token("") is None


DEEP = b64encode(b"[" * 3000).decode()


@pytest.mark.parametrize("token", ["x", "!!!!", "é", "bm90IGpzb24", "/w", DEEP])
def test_a_foreign_token_is_refused(token):
    with pytest.raises(InvalidArgument) as raised:
        decode_token(token)
    assert [violation.field for violation in raised.value.violations] == ["page_token"]


@pytest.mark.parametrize(("asked", "size"), [(0, 50), (1, 1), (1000, 1000), (5000, 1000)])
def test_page_size(asked, size):
    assert page_size(asked) == size


def test_a_negative_page_size_is_refused():
    with pytest.raises(InvalidArgument, match="page_size"):
        page_size(-1)


async def numbers(limit: int, after: int | None) -> list[int]:
    start = 0 if after is None else after + 1
    return list(range(start, 10))[:limit]


@pytest.mark.parametrize("size", [1, 3, 5, 9, 10, 11])
async def test_fetch_page_gives_every_item_once(size):
    seen, token = [], ""
    while True:
        page = await fetch_page(numbers, lambda number: number, int, size, token)
        assert len(page.items) <= size
        seen += page.items
        token = page.next_page_token
        if not token:
            break
    assert seen == list(range(10))


@pytest.mark.parametrize("position", ["name", True, 1.5, [1], {"a": 1}, 1 << 63, -(10**30)])
async def test_fetch_page_refuses_the_token_of_another_list(position):
    with pytest.raises(InvalidArgument):
        await fetch_page(numbers, lambda number: number, int, 3, encode_token(position))


@pytest.mark.parametrize(
    "position", ["name", [], ["a"], ["a", True], ["a", "1"], ["a", 1, 2], {"a": 1}, ["\x00", 1], ["\ud800", 1]]
)
async def test_of_a_key_with_parts_each_is_looked_at(position):
    async def rows(limit: int, after: list | None) -> list[list]:
        return [["a", 0], ["a", 1], ["b", 0]][0 if after is None else 1 :][:limit]

    first = await fetch_page(rows, lambda row: row, (str, int), 1, "")
    assert (await fetch_page(rows, lambda row: row, (str, int), 1, first.next_page_token)).items == [["a", 1]]
    with pytest.raises(InvalidArgument):
        await fetch_page(rows, lambda row: row, (str, int), 1, encode_token(position))


def test_map():
    assert Page([1, 2], "t").map(str) == Page(["1", "2"], "t")


def test_an_item_that_cannot_be_converted_hides_no_other():
    assert Page(["1", "poison", "3"], "t").map(int) == Page([1, 3], "t")
