"""Links between files of this project lead somewhere: a file that is moved takes its links along. Pages stay short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("services/*/*.md"), *ROOT.glob("libs/*/*.md")]
MOST_WORDS = 2500
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    links = [
        (found[0], (page.parent / found[1]) if found[1] else page, found[2])
        for found in LINK.finditer(page.read_text())
    ]
    assert [link for link, file, _ in links if not file.exists()] == []
    assert [link for link, file, heading in links if heading and heading not in anchors(file)] == []


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_read_in_one_sitting(page: Path) -> None:
    """A longer one has two questions: make it two pages."""
    assert len(page.read_text().split()) <= MOST_WORDS
