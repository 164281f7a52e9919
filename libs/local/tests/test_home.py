"""What a home keeps."""

from ratchet_local.home import Home
from ratchet_local.state import PlatformState, ServiceState


def test_state_comes_back_as_written(home: Home) -> None:
    state = PlatformState(1, 2.0, {"gateway": 3}, (ServiceState("gateway", "healthy", pid=4, restarts=1, since=5.0),))
    home.write_state(state)
    assert home.read_state() == state


def test_the_admin_key_is_made_once_and_private(home: Home) -> None:
    key = home.admin_key()
    assert home.admin_key() == key
    assert (home.path / "admin.key").stat().st_mode & 0o077 == 0
