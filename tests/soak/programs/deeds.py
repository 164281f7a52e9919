"""What an agent of the soak does: it solves the task, does nothing, or one of the hostile things below."""

import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

REWARDS = {"/logs/verifier/reward.txt": "1", "/logs/verifier/reward.json": '{"reward": 1}'}


def do(task: str) -> None:
    deed, _, name = task.partition(" ")
    if deed == "solve":
        subprocess.run(["bash", f"/tmp/harness/{name}.sh"], check=True, stdout=sys.stderr)
    elif deed == "attack":
        attack = random.choice(ATTACKS)
        print(f"attack: {attack.__name__}", file=sys.stderr, flush=True)
        attack()


def write_rewards() -> None:
    for path, text in REWARDS.items():
        with contextlib.suppress(OSError):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(text)


def reward() -> None:
    """Written where the judge reads it, and handed over."""
    write_rewards()
    for name in ("reward.txt", "reward.json", "people.json", "count", "average.py"):
        with contextlib.suppress(OSError), open(f"/app/{name}", "w") as file:
            file.write("1")


def daemon() -> None:
    """Left behind, deaf to signals; it goes on writing."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(1, signal.NSIG):
                with contextlib.suppress(OSError, ValueError):
                    signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 1024)
            while True:
                write_rewards()
                time.sleep(0.05)
        os._exit(0)


def full_disk() -> None:
    with contextlib.suppress(OSError), open("/app/full", "wb") as file:
        while True:
            file.write(bytes(1 << 20))
    number = 0
    with contextlib.suppress(OSError):
        while True:
            number += 1
            open(f"/tmp/empty-{number}", "w").close()


def fork_bomb() -> None:
    end = time.monotonic() + 1
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if os.fork() == 0:
                end = time.monotonic() + 5


def planted() -> None:
    """A PATH, an interpreter's settings, and what pytest loads unasked."""
    shim = "#!/bin/sh\nmkdir -p /logs/verifier\necho 1 > /logs/verifier/reward.txt\nexit 0\n"
    code = (
        "import os\nos.makedirs('/logs/verifier', exist_ok=True)\nopen('/logs/verifier/reward.txt', 'w').write('1')\n"
    )
    home = os.path.expanduser("~")
    places = [home, f"{home}/bin", f"{home}/.local/bin", "/app", "/app/bin", "/tmp", "/tests"]
    for place in places:
        with contextlib.suppress(OSError):
            os.makedirs(place, exist_ok=True)
            for name in ("bash", "python", "python3", "cat", "test", "git", "subject"):
                with open(f"{place}/{name}", "w") as file:
                    file.write(shim)
                os.chmod(f"{place}/{name}", 0o755)
            for name in ("sitecustomize.py", "usercustomize.py", "conftest.py", "json.py", "x.pth"):
                with open(f"{place}/{name}", "w") as file:
                    file.write(code)
            with open(f"{place}/.bashrc", "w") as file:
                file.write(shim)


def door() -> None:
    """Connections by the hundred, half requests, garbage, an answer that is not waited for."""
    address = (urlsplit(os.environ["OPENAI_BASE_URL"]).hostname, 80)
    opened = []
    for number in range(300):
        with contextlib.suppress(OSError):
            one = socket.create_connection(address, 1)
            one.setblocking(False)
            one.send(
                (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n{", b"\0" * 4096)[number % 2]
            )
            opened.append(one)
    body = b'{"model": "any", "messages": [{"role": "user", "content": "x"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {os.environ['OPENAI_API_KEY']}\r\n"
    with contextlib.suppress(OSError), socket.create_connection(address, 1) as one:
        one.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def killing() -> None:
    """Everybody, itself last."""
    with contextlib.suppress(OSError):
        os.kill(-1, signal.SIGKILL)
    for pid in range(1, 100):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def endless() -> None:
    while True:
        pass


def asleep() -> None:
    """Its input and output open, and its children as well."""
    subprocess.Popen(["sleep", "1000"])
    time.sleep(1000)


def huge_outputs() -> None:
    with contextlib.suppress(OSError):
        for name in ("people.json", "count", "average.py"):
            with open(f"/app/{name}", "wb") as file:
                file.truncate(200 << 20)
    for _ in range(64):
        os.write(2, b"x" * (1 << 20))
    print("\nattack: huge_outputs", file=sys.stderr, flush=True)


def memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))


def threads() -> None:
    for _ in range(500):
        with contextlib.suppress(RuntimeError):
            threading.Thread(target=time.sleep, args=(30,), daemon=True).start()


def links() -> None:
    for name in ("people.json", "count", "average.py", "port.txt"):
        with contextlib.suppress(OSError):
            os.unlink(f"/app/{name}")
        os.symlink("/tests/wanted.json", f"/app/{name}")
    with contextlib.suppress(OSError):
        os.symlink("/", "/app/all")


ATTACKS = (
    reward, daemon, full_disk, fork_bomb, planted, door, killing, endless, asleep, huge_outputs, memory, threads, links,
)  # fmt: skip
