"""transformers' `generate` for rollouts: sampled tokens, with log-probs of the distribution that they were drawn from.

Runs only in the engine process. It computes in one thread, beside the one that answers calls: whole batches, one after
another. What comes while a batch is made waits for its end.
"""

import asyncio
import itertools
import math
import secrets
import traceback
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, GenerationConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging

from ratchet_kit import model_config
from ratchet_policies import Completion, Echo, FinishReason, TokenCandidate, joined
from rollout_service.adapters.engines import kv_cache, wire
from rollout_service.adapters.engines.prompts import Prompts
from rollout_service.adapters.engines.refusals import NO_LENGTH, RequestRefused, WeightsRefused
from rollout_service.adapters.engines.sent_weights import SentWeights
from rollout_service.adapters.transformers import batches, trials, weights
from rollout_service.adapters.transformers.batches import Row
from rollout_service.adapters.transformers.text import Text
from rollout_service.domain.policy import Library

T = TypeVar("T")
_POLL_SECONDS = 0.005
_GATHER_SECONDS = 0.02
"""The calls of a step come one after another, and what comes too late for a batch waits for its end."""
_LENGTHS = ("max_position_embeddings", "max_seq_len", "max_sequence_length", "seq_length", "context_length")
_REFUSED = "transformers serves this model, since vLLM does not know its architecture, and takes no {}"


def known(model: str) -> list[str]:
    """The architectures of the model in a folder that transformers has itself."""
    own = set[str]()
    for names in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        own |= {names} if isinstance(names, str) else {*names}
    return [name for name in model_config.base_config(Path(model)).get("architectures") or () if name in own]


class TransformersEngine:
    """One model in transformers; see `engine_main.Engine`."""

    library = Library.TRANSFORMERS
    computes_apart = False

    def __init__(self, spec: wire.EngineSpec, model: Any, tokenizer: Any) -> None:
        """Raises ValueError where the model or the options do not fit."""
        self._spec = spec
        self._model: Any = model
        self._tokenizer: Any = tokenizer
        self.dtype = spec.dtype
        self.kv_cache_tokens = cache_tokens(spec, model)
        self.max_model_len = model_length(spec, model.config, self.kv_cache_tokens)
        vocabulary = int(model.config.get_text_config().vocab_size)
        self._prompts = Prompts(Path(spec.model), tokenizer, vocabulary, self.max_model_len)
        self.has_chat_template = self._prompts.has_chat_template
        self._batching = trials.tried(model)
        self._thread = ThreadPoolExecutor(1, "transformers")
        self._waiting: list[tuple[int, int, Row]] = []
        self._arrivals = itertools.count()
        self._come = asyncio.Event()
        self._made: list[Row] = []
        """Rows of the batch that is made now."""
        self._told: dict[Row, asyncio.Queue[Completion]] = {}
        self._steps = 0
        self._computing = 0
        self._is_interrupted = False
        self.loads = False
        self._work = asyncio.create_task(self._make_batches())

    @classmethod
    def start(cls, spec: wire.EngineSpec) -> "TransformersEngine":
        """Loads the model, which blocks for seconds. Call it in the event loop that will serve the engine.

        Raises whatever transformers raises.
        """
        logging.disable_progress_bar()
        if spec.tensor_parallel_size > 1:
            raise ValueError(_REFUSED.format("tensor_parallel_size above 1"))
        if spec.sleeps:
            raise ValueError(_REFUSED.format("options.sleeps"))
        if spec.reasoning_parser:
            raise ValueError(_REFUSED.format("parser of RATCHET_ROLLOUT_REASONING_PARSERS"))
        torch.manual_seed(secrets.randbits(63))  # forks of one process would draw the same samples
        try:
            model = loaded(spec, spec.model)
        except WeightsRefused as error:
            raise ValueError(str(error)) from error
        return cls(spec, model, AutoTokenizer.from_pretrained(spec.model, local_files_only=True))

    @property
    def dead(self) -> bool:
        return self._work.done()

    async def died(self) -> None:
        await asyncio.wait([self._work])

    async def answer(self) -> None:
        steps = self._steps
        while self._computing and self._steps == steps:
            await asyncio.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        self._work.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def interrupt(self) -> None:
        self._is_interrupted = True
        while rows := [*self._made, *(row for _, _, row in self._waiting)]:
            for row in rows:
                row.is_unwanted = True
            await asyncio.sleep(_POLL_SECONDS)

    async def prepare(self, call: wire.PrepareChanges) -> str:
        return _REFUSED.format("changes in place")

    async def set_asleep(self, asleep: bool) -> None:
        raise NotImplementedError("`start` refuses engines that are to sleep")

    async def load_weights(self, call: wire.LoadWeights) -> wire.Loaded:
        self.loads = True
        try:
            await self._compute(partial(self._load, call.folder))
            return wire.Loaded(0.0, in_place=False)
        finally:
            self.loads = self._is_interrupted = False

    def _load(self, folder: str) -> None:
        self._model = None  # there may be no room for two
        try:
            self._model = loaded(self._spec, folder)
        except (OSError, ValueError, RuntimeError) as error:
            raise WeightsRefused(f"transformers does not take these weights: {error}") from error

    async def generate(self, call: wire.Generate, request_id: str) -> AsyncGenerator[wire.Output, None]:
        if call.tools is not None:
            raise RequestRefused("prompt.chat.tools", _REFUSED.format("tools"))
        if call.sampling.json_schema is not None:
            raise RequestRefused("sampling.json_schema", _REFUSED.format("JSON Schema"))
        ids = self._prompts.tokens(call)
        sampling = self._prompts.ended(call)
        most = self._prompts.most_tokens(sampling, len(ids))
        echo = await self._compute(partial(self._echo, call, ids)) if sampling.echo else None
        if self._is_interrupted or not most:
            reason = FinishReason.ABORTED if self._is_interrupted else FinishReason.LENGTH
            none = tuple(Completion(index, "", reason) for index in range(sampling.n))
            yield wire.Output(none, tuple(ids), True, echo)
            return
        ends = {*(() if sampling.ignore_eos else self._prompts.stops), *sampling.stop_token_ids}
        rows = [
            Row(index, ids, sampling, most, ends, Text(self._tokenizer, ids, sampling.stop))
            for index in range(sampling.n)
        ]
        pieces = self._begin(rows, call.priority)
        try:
            if not call.stream:
                yield wire.Output(await _all(pieces, len(rows)), tuple(ids), True, echo)
                return
            going = len(rows)
            while going:
                piece = await pieces.get()
                going -= piece.finish_reason is not FinishReason.UNFINISHED
                yield wire.Output((piece,), tuple(ids), not going, echo)
                echo = None
        finally:
            for row in rows:
                row.is_unwanted = True
                self._told.pop(row, None)

    def _begin(self, rows: Sequence[Row], priority: int) -> asyncio.Queue[Completion]:
        """Has them made; where their pieces come."""
        pieces = asyncio.Queue[Completion]()
        for row in rows:
            self._told[row] = pieces
            self._waiting.append((priority, next(self._arrivals), row))
        self._come.set()
        return pieces

    async def _make_batches(self) -> None:
        """Until it fails."""
        loop = asyncio.get_running_loop()

        def tell(row: Row, piece: Completion) -> None:
            self._steps += 1
            if (pieces := self._told.get(row)) is not None:
                loop.call_soon_threadsafe(pieces.put_nowait, piece)

        try:
            while True:
                await self._come.wait()
                self._come.clear()
                await asyncio.sleep(_GATHER_SECONDS)
                while self._waiting:
                    self._made = self._next_batch()
                    await self._compute(partial(self._run, self._made, tell))
                    self._made = []
        except Exception:
            traceback.print_exc()
            raise

    def _run(self, rows: Sequence[Row], tell: batches.Tell) -> None:
        batches.run(self._model, self._tokenizer, rows, tell)

    def _next_batch(self) -> list[Row]:
        """As many of those that wait as fit, the first one in any case."""
        self._waiting.sort(key=lambda waiting: waiting[:2])
        taken, left = list[Row](), list[tuple[int, int, Row]]()
        for waiting in self._waiting:
            if self._fits([*taken, waiting[2]]):
                taken.append(waiting[2])
            else:
                left.append(waiting)
        self._waiting = left
        return taken

    def _fits(self, rows: Sequence[Row]) -> bool:
        lengths = [len(row.prompt) for row in rows]
        if len(rows) > self._spec.max_num_seqs or not self._batching.takes(lengths):
            return False
        width = max(lengths) + max(row.most for row in rows)  # of each: `generate` goes on with those that are over
        return len(rows) == 1 or (width <= self.max_model_len and len(rows) * width <= self.kv_cache_tokens)

    def _echo(self, call: wire.Generate, ids: Sequence[int]) -> Echo:
        text = self._tokenizer.decode(ids) if call.text is None else call.text
        top = call.sampling.top_logprobs
        if top is None:
            return Echo(text)
        with torch.no_grad():
            tensor = torch.tensor([list(ids)], device=self._model.device)
            log_probs = self._model(tensor).logits[0].float().log_softmax(-1)
        first = TokenCandidate(ids[0], self._tokenizer.decode(ids[:1]), math.nan)
        places = zip(log_probs[:-1], ids[1:], strict=True)
        return Echo(text, ((first,), *(batches.candidates(self._tokenizer, one, token, top) for one, token in places)))

    async def _compute(self, work: Callable[[], T]) -> T:
        self._computing += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._computing -= 1


async def _all(pieces: asyncio.Queue[Completion], rows: int) -> tuple[Completion, ...]:
    """Whole completions, once all have ended."""
    came = defaultdict[int, list[Completion]](list)
    while rows:
        piece = await pieces.get()
        came[piece.index].append(piece)
        rows -= piece.finish_reason is not FinishReason.UNFINISHED
    return tuple(joined(came[index]) for index in sorted(came))


def loaded(spec: wire.EngineSpec, folder: str) -> Any:
    """The model of `spec` with the weights in a folder. Raises what transformers raises, and WeightsRefused."""
    config = AutoConfig.from_pretrained(spec.model, local_files_only=True)
    architecture = getattr(transformers, known(spec.model)[0])
    with ExitStack() as stack:
        model, said = architecture.from_pretrained(
            None,
            config=config,
            # Copies: transformers would compute with the file itself, and with whatever is written to it later.
            state_dict={name: sent.clone() for name, sent in SentWeights(Path(folder), stack)},
            dtype=getattr(torch, spec.dtype),
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # said below by name
        )
    for name, has, wanted in sorted(said["mismatched_keys"]):
        raise WeightsRefused(f"{name} has the shape {list(has)}, and by the model's config it is {list(wanted)}")
    if lacking := sorted(said["missing_keys"]):
        raise WeightsRefused(f"the weights lack {', '.join(lacking[:3])} ({len(lacking)} in all)")
    weights.check(model, Path(folder))
    model.generation_config = GenerationConfig()  # sampling as in the request, not as in generation_config.json
    return model.to(spec.device).eval()


def cache_tokens(spec: wire.EngineSpec, model: Any) -> int:
    """Tokens whose keys and values may be held at a time: all that fit where it is not known what one takes."""
    config = model.config.get_text_config()
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
    known = {name: value for name in names if isinstance(value := getattr(config, name, None), int)}
    per_token = kv_cache.bytes_per_token(known, spec.dtype)
    size = spec.kv_cache_bytes
    if size is None:
        free, whole = torch.cuda.mem_get_info()
        size = max(0, int(whole * spec.gpu_memory_utilization) - (whole - free))
    if per_token is None:
        return spec.max_num_seqs * (spec.max_model_len or _length(config) or 0)
    return size // per_token


def model_length(spec: wire.EngineSpec, config: Any, cached: int) -> int:
    """Tokens of a prompt and its completion. Raises ValueError."""
    own = _length(config.get_text_config())
    wanted = spec.max_model_len or own
    if wanted is None:
        raise ValueError(NO_LENGTH)
    if own is not None and wanted > own:
        raise ValueError(f"max_model_len is {wanted}, and the model's config says {own}")
    if wanted > cached and (spec.max_model_len or not cached):
        raise ValueError(f"the KV cache is not enough for {wanted} tokens: it holds {cached} (kv_cache_bytes)")
    return min(wanted, cached)


def _length(config: Any) -> int | None:
    return next((value for name in _LENGTHS if isinstance(value := getattr(config, name, None), int)), None)
