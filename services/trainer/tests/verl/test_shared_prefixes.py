"""Rows that share what sequences begin with give the log-probs, entropies and gradients that a row for each gives."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

import verl.workers.engine.utils as engine_utils  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from verl.models.transformers.dense_common import forward_with_torch_backend  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead  # noqa: E402
from verl.workers.utils.padding import no_padding_2_padding  # noqa: E402

from ratchet_testing.llama import random_llama  # noqa: E402
from trainer_service.verl.passes import SHARED_ROWS, SHARED_WIDTH  # noqa: E402
from trainer_service.verl.rank.patches import padded_passes  # noqa: E402
from trainer_service.verl.rank.patches.cpu import shared_prefixes  # noqa: E402

from .tensors import nested  # noqa: E402

pytestmark = pytest.mark.verl

GROUPS = {3: [5, 2, 1, 4], 6: [3, 3], 1: [2, 4], 4: [7]}
"""Tokens of each prompt, and of its completions."""
VOCABULARY = 23
WIDTH = 16


def drawn() -> TensorDict:
    """Sequences of all groups, not in order; several begin as others do, and some are the same."""
    torch.manual_seed(0)
    rows = []
    for prompt, completions in GROUPS.items():
        start = torch.randint(VOCABULARY, (prompt,))
        own = [torch.randint(VOCABULARY, (length,)) for length in completions]
        rows += [(start, one) for one in own]
        rows += [(start, own[0]), (start, torch.cat([own[0][:2], own[-1]]))]
    rows = [rows[place] for place in torch.randperm(len(rows)).tolist()]
    fields = {
        "prompts": nested([prompt for prompt, _ in rows]),
        "responses": nested([response for _, response in rows]),
        "input_ids": nested([torch.cat(row) for row in rows]),
        "position_ids": nested([torch.arange(len(prompt) + len(response)) for prompt, response in rows]),
    }
    data = TensorDict(fields, batch_size=len(rows))
    tu.assign_non_tensor(
        data, use_remove_padding=False, use_fused_kernels=True, calculate_entropy=True, temperature=0.7
    )
    return data


class Policy:
    """A model with the engine's own way of making its inputs and reading its outputs; without FSDP."""

    def __init__(self) -> None:
        shape = {"hidden_size": WIDTH, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
        self.model = random_llama(1, vocab_size=VOCABULARY, tie_word_embeddings=False, **shape)
        self.engine = SimpleNamespace(pad_to_length=False)

    def learn(self, data: TensorDict, tokens: int) -> tuple["torch.Tensor", "torch.Tensor", list["torch.Tensor"], int]:
        """Log-probs and entropies of the responses, (rows, tokens), the gradients of a sum over both, and the tokens
        that went through the model, padding included."""
        tu.assign_non_tensor(data, max_token_len_per_gpu=tokens)
        passes, indices = engine_utils.prepare_micro_batches(data)
        self.model.zero_grad()
        found, computed = {}, 0
        for one, places in zip(passes, indices, strict=True):
            inputs, arguments = FSDPEngineWithLMHead.prepare_model_inputs(self.engine, one)
            computed += inputs["input_ids"].numel()
            output = forward_with_torch_backend(self.model, **inputs, use_cache=False)
            made = FSDPEngineWithLMHead.prepare_model_outputs(self.engine, output, arguments, one, None)
            of_pass = [no_padding_2_padding(made[name], one) for name in ("log_probs", "entropy")]
            weights = torch.arange(of_pass[0].shape[1]) + 1.0
            ((of_pass[0] + 0.3 * of_pass[1]) * weights).sum().backward()
            for row, place in enumerate(places):
                length = int(one["responses"].offsets().diff()[row])
                found[place] = [values[row, :length].detach() for values in of_pass]
        log_probs, entropies = ([found[place][part] for place in range(len(data))] for part in (0, 1))
        gradients = [parameter.grad.clone() for parameter in self.model.parameters()]
        return torch.cat(log_probs), torch.cat(entropies), gradients, computed


@pytest.fixture(scope="module", autouse=True)
def _patched() -> None:
    if FSDPEngineWithLMHead.prepare_model_inputs.__module__ != shared_prefixes.__name__:
        padded_passes.apply()
        shared_prefixes.apply()


@pytest.mark.parametrize("tokens", [1000, 25, 12])
def test_the_same_is_learned_from_fewer_tokens(tokens: int) -> None:
    policy, data = Policy(), drawn()
    log_probs, entropies, gradients, computed = policy.learn(data.copy(), 1000)
    tu.assign_non_tensor(data, **{SHARED_WIDTH: WIDTH})
    shared = policy.learn(data, tokens)
    assert torch.allclose(shared[0], log_probs, atol=1e-5)
    assert torch.allclose(shared[1], entropies, atol=1e-5)
    for own, of_rows in zip(shared[2], gradients, strict=True):
        assert torch.allclose(own, of_rows, atol=1e-4)
    assert shared[3] < computed


def test_a_completion_does_not_see_another() -> None:
    """Other tokens in the completion before it leave it as it was."""
    policy, data = Policy(), drawn()
    tu.assign_non_tensor(data, **{SHARED_WIDTH: WIDTH})
    before = policy.learn(data.copy(), 1000)[0]
    lengths = data["responses"].offsets().diff().tolist()
    changed = lengths.index(5)
    rows = list(data["input_ids"].unbind())
    rows[changed] = rows[changed].clone()  # another is the same
    rows[changed][-3:] = (rows[changed][-3:] + 1) % VOCABULARY
    data["input_ids"] = nested(rows)
    after = policy.learn(data, 1000)[0]
    differs = [
        not torch.allclose(a, b, atol=1e-6) for a, b in zip(before.split(lengths), after.split(lengths), strict=True)
    ]
    assert differs == [number == changed for number in range(len(lengths))]


@pytest.mark.parametrize("most", [1, 4, 9, 14])
def test_a_rank_makes_as_many_passes_as_the_one_with_the_most(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padded_passes, "_most", lambda own, dp_group: max(own, most))
    policy, data = Policy(), drawn()
    tu.assign_non_tensor(data, **{SHARED_WIDTH: WIDTH})
    alone = policy.learn(data.copy(), 1000)
    tu.assign_non_tensor(data, max_token_len_per_gpu=1000)
    some, _ = engine_utils.prepare_micro_batches(data)
    assert len(some) == most
    beside = policy.learn(data, 1000)
    assert torch.allclose(beside[0], alone[0], atol=1e-5)


def test_every_pass_has_room() -> None:
    tokens, data = [], drawn()
    tu.assign_non_tensor(data, **{SHARED_WIDTH: WIDTH}, max_token_len_per_gpu=14)
    some, groups = engine_utils.prepare_micro_batches(data)
    assert sorted(place for group in groups for place in group) == list(range(len(data)))
    for one in some:
        sizes = tu.get_non_tensor_data(one, SHARED_ROWS, default=())
        shared = shared_prefixes.Shared.of(one["input_ids"], one["prompts"], sizes)
        tokens.append(shared.input_ids.numel())
    assert max(tokens) <= 14
