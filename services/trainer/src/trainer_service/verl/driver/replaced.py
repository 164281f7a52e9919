"""What stands in the place of parts of verl's trainer that a run of Ratchet has no use for."""

from typing import Any

from verl.single_controller.ray import ResourcePoolManager


class NoServers:
    """In the place of verl's LLMServerManager, whose servers, load balancer and clients are Ray actors that would only
    pass on what `Rollouts` asks rollout-service for directly."""

    @classmethod
    def create(cls, **unused: Any) -> "NoServers":
        return cls()

    def get_replicas(self) -> list[Any]:
        return []

    def get_client(self) -> None:
        return None

    def start_profile(self) -> None:
        """rollout-service is not traced."""

    def stop_profile(self) -> None:
        pass


class Pools(ResourcePoolManager):
    def _check_resource_available(self) -> None:
        """verl ends with a ValueError where accelerators are not free at once. Room was waited for already
        (`runtime.wait_for_room`); what somebody else has taken meanwhile, Ray waits for."""
