"""The clients: every resource, over one transport."""

from types import TracebackType
from typing import Self

from ratchet_client import address
from ratchet_client.batches import Batches
from ratchet_client.chat import Chat
from ratchet_client.datasets import Datasets
from ratchet_client.evaluations import Evaluations
from ratchet_client.experiments import Experiments
from ratchet_client.keys import Keys
from ratchet_client.models import Models
from ratchet_client.nodes import Nodes
from ratchet_client.platform import Platform
from ratchet_client.preferences import Preferences
from ratchet_client.programs import Programs
from ratchet_client.releases import Releases
from ratchet_client.resource import S
from ratchet_client.rewards import Rewards
from ratchet_client.runs import Runs
from ratchet_client.traffic import Traffic
from ratchet_client.transport import AsyncTransport, SyncTransport
from ratchet_client.webhooks import Webhooks
from ratchet_client.workflows import Schedules, Workflows

DEFAULT_TIMEOUT_S = 60.0


class _Resources(Chat[S]):
    def __init__(self, transport: S) -> None:
        super().__init__(transport)
        self.url = transport.url
        self.runs = Runs(transport)
        self.evaluations = Evaluations(transport)
        self.preferences = Preferences(transport)
        self.models = Models(transport)
        self.rewards = Rewards(transport)
        self.datasets = Datasets(transport)
        self.releases = Releases(transport)
        self.experiments = Experiments(transport)
        self.keys = Keys(transport)
        self.batches = Batches(transport)
        self.programs = Programs(transport)
        self.platform = Platform(transport)
        self.traffic = Traffic(transport)
        self.nodes = Nodes(transport)
        self.webhooks = Webhooks(transport)
        self.workflows = Workflows(transport)
        self.schedules = Schedules(transport)


class Client(_Resources[SyncTransport]):
    """A connection to a gateway. Use it as a context manager, or close() it.

    Without arguments: RATCHET_URL and RATCHET_API_KEY, else the platform that `ratchet up` started on this machine.
    Every method raises ApiError when the platform refuses and Unreachable when nothing answers. `timeout_s`: seconds
    to wait for an answer; a watch lasts as long as what it watches.
    """

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        super().__init__(SyncTransport(address.find(url, api_key), timeout_s))

    @classmethod
    def over(cls, transport: SyncTransport) -> Self:
        """The client of an address, say, that is not of the environment."""
        client = cls.__new__(cls)
        _Resources.__init__(client, transport)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.transport.close()


class AsyncClient(_Resources[AsyncTransport]):
    """Client for an event loop: its methods are awaited, its lists and watches are asynchronous iterators."""

    def __init__(
        self, url: str | None = None, api_key: str | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> None:
        super().__init__(AsyncTransport(address.find(url, api_key), timeout_s))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()
