"""The page of a data set."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from google.protobuf.duration_pb2 import Duration

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_reports import datasets
from ratchet_reports.datasets import MOST_SHOWN

from .test_page import LOADS

NEAR, SECRET = pb.Finding.KIND_NEAR_DUPLICATE, pb.Finding.KIND_SECRET
OPEN, ACCEPTED = pb.Finding.STATE_OPEN, pb.Finding.STATE_ACCEPTED
QUANTILES = pb.Quantiles(least=1, p5=2, p25=3, median=4, p75=5, p95=6, most=7)
TEXTS = {"train": {"t1": "<b>Sort it.</b>"}, "mbpp": {"Mbpp/1": "Order it."}}


def texts(name: str, ids: Collection[str]) -> Mapping[str, str]:
    return {id: text for id, text in TEXTS.get(name, {}).items() if id in ids}


def dataset(*, measured: bool = True) -> pb.Dataset:
    split = pb.DatasetSplit(
        name="train", rows=3, digest="sha256:abcdefabcdef", compared_sets=2, compared_problems=1_500
    )
    split.notices.append("1 problem <without> a reference")
    if measured:
        counts = [pb.Count(name=f"tag{place}", problems=3) for place in range(20)]
        split.balance.CopyFrom(pb.Balance(tags=counts, prompt=QUANTILES, reference=QUANTILES, tests=QUANTILES))
        runs = pb.ReferenceRuns(problems=3, strict=1, shared=1, cpu_time=QUANTILES, memory_bytes=QUANTILES)
        runs.cpu_time_limit.CopyFrom(Duration(seconds=60))
        runs.memory_limit_bytes = 256 << 20
        split.references.CopyFrom(runs)
    return pb.Dataset(name="mine", number=1, state=pb.Dataset.STATE_READY, splits=[split])


def written(found: pb.Dataset, findings: list[pb.Finding], folder: Path) -> str:
    client: Any = SimpleNamespace(datasets=SimpleNamespace(findings=lambda name, number: iter(findings)))
    datasets.write(datasets.gather(client, found, texts), folder / "data.html")
    return (folder / "data.html").read_text()


def test_a_page_shows_pairs_side_by_side_and_who_decided(tmp_path: Path) -> None:
    decision = pb.FindingDecision(reason="Another <task>.", actor="key_1", dataset="mine@1")
    near = pb.Finding(
        kind=NEAR, split="train", problem="t1", other_set="mbpp", other="Mbpp/1", state=ACCEPTED, decision=decision
    )
    secrets = [
        pb.Finding(kind=SECRET, split="train", problem=f"s{place}", state=OPEN) for place in range(MOST_SHOWN + 1)
    ]
    html = written(dataset(), [near, *secrets], tmp_path)
    assert not LOADS.search(html)
    for text in (
        "&lt;b&gt;Sort it.&lt;/b&gt;",
        "Order it.",
        "1 of near-duplicate like mbpp in train",
        "Another &lt;task&gt;.",
        "1 problem &lt;without&gt; a reference",
        "1,500 problems of 2 other sets",
        f"11: 11 open; the first {MOST_SHOWN} are shown",
        "2 of 3",
        "60 s of CPU time, 256 MiB",
        "by tag, the 15 most frequent",
    ):
        assert text in html, text
    assert f"s{MOST_SHOWN} " not in html


def test_a_version_without_findings_says_what_there_is_to_do(tmp_path: Path) -> None:
    html = written(dataset(measured=False), [], tmp_path)
    assert "Examination found nothing." in html
    assert "ratchet benchmarks verify mine@1/train" in html
