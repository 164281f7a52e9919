"""The chaos suite runs on the same kind of platform as the end-to-end tests."""

from tests.e2e.conftest import client, platform  # noqa: F401
