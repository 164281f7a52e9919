"""Tools that the tests of every library and service share: pytest fixtures (`plugin`), a gRPC service in the test's own
process (`services`), free ports (`ports`) and a clock that is set by hand (`clock`)."""

from ratchet_testing.clock import ManualClock
from ratchet_testing.ports import free_port
from ratchet_testing.services import serving

__all__ = ["ManualClock", "free_port", "serving"]
