"""Links between files of this project lead somewhere: a file that is moved takes its links along."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("services/*/*.md"), *ROOT.glob("libs/*/*.md")]
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#]+)(#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    links = [found[1] for found in LINK.finditer(page.read_text())]
    assert [link for link in links if not (page.parent / link).exists()] == []
