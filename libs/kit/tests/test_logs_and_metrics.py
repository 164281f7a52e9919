import json
import logging
import urllib.request
from collections.abc import Iterator

import pytest
import structlog

from ratchet_kit import errors, logs, metrics
from ratchet_testing import free_port


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Iterator:
    """Reads the lines logged so far, with the logs set up for a service `demo`, and puts the old set-up back."""
    root = logging.getLogger()
    level = root.level
    logs.configure("demo", "info")
    [handler] = root.handlers
    yield lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    root.removeHandler(handler)
    root.setLevel(level)
    structlog.reset_defaults()


def test_a_line_is_an_object_with_its_service_and_ids(lines):
    with logs.bound(run_id="run_1"):
        logs.get_logger("there").info("run started", steps=3)
    [line] = lines()
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "run started", "level": "info", "logger": "there", "service": "demo", "run_id": "run_1", "steps": 3,
    }  # fmt: skip


def test_the_standard_library_logs_the_same_way(lines):
    with logs.bound(run_id="run_1"):
        logging.getLogger("ray").warning("%d workers", 2, extra={"node": "n1"})
    [line] = lines()
    assert (line["event"], line["level"], line["run_id"], line["node"]) == ("2 workers", "warning", "run_1", "n1")


def test_a_trace_is_in_its_line(lines):
    try:
        raise ValueError("odd")
    except ValueError:
        logs.get_logger("there").exception("failed")
        logging.getLogger("there").exception("failed")
    for line in lines():
        assert "ValueError: odd" in line["exception"]


def test_lines_below_the_level_are_left_out(lines):
    logs.get_logger("there").debug("detail")
    logging.getLogger("there").debug("detail")
    assert lines() == []


def test_configured_twice_a_line_comes_once(lines):
    logs.configure("demo", "INFO")
    logs.get_logger("there").info("x")
    assert len(lines()) == 1


def test_an_unknown_level_is_refused():
    with pytest.raises(ValueError, match="LOUD"):
        logs.configure("demo", "LOUD")


def test_metrics_are_served_until_stopped():
    port = free_port()
    stop = metrics.start(port)
    metrics.counter("demo_things", "Things", ["kind"]).labels("good").inc(2)
    metrics.counter("demo_things", "Things", ("kind",)).labels("good").inc()
    metrics.histogram("demo_seconds", "Time").observe(0.2)
    metrics.gauge("demo_depth", "Depth").set(4)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        text = reply.read().decode()
    assert 'ratchet_demo_things_total{kind="good"} 3.0' in text
    assert 'ratchet_demo_seconds_bucket{le="0.25"} 1.0' in text
    assert "ratchet_demo_depth 4.0" in text
    with pytest.raises(errors.FailedPrecondition, match=str(port)):
        metrics.start(port)
    stop()
    metrics.start(port)()


def test_no_port_no_metrics():
    metrics.start(0)()
