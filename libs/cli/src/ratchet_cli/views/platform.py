"""How the start of the local platform is followed."""

from rich.console import RenderableType
from rich.text import Text

from ratchet_cli.terminal.following import following
from ratchet_client import Client
from ratchet_local import control, starter
from ratchet_local.home import Home
from ratchet_local.state import PlatformState, ServiceState

COLOURS = {"healthy": "green", "starting": "yellow", "restarting": "yellow", "stopped": "dim", "failed": "red"}


def bring_up(home: Home, port_base: int, timeout_s: float) -> PlatformState:
    """Starts the platform, shows how its services come up, and registers the starter when it is there.

    Raises PlatformError when a service does not become healthy; then nothing is left running.
    """
    view = PlatformView()
    with following(view) as changed:

        def show(state: PlatformState) -> None:
            view.services = state.services
            changed()

        state = control.up(home, port_base, timeout_s, show)
    if starter.folder().is_dir():
        with connect(home, state) as client:
            starter.ensure_registered(client)
    return state


def connect(home: Home, state: PlatformState, timeout_s: float = 60.0) -> Client:
    """A client of the local platform."""
    return Client(f"http://127.0.0.1:{state.ports['gateway-http']}", home.admin_key(), timeout_s=timeout_s)


def coloured(service: ServiceState) -> str:
    """The colour of a service's state."""
    return COLOURS.get(service.state, "white")


class PlatformView:
    """A View of the services while they start."""

    def __init__(self) -> None:
        self.services: tuple[ServiceState, ...] = ()
        self._said: set[str] = set()

    def panel(self) -> RenderableType:
        names = [Text(service.name, coloured(service)) for service in self.services]
        return Text(" ").join([Text("starting the platform:"), *names])

    def news(self) -> list[str]:
        new = [s.name for s in self.services if s.state == "healthy" and s.name not in self._said]
        self._said.update(new)
        return [f"{name} is healthy" for name in new]
