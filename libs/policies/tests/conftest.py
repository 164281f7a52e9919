import pytest

from ratchet_policies import directory, route


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are looked at and waited for in milliseconds."""
    for name in ("INTERVAL", "AGAIN", "AT_LEAST"):
        monkeypatch.setattr(directory, name, 0.005)
    monkeypatch.setattr(route, "WAITS", (0.02, 0.02, 0.02))
