"""The record that a workflow keeps of itself, so that another process can go on with it."""

from collections.abc import Mapping
from typing import Any, Protocol


class Kept(Protocol):
    """The record of one workflow. What a method raises ends the workflow, which can go on later: Unreachable where the
    store is away."""

    @property
    def id(self) -> str:
        """Its id: what its stages create has request ids made of it, so that nothing is made twice."""
        ...

    def read(self) -> Mapping[str, Any]:
        """As it was saved last; empty before."""
        ...

    def save(self, record: Mapping[str, Any]) -> None:
        """Values of JSON. When this returns they are stored."""
        ...
