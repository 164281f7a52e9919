"""Quotas of projects, keys and models: runs at once; time of machines, tokens and money in a month; storage."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from gateway_service.domain.keys.costs import MODEL, Answers, Charge, Ledger
from gateway_service.domain.keys.key import ApiKey
from ratchet_kit import projects
from ratchet_kit.errors import ResourceExhausted, invalid
from ratchet_kit.logs import get_logger
from ratchet_kit.names import check_model_name
from ratchet_kit.times import Clock
from ratchet_kit.usage import Prices, Usage, priced, total

log = get_logger(__name__)

NOTICE = 0.8
"""Share of a quota at which the log has a warning, once a month."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Maxima of a project, a key or a model. 0: no limit."""

    runs: int = 0
    """Waiting and running at the same time."""
    gpu_seconds: int = 0
    """In a month (UTC), of the runs and evaluations that were created in the month."""
    cpu_seconds: int = 0
    """As `gpu_seconds`."""
    tokens: int = 0
    """Tokens of prompts and answers in a month."""
    storage_bytes: int = 0
    """Size of its versions and data sets."""
    cost: float = 0
    """A month's budget in the currency of RATCHET_PRICES: of runs and evaluations as `gpu_seconds`, and of answers."""


@dataclass(frozen=True, slots=True)
class Used:
    """Uses of an owner, as in Quota."""

    runs: int = 0
    gpu_seconds: float = 0
    cpu_seconds: float = 0
    tokens: int = 0
    storage_bytes: int = 0
    cost: float = 0


NEEDS = {
    "CreateRun": ("runs", "gpu_seconds", "cpu_seconds", "cost", "storage_bytes"),
    "ResumeRun": ("runs", "gpu_seconds", "cpu_seconds", "cost", "storage_bytes"),
    "CreateEvaluation": ("gpu_seconds", "cpu_seconds", "cost"),
    "CreateVersion": ("storage_bytes",),
    "ExportCheckpoint": ("storage_bytes",),
    "CreateDataset": ("storage_bytes",),
}
"""By RPC, the quotas that must have room for it."""
ANSWERING = ("tokens", "cost")
"""The same, for an answer."""
REASONS = {
    "runs": "runs at the same time: wait for one to end, or cancel one",
    "gpu_seconds": "GPU-seconds",
    "cpu_seconds": "CPU-seconds",
    "tokens": "tokens",
    "cost": "in costs of runs, evaluations and answers",
    "storage_bytes": "bytes of versions and data sets: delete those that are not needed",
}
MONTHLY = frozenset({"gpu_seconds", "cpu_seconds", "tokens", "cost"})


class Quotas:
    """Sums of the month as they are known here: those of answers are read again every five seconds, and count at once
    what this gateway answers; of what runs and evaluations cost an answer knows as of the last minute."""

    def __init__(
        self,
        quotas: Mapping[str, Quota],
        ledger: Ledger | None,
        answers: Answers | None,
        clock: Clock,
        prices: Prices | None = None,
    ) -> None:
        """`quotas`: by project ("default": the platform's own), id of a key, or model ("models/starter"). `ledger` and
        `answers`: None knows of nothing before this process."""
        self._quotas = quotas
        self._ledger = ledger
        self._answers = answers
        self._clock = clock
        self._prices = prices
        self._turns = defaultdict[str, asyncio.Lock](asyncio.Lock)
        self._month = ""
        self._answered: dict[str, Usage] = {}
        """By owner, in this month."""
        self._works: Sequence[Charge] = ()
        """Runs and evaluations of this month."""
        self._warned: set[tuple[str, str]] = set()

    @asynccontextmanager
    async def room(self, rpc: str, project: str, key: ApiKey, models: Iterable[str] = ()) -> AsyncIterator[None]:
        """Around an RPC of a key for a project, about models; one at a time that needs room. Raises ResourceExhausted,
        Unavailable."""
        owners = [one for one in _owners(project, key, models) if one in self._quotas]
        if not owners or rpc not in NEEDS or self._ledger is None:
            yield
            return
        async with AsyncExitStack() as turns:
            for owner in sorted(owners):
                await turns.enter_async_context(self._turns[owner])
            with projects.acting(""):  # a key's, or a model's, may be of several projects
                await self.refresh_works()
                waiting, stored = await self._ledger.waiting(), await self._ledger.stored()
            for owner in owners:
                used = _used(owner, self._works, waiting, stored, self._answered_to(owner))
                self._require(owner, self._quotas[owner], used, NEEDS[rpc])
            yield

    def require(self, key: ApiKey, model: str) -> None:
        """Looks whether an answer of a model has room in the month. Raises ResourceExhausted."""
        for owner, quota in self._limits(key, model):
            self._require(owner, quota, self._used_by_answers(owner), ANSWERING)

    def spend(self, key: ApiKey, model: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Notes the tokens of an answer."""
        usage = priced(Usage(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens), self._prices)
        for owner in _owners(key.project, key, [model]):
            self._answered[owner] = self._answered_to(owner) + usage
        for owner, quota in self._limits(key, model):
            self._notice(owner, quota, self._used_by_answers(owner), ANSWERING)

    def tokens(self, owner: str) -> int:
        """Tokens of answers in this month, at other gateways until the last refresh."""
        answered = self._answered_to(owner)
        return answered.prompt_tokens + answered.completion_tokens

    async def refresh(self) -> None:
        """Reads the answers of all gateways; one of the last second may not be in it yet. Raises Unavailable."""
        if self._answers:
            entries = await self._answers.answers(self._begin())
            found = defaultdict[str, list[Usage]](list)
            for one in entries:
                for owner in _owners(projects.project_of(one.actor), one, [one.model]):
                    found[owner].append(one.usage)
            self._turn()
            self._answered = {owner: total(each) for owner, each in found.items()}

    async def refresh_works(self) -> None:
        """Reads what runs and evaluations have used, where a budget needs it. Raises Unavailable."""
        if self._ledger and self._quotas:
            self._works = await self._ledger.entries(self._begin())

    def _limits(self, key: ApiKey, model: str) -> Sequence[tuple[str, Quota]]:
        own = [(key.id, Quota(tokens=key.monthly_tokens))] if key.monthly_tokens else []
        owners = _owners(key.project, key, [model])
        return own + [(owner, self._quotas[owner]) for owner in owners if owner in self._quotas]

    def _used_by_answers(self, owner: str) -> Used:
        return _used(owner, self._works, (), (), self._answered_to(owner))

    def _require(self, owner: str, quota: Quota, used: Used, needs: Iterable[str]) -> None:
        found, most = asdict(used), asdict(quota)
        for name in needs:
            if most[name] and found[name] >= most[name]:
                when = f" of {self._month}" if name in MONTHLY else ""
                then = ": it may go on next month (UTC), or with a larger quota of the operator's" if when else ""
                raise ResourceExhausted(f"{_named(owner)} has used its {most[name]:,} {REASONS[name]}{when}{then}")
        self._notice(owner, quota, used, needs)

    def _notice(self, owner: str, quota: Quota, used: Used, needs: Iterable[str]) -> None:
        found, most = asdict(used), asdict(quota)
        for name in needs:
            if most[name] and found[name] >= NOTICE * most[name] and (owner, name) not in self._warned:
                self._warned.add((owner, name))
                log.warning("quota.nearly_used", owner=owner, of=name, used=found[name], quota=most[name])

    def _answered_to(self, owner: str) -> Usage:
        self._turn()
        return self._answered.get(owner, Usage())

    def _begin(self) -> datetime:
        now = self._clock.now().astimezone(UTC)
        return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)

    def _turn(self) -> None:
        month = f"{self._begin():%Y-%m}"
        if month != self._month:
            self._month, self._works = month, ()
            self._answered.clear()
            self._warned.clear()


def check(owner: str, quota: Quota) -> None:
    """Raises InvalidArgument for an invalid owner, or a quota that it cannot have."""
    if owner.startswith(MODEL):
        check_model_name(owner.removeprefix(MODEL), "quotas")
    elif "_" not in owner and owner != projects.DEFAULT and not projects.is_name(owner):
        raise invalid("quotas", f"must name projects, ids of keys and models (models/starter), not {owner!r}")
    elif "_" in owner and quota.storage_bytes:
        raise invalid("quotas", "storage_bytes is for projects and models: no version says whose key made it")


def _owners(project: str, key: ApiKey | Charge, models: Iterable[str]) -> Sequence[str]:
    id = key.id if isinstance(key, ApiKey) else key.actor
    return [project or projects.DEFAULT, id, *(MODEL + model for model in models if model)]


def _named(owner: str) -> str:
    if owner.startswith(MODEL):
        return f"model {owner.removeprefix(MODEL)}"
    return f"API key {owner}" if "_" in owner else f"project {owner}"


def _used(
    owner: str, works: Iterable[Charge], waiting: Iterable[Charge], stored: Iterable[Charge], answered: Usage
) -> Used:
    usage = total(one.usage for one in works if one.is_of(owner))
    return Used(
        sum(one.is_of(owner) for one in waiting),
        usage.gpu_time.total_seconds(),
        (usage.cpu_time + usage.sandbox_time).total_seconds(),
        answered.prompt_tokens + answered.completion_tokens,
        sum(one.size_bytes for one in stored if one.is_of(owner)),
        (usage.cost or 0) + (answered.cost or 0),
    )
