"""The service's metrics in Prometheus."""

from ratchet_kit import metrics
from rollout_service.domain.policy import PolicyName
from rollout_service.domain.weights import WeightUpdateResult


class PrometheusMeter:
    """See `Meter`."""

    def __init__(self) -> None:
        by_policy = ("policy",)
        self._requests = metrics.counter("rollout_requests", "Generation requests answered.", by_policy)
        self._prompt_tokens = metrics.counter("rollout_prompt_tokens", "Prompt tokens read.", by_policy)
        self._tokens = metrics.counter("rollout_tokens", "Tokens generated.", by_policy)
        self._seconds = metrics.histogram("rollout_generate_seconds", "Time of a generation request.", by_policy)
        self._updates = metrics.counter("rollout_weight_updates", "Weight updates taken.", by_policy)
        self._update_bytes = metrics.counter("rollout_weight_update_bytes", "Bytes of weights received.", by_policy)
        self._receive_seconds = metrics.histogram("rollout_weight_receive_seconds", "Receiving weights.", by_policy)
        self._load_seconds = metrics.histogram("rollout_weight_load_seconds", "Loading and probing.", by_policy)
        self._probe_error = metrics.gauge("rollout_probe_error", "Probe error of the last weight update.", by_policy)
        self._sequences = metrics.gauge("rollout_sequences", "Completions in progress or waiting.", by_policy)
        self._draining = metrics.gauge("rollout_draining", "1 while the node takes nothing new.")
        self._evictions = metrics.counter("rollout_evictions", "Policies unloaded for another.")
        self._deaths = metrics.counter("rollout_engine_deaths", "Engines that died by themselves, or hung.", by_policy)
        self._hangs = metrics.counter(
            "rollout_engine_hangs", "Engines among these that hung and were ended.", by_policy
        )
        self._all = (
            *(self._requests, self._prompt_tokens, self._tokens, self._seconds, self._sequences),
            *(self._deaths, self._hangs),
            *(self._updates, self._update_bytes, self._receive_seconds, self._load_seconds, self._probe_error),
        )

    def generated(self, policy: PolicyName, prompt_tokens: int, tokens: int, seconds: float) -> None:
        self._requests.labels(policy).inc()
        self._prompt_tokens.labels(policy).inc(prompt_tokens)
        self._tokens.labels(policy).inc(tokens)
        self._seconds.labels(policy).observe(seconds)

    def busy(self, policy: PolicyName, sequences: int) -> None:
        self._sequences.labels(policy).set(sequences)
        metrics.start_at_zero(self._deaths, [policy])
        metrics.start_at_zero(self._hangs, [policy])

    def drained(self, draining: bool) -> None:
        self._draining.set(draining)

    def evicted(self, policy: PolicyName) -> None:
        self._evictions.inc()

    def updated(self, result: WeightUpdateResult) -> None:
        policy = result.policy.name
        self._updates.labels(policy).inc()
        self._update_bytes.labels(policy).inc(result.received_bytes)
        self._receive_seconds.labels(policy).observe(result.receive_duration.total_seconds())
        self._load_seconds.labels(policy).observe(result.load_duration.total_seconds())
        self._probe_error.labels(policy).set(result.probe_error)

    def engine_died(self, policy: PolicyName, hung: bool) -> None:
        self._deaths.labels(policy).inc()
        self._hangs.labels(policy).inc(int(hung))

    def unloaded(self, policy: PolicyName) -> None:
        for metric in self._all:
            metric.remove(policy)
