"""`ratchet train` reads its options."""

import pytest

from ratchet_cli.commands.runs import hyperparameters
from ratchet_cli.terminal.errors import CommandError


def test_hyperparameters_keep_their_kinds() -> None:
    parsed = hyperparameters(["learning_rate=1e-4", "group_size=8"])
    assert (parsed.learning_rate, parsed.group_size) == (1e-4, 8)
    assert not parsed.HasField("batch_size")
    with pytest.raises(CommandError, match="not a number"):
        hyperparameters(["group_size=8.5"])
