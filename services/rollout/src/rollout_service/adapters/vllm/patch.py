"""Applies what changed in a policy's weights to a model that vLLM has loaded, in place.

In two parts. While the model still generates, the changes are read, it is looked up where they lie in the parameters
(`placements`), and what cannot be changed in place is made beside it: on CPU a linear layer of vLLM has no weight but a
copy that oneDNN packed, so it is packed anew, from the tensor as it is in the new folder. Then, while generation
pauses, the changed values are written into the parameters, and the new copies take the place of the old ones.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.logger import init_logger
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.layers.linear import UnquantizedLinearMethod
from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
from vllm.model_executor.layers.vocab_parallel_embedding import UnquantizedEmbeddingMethod, VocabParallelEmbedding

from ratchet_kit import memory
from ratchet_kit.errors import DataLoss
from rollout_service.adapters import changes
from rollout_service.adapters.engines.sent_weights import DTYPES, SentWeights
from rollout_service.adapters.vllm.placements import Placement, Placements, Unpatchable, find_placements
from rollout_service.adapters.vllm.probe import Expectation, Report, check, expect

logger = init_logger(__name__)

SLICE_SECONDS = 0.1
"""Generation waits for so long at a time, or for as long as one layer takes, beside the work on changes."""

Kernel = Callable[..., Tensor]
"""Of a linear layer, with a copy of its weight."""


class Patcher:
    """Knows which weights a worker's model has, and applies what changes them."""

    def __init__(self, model: nn.Module, config: VllmConfig) -> None:
        self.model, self._config = model, config
        self.held = ""
        """The policy id of the weights that the model has; empty where it is not known, or half of them are others."""
        self._found: tuple[dict[str, tuple[tuple[int, ...], torch.dtype]], Placements] | None = None
        self.drop()

    def drop(self) -> None:
        """Forgets what was made ready, and what it took the place of."""
        self._steps: Iterator[None] = iter(())
        self._ready: tuple[str, str] | None = None
        self._writes: list[Callable[[], object]] = []
        self._kernels: list[tuple[nn.Module, Kernel]] = []
        self._expected: dict[str, list[Expectation] | None] = {}

    def begin(self, folder: Path, policy_id: str, base: str, digest: str) -> None:
        """Begins to make the changes beside the weights in `folder` ready; `go_on` does it. `policy_id`: of these
        weights. `base`: of those that they are changes of. `digest`: of the changes."""
        self.drop()
        self._steps = self._prepare(folder, policy_id, base, digest)

    def go_on(self) -> str | None:
        """Works for a moment. Returns None while there is more to do, in the end why it cannot be done, or nothing."""
        end = time.perf_counter() + SLICE_SECONDS
        try:
            with torch.no_grad():
                while time.perf_counter() < end:
                    next(self._steps)
            return None
        except StopIteration:
            return ""
        except (Unpatchable, DataLoss) as error:
            reason = str(error)
        except Exception as error:
            logger.exception("the changes could not be made ready")
            reason = f"{type(error).__name__}: {error}"
        self.drop()
        return reason

    def drop_some(self) -> bool:
        """The same, for a moment: giving memory back takes time. Returns whether there is more."""
        end = time.perf_counter() + SLICE_SECONDS
        while self._kernels and time.perf_counter() < end:
            self._kernels.pop()
        if not self._kernels:
            self.drop()
        return bool(self._kernels)

    def apply(self, policy_id: str) -> Report:
        """Generation pauses. After an error it is not known what the model has: it must be loaded whole.

        Raises Unpatchable unless what is ready makes `policy_id` of what the model has.
        """
        base, self.held = self.held, ""
        if not base or self._ready != (base, policy_id):
            raise Unpatchable("other changes came in between")
        with torch.no_grad():
            for write in self._writes:
                write()
        for index, (module, kernel) in enumerate(self._kernels):
            self._kernels[index] = (module, module.cpu_linear)  # dropped later
            module.cpu_linear = kernel
        return check(self._expected)

    def _prepare(self, folder: Path, policy_id: str, base: str, digest: str) -> Iterator[None]:
        if base != self.held:
            raise Unpatchable(f"it has {self.held or 'weights of which it is not known which they are'}, not {base}")
        _require_plain(self.model, self._config)
        with ExitStack() as stack:
            sent = SentWeights(folder, stack)
            placements = self._placements(sent)
            yield
            changed = set()
            for change in changes.read(folder, digest):
                changed.add(change.name)
                self._write(placements, change)
                yield
            yield from self._pack(placements, sent, changed)
            for name, found in expect(self.model, sent.reader(self.model)):
                self._expected[name] = found
                yield
        self._ready = base, policy_id

    def _placements(self, sent: SentWeights) -> Placements:
        shapes = sent.shapes()
        if self._found is None or self._found[0] != shapes:
            self._found = shapes, find_placements(self.model, shapes)
        return self._found[1]

    def _write(self, placements: Placements, change: changes.Change) -> None:
        """Makes the writes of a tensor's new values into parameters ready."""
        placed = placements.of[change.name]
        if not placed and not (change.name.endswith("lm_head.weight") and self._tied):
            raise Unpatchable(f"vLLM loads nothing of {change.name}, or not as it is")
        values = torch.frombuffer(change.values, dtype=DTYPES[change.dtype])
        places = None if change.places is None else torch.from_numpy(change.places)
        for one in placed:
            shape, dtype = placements.shapes[one.module, one.leaf]
            parameter = one.module.get_parameter(one.leaf)
            if parameter.numel() == 0 and _packs(one.module):
                continue
            if parameter.shape != shape or not parameter.is_contiguous():
                raise Unpatchable(f"vLLM keeps {change.name} as {list(parameter.shape)}, not as {list(shape)}")
            if places is None:
                self._writes.append(partial(one.copy, values.to(dtype), parameter.data))
                continue
            targets, which = one.targets(places)
            if parameter.numel() < 1 << 31:
                targets = targets.int()  # half of what a GPU is sent
            if len(targets):
                self._writes.append(partial(_scatter, parameter.data.view(-1), targets, values[which].to(dtype)))

    def _pack(self, placements: Placements, sent: SentWeights, changed: Collection[str]) -> Iterator[None]:
        """Makes the kernels that have a copy of their own of a weight that changed."""
        parts: dict[int, list[tuple[str, Placement]]] = {}
        for name, placed in placements.of.items():
            for one in placed:
                if one.leaf == "weight":
                    parts.setdefault(id(one.module.weight), []).append((name, one))
        todo: dict[int, list[nn.Module]] = {}  # a tied output layer has the same weight as the embedding
        for module in filter(_packs, self.model.modules()):
            if any(name in changed for name, _ in parts.get(id(module.weight), ())):
                todo.setdefault(id(module.weight), []).append(module)
        shapes = {key: placements.shapes[parts[key][0][1].module, "weight"] for key in todo}
        size = sum(shape.numel() * dtype.itemsize for shape, dtype in shapes.values())
        if todo and not self._config.model_config.enforce_eager:
            raise Unpatchable("what vLLM compiles for a CPU keeps the kernels that it was compiled with")
        if size > (free := memory.free()):
            raise Unpatchable(f"{size >> 20} MiB are needed beside the old weights, and {free >> 20} are free")
        for key, modules in todo.items():
            shape, dtype = shapes[key]
            kernel = _kernel(shape, dtype, [(sent[name], one) for name, one in parts[key]])
            self._kernels += [(module, kernel) for module in modules]
            yield

    @property
    def _tied(self) -> bool:
        return bool(getattr(getattr(self.model, "config", None), "tie_word_embeddings", False))


def _require_plain(model: nn.Module, config: VllmConfig) -> None:
    """Raises Unpatchable where vLLM keeps something else than the weights that it was sent, packed on CPU."""
    if config.model_config.quantization is not None or config.lora_config is not None:
        raise Unpatchable("the engine quantises its weights, or has adapters")
    for name, module in model.named_modules():
        method = getattr(module, "quant_method", None)
        derives = callable(getattr(module, "process_weights_after_loading", None))
        if type(method) not in (type(None), UnquantizedLinearMethod, UnquantizedEmbeddingMethod):
            raise Unpatchable(f"{name} is loaded by {type(method).__name__}")
        if derives and (
            not isinstance(module, Attention) or getattr(getattr(module, "impl", None), "sinks", None) is not None
        ):
            raise Unpatchable(f"{name} ({type(module).__name__}) keeps what it makes of its weights")


def _packs(module: nn.Module) -> bool:
    """Whether its kernel has its own copy of the weight. A linear layer then has no other; an embedding has."""
    return hasattr(module, "cpu_linear") and (isinstance(module, VocabParallelEmbedding) or module.weight.numel() == 0)


def _kernel(shape: torch.Size, dtype: torch.dtype, parts: list[tuple[Tensor, Placement]]) -> Kernel:
    """The kernel that vLLM makes on CPU for a layer with this weight."""
    weight = torch.zeros(shape, dtype=dtype)
    for tensor, placement in parts:
        placement.copy(tensor, weight)
    layer = nn.Module()
    layer.weight = nn.Parameter(weight, requires_grad=False)
    dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    kernel: Kernel = layer.cpu_linear
    return kernel


def _scatter(flat: Tensor, targets: Tensor, values: Tensor) -> None:
    flat.index_copy_(0, targets.to(flat.device).long(), values.to(flat.device, flat.dtype))
