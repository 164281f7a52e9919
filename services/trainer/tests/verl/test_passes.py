import pytest

from trainer_service.verl.passes import Tree, packed, parted, passes, trees


def test_like_lengths_go_together_and_no_pass_is_over_its_tokens() -> None:
    lengths = [10, 200, 30, 190, 12, 11, 100]
    groups = passes(lengths, 400)
    assert sorted(index for group in groups for index in group) == list(range(len(lengths)))
    assert groups[0] == [1, 3]
    assert all(len(group) * max(lengths[index] for index in group) <= 400 for group in groups)


def test_a_sequence_that_is_too_long_is_alone() -> None:
    assert passes([500, 20], 400) == [[0], [1]]


@pytest.mark.parametrize(("at_least", "made"), [(1, 1), (2, 2), (3, 3), (4, 4), (9, 4)])
def test_every_rank_makes_as_many_passes_as_the_one_with_the_most(at_least: int, made: int) -> None:
    groups = passes([5, 5, 5, 5], 100, at_least)
    assert len(groups) == made
    assert sorted(index for group in groups for index in group) == [0, 1, 2, 3]
    assert all(groups)


def test_several_share_a_row_in_the_place_of_padding() -> None:
    assert packed([40, 100, 60, 55, 45, 30], 200) == [[[1], [2, 0]], [[3], [4], [5]]]
    assert packed([40, 100, 60, 55, 45, 30], 300) == [[[1], [2, 0], [3, 4]], [[5]]]
    assert packed([500, 20], 400) == [[[0]], [[1]]], "too long: alone"


@pytest.mark.parametrize("tokens", [100, 250, 4000])
@pytest.mark.parametrize("at_least", [1, 3, 7, 100])
def test_all_are_packed_and_no_pass_is_over_its_tokens(tokens: int, at_least: int) -> None:
    lengths = [(37 * number) % 100 + 1 for number in range(40)]
    made = packed(lengths, tokens, at_least)
    assert sorted(index for rows in made for row in rows for index in row) == list(range(40))
    assert len(made) >= min(at_least, 40)
    assert all(row for rows in made for row in rows)
    for rows in made:
        widths = [sum(lengths[index] for index in row) for row in rows]
        assert max(widths) * len(rows) <= tokens
        assert at_least > 1 or max(widths) == max(lengths[index] for row in rows for index in row)


def test_what_completions_begin_with_is_there_once() -> None:
    tree = Tree()
    assert tree.add([7, 8, 9]) == ([0, 1, 2], 0)
    assert tree.lacks([7, 8, 5, 6]) == 2
    assert tree.add([7, 8, 5, 6]) == ([0, 1, 3, 4], 2), "the token before 5 is there once more"
    assert tree.add([7, 8, 9]) == ([0, 1, 2], 3), "the same once more"
    assert tree.add([8]) == ([5], 0)
    assert len(tree) == 6


def test_completions_of_a_prompt_share_a_tree_that_has_room() -> None:
    prompts = ["a", "b", "a", "a", "b", "a", "a"]
    completions = [[number] * 5 for number in range(6)] + [[3, 3, 3]]
    groups = trees(prompts, [10] * 7, completions, tokens=25, width=1000)
    assert groups == [[0, 2, 3], [1, 4], [5, 6]]
    completions[6] = [5, 5, 5]
    assert trees(prompts, [10] * 7, completions, tokens=10 + 15, width=1000)[-1] == [5, 6]
    assert trees(["a"] * 3, [10] * 3, [[1, 2, 3, 4, 5, 6]] * 3, tokens=16, width=1000) == [[0, 1, 2]]


def test_completions_that_cost_more_together_do_not_share() -> None:
    """Long completions of a short prompt: attention between them is more than the prompt is worth."""
    one, other = [0] * 500, [1] * 500
    assert trees(["a", "a"], [10, 10], [one, other], tokens=10_000, width=64) == [[0], [1]]
    assert trees(["a", "a"], [300, 300], [one, other], tokens=10_000, width=576) == [[0, 1]]
    assert trees(["a", "a"], [10, 10], [one, [0] * 490 + [1] * 10], tokens=10_000, width=64) == [[0, 1]]


def test_groups_are_parted_until_each_rank_has_as_many() -> None:
    assert parted([[0, 1, 2, 3], [4]], 3) == [[0, 1], [2, 3], [4]]
    assert parted([[0, 1], [2]], 2) == [[0, 1], [2]]
    assert parted([[0], [1]], 5) == [[0], [1]]
