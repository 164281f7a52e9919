"""Kept traffic as a data set: whose it is, and who is held out."""

from pathlib import Path

from ratchet_problems import pair_tables
from ratchet_problems.pairs import Pair
from ratchet_workflows.traffic import set_name, snapshot

from .kept_traffic import Kept, chat_pair, client

USERS = [f"user-{number}" for number in range(40)]


def pairs(kept: Kept, split: str, tmp_path: Path) -> list[Pair]:
    table = tmp_path / "table"
    table.write_bytes(kept.uploaded[split])
    return list(pair_tables.checked(table, split))


def test_a_users_pairs_are_all_on_one_side(tmp_path: Path) -> None:
    kept = Kept(*(chat_pair(user, better) for user in USERS for better in ("good", "better")))
    made = snapshot(client(kept), "traffic-starter", "starter")
    assert made is not None
    assert (made.dataset.card.pairs, made.dataset.card.source, made.left_out) == (True, "traffic", 0)
    sides = {split: [pair.origin.units[0] for pair in pairs(kept, split, tmp_path)] for split in kept.uploaded}
    assert sides.keys() == {"train", "validation"}
    assert not set(sides["train"]) & set(sides["validation"])
    assert len(sides["train"]) + len(sides["validation"]) == 2 * len(USERS)
    assert 0 < len(set(sides["validation"])) < len(USERS) / 4
    assert kept.asked == [("starter", "", None)]


def test_a_pair_says_whose_it_is_and_comes_after_older_ones(tmp_path: Path) -> None:
    kept = Kept(chat_pair("user-1", "new"), chat_pair("user-1", "old"))
    snapshot(client(kept), "traffic")
    first, second = pairs(kept, "train", tmp_path)
    assert (first.chosen, first.id, second.id) == ("old", "cmpl_user-1/1", "cmpl_user-1/2")
    assert (first.origin.exchanges, first.origin.units) == (("cmpl_user-1",), ("user-1", "key"))


def test_what_nothing_can_be_learned_from_is_left_out() -> None:
    held_out, taught = next(
        (one, other)
        for one in USERS
        for other in USERS
        for both in [Kept(chat_pair(one), chat_pair(other))]
        if snapshot(client(both), "traffic") and list(both.uploaded) == ["train", "validation"]
    )
    kept = Kept(chat_pair(taught, ""), chat_pair(taught, "good", held_out), chat_pair(taught))
    made = snapshot(client(kept), "traffic")
    assert made is not None
    assert made.left_out == 2
    assert snapshot(client(Kept()), "traffic") is None
    assert (set_name(""), set_name("starter")) == ("traffic", "traffic-starter")
