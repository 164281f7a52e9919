"""Rows of a batch are taken as verl takes them."""

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import NonTensorStack, TensorDict  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402

from trainer_service.verl.rank.patches.padded_passes import rows_at  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

LENGTHS = [3, 5, 2, 4, 6]


@pytest.mark.parametrize("places", [[4, 0, 3], [2], [0, 1, 2, 3, 4], [1, 1]])
def test_as_verl_takes_them(places: list[int]) -> None:
    fields = {
        "tokens": nested([torch.arange(length) + 10 * row for row, length in enumerate(LENGTHS)]),
        "log_probs": nested([torch.rand(length) for length in LENGTHS]),
        "states": nested([torch.rand(length, 2) for length in LENGTHS]),
        "weights": torch.rand(len(LENGTHS)),
        "uid": NonTensorStack(*"abcde"),
    }
    data = TensorDict(fields, batch_size=len(LENGTHS))
    tu.assign_non_tensor(data, temperature=0.7)
    own, of_verl = rows_at(data, places), tu.index_select_tensor_dict(data, places)
    assert set(own.keys()) == set(of_verl.keys())
    for name in ("tokens", "log_probs", "states"):
        assert [row.tolist() for row in own[name].unbind()] == [row.tolist() for row in of_verl[name].unbind()]
        assert own[name].to_padded_tensor(-1).shape == of_verl[name].to_padded_tensor(-1).shape
    assert own["weights"].tolist() == of_verl["weights"].tolist()
    assert list(own["uid"]) == ["abcde"[place] for place in places]
    assert own["temperature"] == 0.7
