"""Every kind of news has a panel, and what is said reaches the terminal unless it is quiet."""

from types import SimpleNamespace

import pytest
from rich.console import Console

from ratchet.gateway.v1 import release_pb2
from ratchet_cli.views.progress import Terminal, _panel
from ratchet_workflows.following.pace import Count
from ratchet_workflows.following.releases import ReleaseNews
from ratchet_workflows.following.runs import RunNews
from ratchet_workflows.matrices import Cell, MatrixNews
from ratchet_workflows.progress import News


@pytest.mark.parametrize(
    ("work", "shown"),
    [
        (RunNews("run_1"), "run_1"),
        (ReleaseNews(release_pb2.Release(id="rel_1")), "rel_1"),
        (MatrixNews([Cell("starter@1", "basics", 0.0)]), "starter@1"),
        (Count("evaluating starter@2", "samples"), "evaluating starter@2"),
    ],
)
def test_every_kind_of_news_has_a_panel(work: News, shown: str) -> None:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(_panel(work)())
    assert shown in captured.get()


def test_news_of_nobody_is_a_fault_of_the_code() -> None:
    with pytest.raises(TypeError, match="has no panel"):
        _panel(SimpleNamespace(news=list))


def test_a_quiet_one_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for quiet in (True, False):
        terminal = Terminal(quiet=quiet)
        terminal.stage("train")
        terminal.say("it begins")
        count = Count("evaluating", "samples")
        with terminal.following(count) as changed:
            count.update(1, 4)
            changed()
        out, err = capfd.readouterr()
        assert ("it begins" in out, "== train" in out) == (not quiet, not quiet)
        assert ("1 of 4 samples" in err) == (not quiet)
