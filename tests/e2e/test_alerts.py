"""A service that is gone reaches people: real Prometheus and Alertmanager, with the rules and receivers of deploy/."""

import json
import shutil
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import yaml

from ratchet_testing import free_port

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

DEPLOY = Path(__file__).parents[2] / "deploy" / "prometheus"
SUMMARY = "gateway at 127.0.0.1"


@contextmanager
def served(server: socketserver.TCPServer) -> Iterator[int]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.socket.getsockname()[1]
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def posts(arrived: "Queue[tuple[str, str]]") -> Iterator[str]:
    """A receiver of webhooks and of Slack's form, at two paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            arrived.put((self.path, json.dumps(body)))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, format: str, *args: object) -> None: ...

    with served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def mails(arrived: "Queue[tuple[str, str]]") -> Iterator[str]:
    """A mail server that takes all there is."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                verb = line[:4].upper()
                if verb == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    text = b"".join(iter(self.rfile.readline, b".\r\n"))
                    arrived.put(("mail", text.decode()))
                self.wfile.write(b"221 bye\r\n" if verb == b"QUIT" else b"250 ok\r\n")

    with served(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)) as port:
        yield f"127.0.0.1:{port}"


def receivers(posted: str, mailed: str) -> dict[str, Any]:
    """alertmanager.yml as an operator fills it in, with all three told."""
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
    named = {one["name"]: one for one in config["receivers"]}
    named["webhook"]["webhook_configs"][0]["url"] = f"{posted}/webhook"
    mail = named["mail"]["email_configs"][0]
    mail["smarthost"], mail["require_tls"] = mailed, False
    del mail["auth_username"], mail["auth_password_file"]
    config["route"] |= {"group_wait": "1s", "routes": [{"receiver": name, "continue": True} for name in named]}
    return config


@contextmanager
def running(folder: Path, name: str, config: Mapping[str, Any], *options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.yml").write_text(yaml.safe_dump(dict(config)))
    command = [name, f"--config.file={name}.yml", f"--storage.{'tsdb.' if name == 'prometheus' else ''}path=data"]
    process = subprocess.Popen([*command, *options], cwd=folder, stderr=(folder / "log").open("w"))
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_a_service_that_is_gone_reaches_people(tmp_path: Path) -> None:
    if not (shutil.which("prometheus") and shutil.which("prometheus-alertmanager")):
        pytest.skip("not on this machine: apt-get install prometheus prometheus-alertmanager")
    arrived: Queue[tuple[str, str]] = Queue()
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for rule in rules["groups"][0]["rules"]:
        rule.pop("for", None)  # a minute is long in a test
    (tmp_path / "alerts.yml").write_text(yaml.safe_dump(rules))
    scraping = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    scraping["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    scraping["rule_files"] = [str(tmp_path / "alerts.yml")]
    (job,) = scraping["scrape_configs"]
    del job["dns_sd_configs"], job["relabel_configs"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{free_port()}"], "labels": {"service": "gateway"}}]
    told = f"127.0.0.1:{free_port()}"
    scraping["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [told]
    with ExitStack() as stack:
        posted, mailed = stack.enter_context(posts(arrived)), stack.enter_context(mails(arrived))
        config = receivers(posted, mailed)
        (tmp_path / "people" / "secrets").mkdir(parents=True)
        (tmp_path / "people" / "secrets" / "slack_url").write_text(f"{posted}/slack")
        alone = (f"--web.listen-address={told}", "--cluster.listen-address=")
        stack.enter_context(running(tmp_path / "people", "prometheus-alertmanager", config, *alone))
        watching = f"--web.listen-address=127.0.0.1:{free_port()}"
        stack.enter_context(running(tmp_path / "watch", "prometheus", scraping, watching))
        missing, deadline = {"/webhook", "/slack", "mail"}, time.monotonic() + 60
        while missing:
            where, text = arrived.get(timeout=deadline - time.monotonic())
            if SUMMARY in text.replace("=\r\n", ""):
                missing.discard(where)
