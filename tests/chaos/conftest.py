"""The chaos suite runs on the same kind of platform as the end-to-end tests, and on services without a model."""

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import client, platform  # noqa: F401

from .judges import Judges, User, two_of_each, user


@pytest.fixture(scope="session")
def judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    """Two of each service."""
    with two_of_each(tmp_path_factory.mktemp("judges")) as running:
        yield running


@pytest.fixture
def caller(judges: Judges) -> Iterator[User]:
    judges.are_up()
    with user(judges) as one:
        yield one
