"""The page: one file that loads nothing, whatever it is made of."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_kit.statistics import Estimate
from ratchet_reports import page
from ratchet_reports.document import QualityRow, Report
from ratchet_reports.gather import gather

from .evaluations import Evaluations, comparison, estimate, evaluation, sample

LOADS = re.compile(r"<script|<link|<iframe|<img|@import|url\((?!#)|(?:src|href)=\"(?!#)", re.IGNORECASE)


def made(count: int, names: Sequence[str] = ("basics",), problems: int = 3, k: Sequence[int] = (1,)) -> Report:
    found = []
    for number in range(count):
        it = evaluation(f"e{number}", f"<b>model</b>@{number}", *names)
        it.samples_done, it.usage.cost, it.usage.currency = 500, 2.0, "EUR"
        for score in it.benchmarks:
            del score.pass_at_k[:]
            score.pass_at_k.extend(pb.PassAtK(k=one, estimate=estimate(0.5)) for one in k)
        samples = [sample(f"p{p}", (p + number) % 2 == 0, name) for name in names for p in range(problems)]
        found.append((it, samples))
    client = Evaluations(found)
    for number in range(1, count):
        reply = pb.CompareEvaluationsResponse(comparison=comparison(0.1))
        for name in names:
            reply.benchmarks.add(name=name, comparison=comparison(0.1))
        client.comparisons["e0", f"e{number}"] = reply
    return gather(client, {it.id: "" for it, _ in found}, "e0", "Report", lambda done, total: None)  # type: ignore[arg-type]


def written(report: Report, folder: Path) -> str:
    page.write(report, folder / "out" / "report.html")
    return (folder / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    "report",
    [made(1), made(2, k=(1, 5)), made(6, k=(1, 5)), made(2, ("basics", "other")), made(1, problems=0)],
    ids=["one", "curves", "many", "suite", "nothing yet"],
)
def test_a_page_loads_nothing(report: Report, tmp_path: Path) -> None:
    html = written(report, tmp_path)
    assert not LOADS.search(html)
    assert "<b>model</b>" not in html
    assert html.count("<svg") == html.count('role="img"')


def test_it_says_what_each_evaluation_cost(tmp_path: Path) -> None:
    assert written(made(2), tmp_path).count("<td>2.00 EUR, 4.00 EUR for 1,000 answers</td>") == 2


def test_a_map_of_many_problems_stays_small(tmp_path: Path) -> None:
    html = written(made(2, problems=1140), tmp_path)
    assert html.count("<title>") == 1140 * 2 + 1
    assert len(html) < 1_000_000


def test_quality_is_shown_where_there_is_some(tmp_path: Path) -> None:
    report = made(1)
    assert "Quality beyond" not in written(report, tmp_path)
    row = QualityRow("e0", "basics", 3, {"style": Estimate(0.75, 0.5, 1.0)})
    html = written(Report(report.title, report.create_time, report.evaluations, (), (row,)), tmp_path)
    assert "Quality beyond" in html
    assert "0.750" in html


def test_what_is_refused_and_partial_is_said(tmp_path: Path) -> None:
    running = evaluation("e1", "m", "basics", state="RUNNING")
    client = Evaluations([(running, []), (evaluation("e2", "n", "basics"), [])])
    report = gather(client, {"e1": "", "e2": ""}, "e1", "Report", lambda done, total: None)  # type: ignore[arg-type]
    html = written(report, tmp_path)
    assert "is still running" in html
    assert "they measure different problems" in html
