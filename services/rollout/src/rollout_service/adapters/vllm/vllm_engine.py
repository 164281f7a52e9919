"""vLLM's AsyncLLM for rollouts: sampled tokens, with log-probs of the distribution that they were drawn from.

Runs only in the engine process. Importing vLLM takes seconds, so it is imported when the engine starts.
"""

import asyncio
import math
import os
import secrets
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratchet_kit.logs import get_logger
from ratchet_policies import (
    ChatPrompt,
    Completion,
    Echo,
    FinishReason,
    Sampling,
    TokenCandidate,
    joined,
)
from rollout_service.adapters.engines import kv_cache, wire
from rollout_service.adapters.engines.prompts import Prompts
from rollout_service.adapters.engines.refusals import RequestRefused, WeightsRefused
from rollout_service.adapters.vllm import parsers
from rollout_service.domain.policy import Dtype, Library

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.outputs import CompletionOutput, RequestOutput
    from vllm.v1.engine.async_llm import AsyncLLM

log = get_logger(__name__)
_DEATH_POLL_SECONDS = 0.1
_ABORT_POLL_SECONDS = 0.005
_AUTO_FIT = -1
"""As `max_model_len`: the smaller of the config's and what the KV cache holds."""


class VllmEngine:
    """One model in vLLM; see `engine_main.Engine`."""

    library = Library.VLLM
    computes_apart = True

    def __init__(self, llm: "AsyncLLM", tool_parser: str = "", reasoning_parser: str = "") -> None:
        """The parsers: vLLM's names of them, or empty. Raises ValueError when one cannot be used."""
        self._llm = llm
        self._tokenizer: Any = llm.get_tokenizer()
        self.max_model_len = int(llm.model_config.max_model_len)
        cache = llm.vllm_config.cache_config
        self.kv_cache_tokens = int(cache.num_gpu_blocks or 0) * int(cache.block_size)
        self.dtype = Dtype(str(llm.model_config.dtype).removeprefix("torch."))
        vocabulary = int(llm.model_config.get_vocab_size())
        self._prompts = Prompts(Path(llm.model_config.model), self._tokenizer, vocabulary, self.max_model_len)
        self.has_chat_template = self._prompts.has_chat_template
        self._parsers = parsers.Parsers(tool_parser, reasoning_parser, llm.model_config, self._tokenizer)
        self._prepared = ""
        """The policy id of the weights that it has with the changes that are ready."""
        self._dropping: asyncio.Task[None] | None = None
        self._running = set[str]()
        """Ids of requests."""
        self._is_interrupted = False
        self.loads = False
        """It takes new weights: it answers nothing meanwhile, and there is a limit for that."""

    @classmethod
    def start(cls, spec: wire.EngineSpec) -> "VllmEngine":
        """Loads the model, which blocks for seconds. Call it in the event loop that will serve the engine.

        Raises whatever vLLM raises.
        """
        from vllm.v1.engine.async_llm import AsyncLLM

        config = engine_args(spec).create_engine_config()
        if _is_alone_on_cpu(spec):
            # On CPU, vLLM spawns workers to bind each to its cores. We do not bind, and a fork has everything imported:
            # it saves some 10 s and 400 MB.
            os.environ["VLLM_WORKER_MULTIPROC_METHOD"] = "fork"
        return cls(AsyncLLM.from_vllm_config(config, disable_log_stats=True), spec.tool_parser, spec.reasoning_parser)

    @property
    def dead(self) -> bool:
        return bool(self._llm.errored)

    async def died(self) -> None:
        """Waits until vLLM is dead."""
        while not self.dead:
            await asyncio.sleep(_DEATH_POLL_SECONDS)

    async def answer(self) -> None:
        """Returns when the process that computes has answered, between two passes. Raises what vLLM raises when it is
        dead."""
        await self._llm.is_sleeping()  # the lightest question that goes there: AsyncLLM.check_health asks nobody

    def stop(self) -> None:
        self._llm.shutdown(timeout=0)

    async def interrupt(self) -> None:
        """Breaks off what runs, and all that comes until new weights are loaded."""
        self._is_interrupted = True
        while self._running:
            await self._llm.abort(list(self._running))  # no effect on one that is on its way to vLLM
            await asyncio.sleep(_ABORT_POLL_SECONDS)

    async def prepare(self, call: wire.PrepareChanges) -> str:
        """Makes changes ready to be applied by the next `load_weights`. It generates meanwhile: vLLM makes its steps in
        between. Returns why they cannot be; empty where they can."""
        self._prepared = ""
        if self._dropping is not None:
            await asyncio.wait([self._dropping])
        await self._llm.collective_rpc(
            "ratchet_prepare_changes", args=(call.folder, call.policy_id, call.base, call.digest)
        )
        ranks: list[str | None] = [None]
        while None in ranks and not any(ranks):
            ranks = await self._llm.collective_rpc("ratchet_prepare_on")
        obstacle = next(filter(None, ranks), "")
        if obstacle:
            await self._drop()
        else:
            self._prepared = call.policy_id
        return obstacle

    async def load_weights(self, call: wire.LoadWeights) -> wire.Loaded:
        """Loads the weights in a folder, or applies what is ready of them; drops all cached keys and values, and probes
        the engine.

        Raises WeightsRefused.
        """
        self.loads = True
        try:
            await self._llm.pause_generation(mode="wait", clear_cache=True)
            loaded = await self._in_place(call) or await self._whole(call)
            await self._llm.resume_generation()
        finally:
            self.loads = self._is_interrupted = False
        if loaded.in_place:
            self._dropping = asyncio.create_task(self._drop())
        return loaded

    async def set_asleep(self, asleep: bool) -> None:
        """To sleep once nothing runs, or awake: vllm/v1/engine/async_llm.py, level 1. It keeps the weights in host
        memory, and no keys and values."""
        if self._dropping is not None:
            await asyncio.wait([self._dropping])
        self.loads = True
        try:
            await (self._llm.sleep(level=1, mode="wait") if asleep else self._llm.wake_up())
        finally:
            self.loads = False

    async def _drop(self) -> None:
        """Gives the memory of the old weights back, while it generates."""
        while any(await self._llm.collective_rpc("ratchet_drop_changes")):
            pass

    async def _in_place(self, call: wire.LoadWeights) -> wire.Loaded | None:
        """None where it did not succeed."""
        prepared, self._prepared = self._prepared, ""
        if prepared != call.policy_id:
            return None
        try:
            return _loaded(await self._llm.collective_rpc("ratchet_apply_changes", args=(call.policy_id,)), True)
        except Exception:
            if self.dead:
                raise
            log.exception("weights.not_applied")
            return None

    async def _whole(self, call: wire.LoadWeights) -> wire.Loaded:
        try:
            reports = await self._llm.collective_rpc("ratchet_load_weights", args=(call.folder, call.policy_id))
        except Exception as error:
            if self.dead:
                raise
            raise WeightsRefused(f"vLLM does not take these weights: {error}") from error
        return _loaded(reports, False)

    async def generate(self, call: wire.Generate, request_id: str) -> AsyncGenerator[wire.Output, None]:
        """Completions of one prompt. Closing the generator, or cancelling, aborts the request in vLLM.

        Raises RequestRefused when the prompt does not fit the model, or vLLM refuses the sampling or the tools.
        """
        from vllm.exceptions import VLLMClientError
        from vllm.inputs.engine import tokens_input

        ids = self._prompts.tokens(call)
        reader = self._reader(call)
        in_pieces = call.stream or reader is not None
        sampling = self._prompts.ended(call)
        params = self._sampling(sampling, len(ids), in_pieces, reader)
        prompt_ids = tuple(ids)
        wants_echo = call.sampling.echo
        came: defaultdict[int, list[Completion]] = defaultdict(list)
        ended = reader.thoughts_ended if reader else True  # without a reader thoughts are text, which follows the form
        if self._is_interrupted:
            none = tuple(Completion(index, "", FinishReason.ABORTED) for index in range(call.sampling.n))
            yield wire.Output(none, prompt_ids, True)
            return
        self._running.add(request_id)
        try:
            async with aclosing(
                self._llm.generate(tokens_input(ids), params, request_id, priority=call.priority, reasoning_ended=ended)
            ) as outputs:
                async for output in outputs:
                    completions = tuple(_completion(piece, call.sampling) for piece in output.outputs)
                    if reader is not None:
                        completions = tuple(reader.read(one) for one in completions)
                    if in_pieces and not call.stream:
                        for one in completions:
                            came[one.index].append(one)
                        if not output.finished:
                            continue
                        completions = tuple(joined(came[index]) for index in sorted(came))
                    echo = self._echo(call, ids, output) if wants_echo else None
                    wants_echo = False
                    yield wire.Output(completions, prompt_ids, output.finished, echo)
        except (ValueError, VLLMClientError) as error:  # a JSON Schema that it cannot follow, say
            raise RequestRefused("sampling", str(error)) from error
        finally:
            self._running.discard(request_id)

    def _reader(self, call: wire.Generate) -> parsers.AnswerReader | None:
        """None for an answer that is text and nothing else."""
        if call.messages is None or (call.tools is None and not self._parsers.reasoning):
            return None
        if call.tools is not None and not self._parsers.tools:
            raise RequestRefused(
                "prompt.chat.tools",
                "it is not known how this model calls tools: the operator has to name vLLM's parser for it,"
                """ as in RATCHET_ROLLOUT_TOOL_PARSERS='{"name of the model": "hermes"}'""",
            )
        try:
            opening = self._prompts.opening(call) if self._parsers.reasoning else ()
            return self._parsers.reader(ChatPrompt(call.messages, call.tools), call.sampling.json_schema, opening)
        except ValueError as error:
            raise RequestRefused("prompt.chat.tools", str(error)) from error

    def _echo(self, call: wire.Generate, ids: Sequence[int], output: "RequestOutput") -> Echo:
        """`output`: the first of the request, which has the log-probs of all of the prompt."""
        text = self._tokenizer.decode(ids) if call.text is None else call.text
        top, entries = call.sampling.top_logprobs, output.prompt_logprobs
        if top is None or not entries:
            return Echo(text)
        first = TokenCandidate(ids[0], self._tokenizer.decode(ids[:1]), math.nan)
        others = zip(entries[1:], ids[1:], strict=True)
        return Echo(text, ((first,), *(_candidates(entry or {}, token, top) for entry, token in others)))

    def _sampling(
        self, sampling: Sampling, prompt_tokens: int, stream: bool, reader: parsers.AnswerReader | None
    ) -> "SamplingParams":
        from vllm import SamplingParams
        from vllm.exceptions import VLLMClientError
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        most = self._prompts.most_tokens(sampling, prompt_tokens)
        followed = None if sampling.json_schema is None else StructuredOutputsParams(json=sampling.json_schema)
        try:
            return SamplingParams(
                n=sampling.n,
                temperature=1.0 if sampling.temperature is None else sampling.temperature,
                top_p=1.0 if sampling.top_p is None else sampling.top_p,
                top_k=sampling.top_k or 0,  # 0: all tokens
                min_p=sampling.min_p or 0.0,
                max_tokens=max(1, most),  # vLLM makes one at least
                stop=list(sampling.stop),
                stop_token_ids=list(sampling.stop_token_ids),
                seed=sampling.seed,
                ignore_eos=sampling.ignore_eos,
                repetition_penalty=1.0 if sampling.repetition_penalty is None else sampling.repetition_penalty,
                logprobs=_log_probs_of(sampling),
                prompt_logprobs=sampling.top_logprobs if sampling.echo else None,
                presence_penalty=sampling.presence_penalty or 0.0,
                frequency_penalty=sampling.frequency_penalty or 0.0,
                logit_bias=dict(sampling.logit_bias) or None,
                structured_outputs=reader.structured_outputs if reader else followed,
                skip_special_tokens=reader.skip_special_tokens if reader else True,
                output_kind=RequestOutputKind.DELTA if stream else RequestOutputKind.FINAL_ONLY,
            )
        except (ValueError, VLLMClientError) as error:
            raise RequestRefused("sampling", str(error)) from error


def _loaded(reports: Sequence[Mapping[str, Any]], in_place: bool) -> wire.Loaded:
    """Of what all ranks say. Raises WeightsRefused."""
    failures = [failure for report in reports for failure in report["failures"]]
    if failures:
        shown = "; ".join(failures[:3])
        raise WeightsRefused(f"the engine does not compute with the sent weights: {shown} ({len(failures)} in all)")
    return wire.Loaded(max(float(report["error"]) for report in reports), in_place)


def engine_args(spec: wire.EngineSpec) -> "AsyncEngineArgs":
    """An engine's options as vLLM's."""
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs(
        model=spec.model,
        dtype=spec.dtype,
        max_model_len=spec.max_model_len or _AUTO_FIT,
        max_num_seqs=spec.max_num_seqs,
        kv_cache_memory_bytes=spec.kv_cache_bytes,
        gpu_memory_utilization=spec.gpu_memory_utilization,
        tensor_parallel_size=spec.tensor_parallel_size,
        # A worker inside the engine's process: one process less, and not all engines bound to the same core.
        distributed_executor_backend="uni" if _is_alone_on_cpu(spec) else None,
        enforce_eager=spec.enforce_eager,
        enable_prefix_caching=True,
        block_size=kv_cache.BLOCK if spec.device == "cpu" else None,
        # On CPU, vLLM 0.32 dies of a prompt that is read in parts where its request has a seed: a generator cannot take
        # back the draw of a part there (v1/worker/gpu_model_runner.py, _bookkeeping_sync).
        enable_chunked_prefill=False if spec.device == "cpu" else None,
        scheduling_policy="priority",  # of equal priority the first that came, as without
        enable_sleep_mode=spec.sleeps,
        reasoning_parser=spec.reasoning_parser,  # a form is followed after the thoughts
        seed=secrets.randbits(31),  # with vLLM's fixed default, two engines would draw the same samples
        logprobs_mode="processed_logprobs",
        generation_config="vllm",  # sampling as in the request, not as in the model's generation_config.json
        disable_log_stats=True,
        worker_extension_cls="rollout_service.adapters.vllm.extension.WeightExtension",
    )


def _is_alone_on_cpu(spec: wire.EngineSpec) -> bool:
    return spec.device == "cpu" and spec.tensor_parallel_size == 1


_REASONS = {None: FinishReason.UNFINISHED, "stop": FinishReason.STOP, "length": FinishReason.LENGTH}


def _log_probs_of(sampling: Sampling) -> int | None:
    """As vLLM counts them: of how many tokens beside the sampled one."""
    if sampling.top_logprobs is not None:
        return sampling.top_logprobs
    return 0 if sampling.logprobs else None


def _completion(output: "CompletionOutput", sampling: Sampling) -> Completion:
    if sampling.max_tokens == 0:
        return Completion(output.index, "", FinishReason.LENGTH)
    token_ids = tuple(output.token_ids)
    log_probs: tuple[float, ...] = ()
    candidates: tuple[tuple[TokenCandidate, ...], ...] = ()
    if output.logprobs is not None:
        entries = list(zip(output.logprobs, token_ids, strict=True))
        if sampling.logprobs:
            log_probs = tuple(entry[token].logprob for entry, token in entries)
        if sampling.top_logprobs is not None:
            candidates = tuple(_candidates(entry, token, sampling.top_logprobs) for entry, token in entries)
    return Completion(
        index=output.index,
        text=output.text,
        finish_reason=_REASONS.get(output.finish_reason, FinishReason.ABORTED),
        token_ids=token_ids,
        log_probs=log_probs,
        candidates=candidates,
        stop=output.stop_reason if isinstance(output.stop_reason, str) else "",
    )


def _candidates(entry: Mapping[int, Any], sampled: int, top: int) -> tuple[TokenCandidate, ...]:
    """Of one place, from vLLM's log-probs by token id: those of the sampled token, and of the likeliest."""
    likeliest = sorted(entry, key=lambda token: entry[token].logprob, reverse=True)[:top]
    return tuple(
        TokenCandidate(token, entry[token].decoded_token or "", entry[token].logprob) for token in (sampled, *likeliest)
    )
