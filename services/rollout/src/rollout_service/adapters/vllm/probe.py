"""Checks that a model computes with the weights that it was sent, whatever its kernels made of them.

A kernel may keep a private, repacked copy of a weight, and a reload may miss that copy. vLLM on CPU does this with an
output layer that is tied to the embedding: it then generates with the old one, without an error. Comparing parameters
does not show this. So the probe sends inputs through the model's layers and compares the results with what the sent
weights give:

- one-hot inputs read single columns of a weight matrix back through the kernel. A product with 1 and sums with 0 are
  exact in every float type, so the smallest change of those columns shows;
- random signs mix all columns, so a change anywhere shows once it is larger than the type's rounding.

Covered are embeddings, the output layer, every linear layer (of evenly spread decoder layers in a deep model; fused
ones by `packed_modules_mapping`, tensor-parallel ones by their shard), and what is used as it is, such as norms.

What the sent weights give can be computed before the model has them (`expect`): generation need not pause for it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    LinearBase,
    QKVParallelLinear,
    RowParallelLinear,
)
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead, VocabParallelEmbedding

from rollout_service.adapters.engines.sent_weights import Read

ONE_HOTS = 8
SIGNS = 4
LAYERS_AT_MOST = 8
LOOKUPS = 64

EXACT_TOLERANCE = {torch.float32: 1e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}
"""For one-hot inputs and looked-up values: one rounding, in the sum with a bias."""
MIXED_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 5e-3}
"""For random signs: sums over the hidden width, rounded to the type."""

_LAYER = re.compile(r"\.(?:layers|h|blocks)\.(\d+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Probe:
    """One comparison. Errors are relative to the largest magnitude expected."""

    name: str
    error: float
    tolerance: float

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance  # a NaN does not pass


@dataclass(frozen=True, slots=True)
class Report:
    probes: tuple[Probe, ...]
    skipped: tuple[str, ...]
    """Modules with weights that could not be probed, since their names are not known from the checkpoint."""

    @property
    def error(self) -> float:
        return max(probe.error for probe in self.probes)

    @property
    def failures(self) -> tuple[Probe, ...]:
        return tuple(probe for probe in self.probes if not probe.passed)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What one module is to give."""

    name: str
    compute: Callable[[], Tensor | None]
    """Sends inputs through the module; None on a tensor-parallel rank that has no result."""
    expected: Tensor
    dtype: torch.dtype
    one_hots: int | None = None
    """So many of the rows are of one-hot inputs, the others of random signs. None: values that are looked up."""

    def probes(self) -> list[Probe]:
        computed = self.compute()
        if computed is None:
            return []
        if self.one_hots is None:
            return [_compare(self.name, computed, self.expected, EXACT_TOLERANCE[self.dtype])]
        return _compare_both(self.name, computed, self.expected, self.one_hots, self.dtype)


def probe_model(model: nn.Module, read: Read) -> Report:
    """Sends inputs through `model` and compares with the weights that `read` gives.

    On tensor-parallel workers all ranks must call it at the same time, since layers exchange partial results.
    """
    return check(dict(expect(model, read)))


def expect(model: nn.Module, read: Read) -> Iterator[tuple[str, list[Expectation] | None]]:
    """What each module is to give with the weights that `read` gives; None where their names are not known. The model's
    own weights are not used."""
    embedding = next(_modules(model, VocabParallelEmbedding), None)
    for name, module in _chosen(model):
        with torch.no_grad():
            if isinstance(module, VocabParallelEmbedding):  # also the output layer, which derives from it
                sent = read(f"{name}.weight")
                if sent is None and isinstance(module, ParallelLMHead) and embedding is not None:
                    sent = read(f"{embedding}.weight")  # tied
                found = None if sent is None else [_expect_vocabulary(model, name, module, sent)]
            elif isinstance(module, LinearBase):
                found = _expect_linear(model, name, module, read)
            else:
                found = _expect_parameters(name, module, read)
        yield name, found


def check(expected: Mapping[str, list[Expectation] | None]) -> Report:
    """Whether the model gives what it is to give. As `probe_model`, on all ranks at the same time."""
    with torch.no_grad():
        probes = [probe for found in expected.values() for one in found or () for probe in one.probes()]
    return Report(tuple(probes), tuple(name for name, found in expected.items() if found is None))


def _expect_vocabulary(model: nn.Module, name: str, module: VocabParallelEmbedding, sent: Tensor) -> Expectation:
    dtype, device = module.weight.dtype, module.weight.device
    if not isinstance(module, ParallelLMHead):
        ids = torch.linspace(0, sent.shape[0] - 1, LOOKUPS).long()
        rows = sent[ids].to(device=device, dtype=dtype)
        return Expectation(name, lambda: module(ids.to(device)), rows, dtype)
    sent = sent.to(device=device, dtype=dtype)
    inputs, one_hots = _inputs(sent.shape[1], dtype, device)
    expected = inputs.float() @ sent.float().T
    processor = getattr(model, "logits_processor", None)
    cap, scale = getattr(processor, "soft_cap", None), getattr(processor, "scale", 1.0)
    if cap is not None:
        expected = torch.tanh(expected / cap) * cap

    def logits() -> Tensor | None:
        computed = model.compute_logits(inputs)
        return None if computed is None else computed[:, : expected.shape[1]]  # tensor-parallel: only on the first rank

    return Expectation(name, logits, expected * scale, dtype, one_hots)


def _expect_linear(model: nn.Module, name: str, module: LinearBase, read: Read) -> list[Expectation] | None:
    weight = _sent_weight(model, name, module, read, "weight")
    dtype = module.params_dtype
    if weight is None or dtype not in EXACT_TOLERANCE or module.quant_config is not None:
        return None
    device = next(module.parameters()).device
    weight = weight.to(device=device, dtype=dtype)
    bias = _sent_weight(model, name, module, read, "bias")
    inputs, one_hots = _inputs(weight.shape[1], dtype, device)
    expected = inputs.float() @ weight.float().T
    if bias is not None and not module.skip_bias_add:
        expected = expected + bias.to(device=device, dtype=dtype).float()
    if isinstance(module, RowParallelLinear) and module.input_is_parallel:
        width = module.input_size_per_partition
        inputs = inputs[:, module.tp_rank * width : (module.tp_rank + 1) * width].contiguous()

    def outputs() -> Tensor:
        result = module(inputs)
        computed: Tensor = result[0] if isinstance(result, tuple) else result
        return computed

    return [Expectation(name, outputs, expected, dtype, one_hots)]


def _sent_weight(model: nn.Module, name: str, module: LinearBase, read: Read, kind: str) -> Tensor | None:
    """What this rank's linear layer was sent: fused parts one after another, rows cut to its shard."""
    parent, _, leaf = name.rpartition(".")
    fused: dict[str, list[str]] = getattr(model, "packed_modules_mapping", {})
    parts = [read(f"{parent}.{part}.{kind}") for part in fused.get(leaf, [leaf])]
    if len(parts) > 1 and all(part is None for part in parts):
        parts = [read(f"{name}.{kind}")]  # the checkpoint holds it fused already
        if module.tp_size > 1:
            return None
    whole = [part for part in parts if part is not None]
    if len(whole) != len(parts):
        return None
    if isinstance(module, ColumnParallelLinear) and not module.gather_output and module.tp_size > 1:
        whole = [_rows(module, index, part) for index, part in enumerate(whole)]
    return torch.cat(whole)


def _rows(module: ColumnParallelLinear, index: int, part: Tensor) -> Tensor:
    replicas = module.num_kv_head_replicas if isinstance(module, QKVParallelLinear) and index > 0 else 1
    height = part.shape[0] * replicas // module.tp_size
    rank = module.tp_rank // replicas
    return part[rank * height : (rank + 1) * height]


def _expect_parameters(name: str, module: nn.Module, read: Read) -> list[Expectation] | None:
    """Parameters that are used as they are: norms, scales."""
    found = []
    for leaf, parameter in module.named_parameters(recurse=False):
        sent = read(f"{name}.{leaf}")
        if sent is None or sent.shape != parameter.shape or parameter.dtype not in EXACT_TOLERANCE:
            return None
        sent = sent.to(device=parameter.device, dtype=parameter.dtype)
        found.append(Expectation(f"{name}.{leaf}", partial(module.get_parameter, leaf), sent, parameter.dtype))
    return found


def _inputs(width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, int]:
    """One-hot rows, then rows of random signs; the same on every rank. Returns them and how many are one-hot."""
    generator = torch.Generator().manual_seed(width)
    columns = torch.randperm(width, generator=generator)[:ONE_HOTS]
    one_hots = torch.nn.functional.one_hot(columns, width)
    signs = torch.randint(0, 2, (SIGNS, width), generator=generator) * 2 - 1
    return torch.cat([one_hots, signs]).to(device=device, dtype=dtype), len(columns)


def _compare_both(name: str, computed: Tensor, expected: Tensor, one_hots: int, dtype: torch.dtype) -> list[Probe]:
    return [
        _compare(f"{name} (columns)", computed[:one_hots], expected[:one_hots], EXACT_TOLERANCE[dtype]),
        _compare(f"{name} (mixed)", computed[one_hots:], expected[one_hots:], MIXED_TOLERANCE[dtype]),
    ]


def _compare(name: str, computed: Tensor, expected: Tensor, tolerance: float) -> Probe:
    computed, expected = computed.float(), expected.float()
    scale = expected.abs().max().clamp_min(torch.finfo(torch.float32).tiny)
    return Probe(name, float((computed - expected).abs().max() / scale), tolerance)


def _modules(model: nn.Module, kind: type[nn.Module]) -> Iterator[str]:
    return (name for name, module in model.named_modules() if isinstance(module, kind))


def _chosen(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules with parameters of their own, of all layers or, in a deep model, of evenly spread ones."""
    layers = [_LAYER.search(name) for name, _ in model.named_modules()]
    last = max((int(layer[1]) for layer in layers if layer is not None), default=0)
    kept = {round(index * last / (LAYERS_AT_MOST - 1)) for index in range(LAYERS_AT_MOST)}
    for name, module in model.named_modules():
        layer = _LAYER.search(name)
        if layer is not None and int(layer[1]) not in kept:
            continue
        linear = isinstance(module, LinearBase | VocabParallelEmbedding)
        if linear or next(module.parameters(recurse=False), None) is not None:
            yield name, module
