"""Applications of a platform whose processes are killed: they ask through the official `openai` client as it comes,
with its own two retries, and say of some answers how good they are, until that is acknowledged."""

import asyncio
import random
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import httpx
import openai

from ratchet_kit.ids import new_id

from .tables import MODEL, PROBLEM_SET, Table

LONG, LONG_TOKENS = "starter", 24
"""What answers in several pieces."""
USERS = 1_000
"""So that a tenth of them are more than the 20 without which a release decides nothing."""
PATIENCE_S = 120.0
KINDS = {"chat": 50, "completion": 20, "stream": 14, "long stream": 6, "graded chat": 10}
"""How often, in percent."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, as its caller saw it."""

    kind: str
    at: float
    """Of the clock, in seconds since the epoch."""
    seconds: float
    version: str = ""
    error: str = ""
    pieces: int = 0
    """Of a stream that broke."""


@dataclass(slots=True)
class Seen:
    """What all callers saw. Mutable: they add to it."""

    asked: list[Asked] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers that are not what their version says to their prompt."""
    scored: set[str] = field(default_factory=set)
    """Completions whose feedback was acknowledged."""
    refused: list[str] = field(default_factory=list)
    """Feedback that was answered, but not taken."""

    @property
    def failed(self) -> list[Asked]:
        return [one for one in self.asked if one.error]

    @property
    def share_answered(self) -> float:
        return 1 - len(self.failed) / len(self.asked)

    def report(self) -> str:
        latencies = sorted(one.seconds for one in self.asked if not one.error)
        counts = Counter(one.kind for one in self.asked)
        return (
            f"{len(self.asked)} requests ({', '.join(f'{count} {kind}' for kind, count in counts.most_common())}), "
            f"{self.share_answered:.3%} answered, {len(self.failed)} not; latency mean "
            f"{statistics.fmean(latencies):.2f} s, p50 {_quantile(latencies, 0.5):.2f} s, p95 "
            f"{_quantile(latencies, 0.95):.2f} s, p99 {_quantile(latencies, 0.99):.2f} s, "
            f"slowest {latencies[-1]:.1f} s; "
            f"{len(self.scored)} feedbacks acknowledged, {len(self.refused)} refused"
        )


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def _quantile(ordered: Sequence[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


@asynccontextmanager
async def load(
    url: str, keys: Sequence[str], tables: Sequence[Table], clients: int, pause_s: float
) -> AsyncIterator[Seen]:
    """`clients` at a time, each of which asks again `pause_s` after its answer, until the end of it."""
    seen, stop = Seen(), asyncio.Event()
    async with AsyncExitStack() as stack:
        callers = []
        for number in range(clients):
            key = keys[number % len(keys)]
            api = await stack.enter_async_context(openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, timeout=60))
            headers = {"Authorization": f"Bearer {key}"}
            http = await stack.enter_async_context(httpx.AsyncClient(base_url=url, headers=headers, timeout=30))
            callers.append(Caller(api, http, tables, random.Random(number), seen))
        tasks = [asyncio.create_task(caller.live(stop, pause_s)) for caller in callers]
        try:
            yield seen
        finally:
            stop.set()
            await asyncio.gather(*tasks)


class Caller:
    def __init__(
        self,
        api: openai.AsyncOpenAI,
        http: httpx.AsyncClient,
        tables: Sequence[Table],
        chance: random.Random,
        seen: Seen,
    ) -> None:
        self._api = api
        self._http = http
        self._tables = {str(table.version): table for table in tables}
        self._chance = chance
        self._seen = seen
        self._feedback: set[asyncio.Task[None]] = set()

    async def live(self, stop: asyncio.Event, pause_s: float) -> None:
        while not stop.is_set():
            (kind,) = self._chance.choices(list(KINDS), list(KINDS.values()))
            await self._ask(kind)
            await asyncio.sleep(pause_s * self._chance.uniform(0.5, 1.5))
        await asyncio.gather(*self._feedback)

    async def _ask(self, kind: str) -> None:
        user = f"user-{self._chance.randrange(USERS)}"
        at, started = time.time(), time.monotonic()
        pieces: list[str] = []
        try:
            match kind:
                case "chat" | "graded chat":
                    await self._chat(kind, user, at, started)
                case "completion":
                    await self._complete(user, at, started)
                case _:
                    await self._stream(kind, user, at, started, pieces)
        except openai.OpenAIError as error:
            reason = f"{type(error).__name__}: {error}"
            failed = Asked(kind, at, time.monotonic() - started, error=reason, pieces=len(pieces))
            self._seen.asked.append(failed)
            say(f"not answered: {failed}")

    async def _chat(self, kind: str, user: str, at: float, started: float) -> None:
        prompt = self._prompt(kind == "graded chat")
        answer = await self._api.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt.text}], user=user, temperature=0, max_tokens=8
        )
        self._seen.asked.append(Asked(kind, at, time.monotonic() - started, answer.model))
        self._look(answer.id, answer.model, prompt.text, answer.choices[0].message.content, prompt.problem_id)

    async def _complete(self, user: str, at: float, started: float) -> None:
        prompt = self._prompt(False)
        answer = await self._api.completions.create(
            model=MODEL, prompt=prompt.text, user=user, temperature=0, max_tokens=8
        )
        self._seen.asked.append(Asked("completion", at, time.monotonic() - started, answer.model))
        self._look(answer.id, answer.model, prompt.text, answer.choices[0].text, "")

    async def _stream(self, kind: str, user: str, at: float, started: float, pieces: list[str]) -> None:
        is_long = kind == "long stream"
        text = "Write solve(xs) that returns the sum of xs." if is_long else self._prompt(False).text
        stream = await self._api.chat.completions.create(
            model=LONG if is_long else MODEL,
            messages=[{"role": "user", "content": text}],
            user=user,
            temperature=0,
            max_tokens=LONG_TOKENS if is_long else 8,
            stream=True,
        )
        id = version = ""
        is_whole = False
        async for chunk in stream:
            id, version = chunk.id, chunk.model
            for choice in chunk.choices:
                pieces.append(choice.delta.content or "")
                is_whole = is_whole or choice.finish_reason is not None
        if not is_whole:
            raise openai.OpenAIError("the stream ended before its end")
        self._seen.asked.append(Asked(kind, at, time.monotonic() - started, version))
        if not is_long:
            self._look(id, version, text, "".join(pieces), "")

    def _prompt(self, is_problem: bool) -> "Prompt":
        table = next(iter(self._tables.values()))
        if is_problem:
            id, text = self._chance.choice(sorted(table.problems.items()))
            return Prompt(text, id)
        return Prompt(self._chance.choice(table.questions))

    def _look(self, id: str, version: str, prompt: str, answer: str | None, problem_id: str) -> None:
        """Most answers get feedback, at once; nobody waits for it."""
        table = self._tables[version]
        if answer != table.answers[prompt]:
            self._seen.wrong.append(f"{version} says {answer!r} to {prompt!r}")
        body: dict[str, object] = {"completion_id": id, "request_id": new_id("feedback")}
        if problem_id:
            body["problem"] = {"problem_set": PROBLEM_SET, "problem_id": problem_id}
        elif self._chance.random() < 0.7:
            body["score"] = float(table.is_right(prompt))
        else:
            return
        task = asyncio.create_task(self._tell(body))
        self._feedback.add(task)
        task.add_done_callback(self._feedback.discard)

    async def _tell(self, body: dict[str, object]) -> None:
        end, reason = time.monotonic() + PATIENCE_S, ""
        while time.monotonic() < end:
            try:
                reply = await self._http.post("/api/v1/feedback", json=body)
            except httpx.HTTPError as error:
                reason = repr(error)
            else:
                if reply.status_code == 200:
                    self._seen.scored.add(str(body["completion_id"]))
                    return
                reason = f"{reply.status_code} {reply.text}"
                if reply.status_code < 500 and reply.status_code not in (409, 429):
                    break
            await asyncio.sleep(0.5)
        self._seen.refused.append(f"{body}: {reason}")
        say(f"feedback not taken: {self._seen.refused[-1]}")


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    problem_id: str = ""
    """Of the problem that it puts."""
