"""One caller's share of what a policy's engines use."""

from datetime import timedelta

from ratchet_policies.policy import EngineUsage


class EngineShare:
    """All of it where the policy was loaded for the caller; else by the caller's part of the tokens. Mutable: it adds
    up what it is shown."""

    def __init__(self, before: EngineUsage = EngineUsage(), *, alone: bool = True) -> None:
        """`before`: of the policy when the caller came. `alone`: it was loaded for the caller."""
        self._last = before
        self._alone = alone
        self._unseen = 0
        self.prompt_tokens = self.completion_tokens = 0
        """The caller's own."""
        self.gpu_time = self.cpu_time = self.gpu_busy_time = self.gpu_watched_time = timedelta()

    def made(self, prompt_tokens: int, completion_tokens: int) -> None:
        """The caller had an answer."""
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens
        self._unseen += prompt_tokens + completion_tokens

    def seen(self, now: EngineUsage) -> None:
        """Adds what was used since the last look. Where a node has lost its count, it began anew."""
        last, self._last = self._last, now
        if now.cpu_time < last.cpu_time or now.tokens < last.tokens:
            last = EngineUsage()
        tokens = now.tokens - last.tokens
        share = 1.0 if self._alone else min(1.0, self._unseen / tokens) if tokens else 0.0
        self._unseen = 0
        self.gpu_time += share * max(timedelta(), now.gpu_time - last.gpu_time)
        self.gpu_busy_time += share * max(timedelta(), now.gpu_busy_time - last.gpu_busy_time)
        self.gpu_watched_time += share * max(timedelta(), now.gpu_watched_time - last.gpu_watched_time)
        self.cpu_time += share * (now.cpu_time - last.cpu_time)
