"""`ratchet report` against an HTTP server in the gateway's place."""

import json
from pathlib import Path
from typing import Any

from ratchet_testing.gateway import ScriptedGateway

ESTIMATE = {"value": 0.5, "low": 0.4, "high": 0.6}


def test_a_report_is_a_page_and_its_numbers(
    ratchet: Any, gateway: ScriptedGateway, monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATCHET_URL", gateway.url)
    gateway.answers(
        *(
            {
                "evaluation": {
                    "id": id,
                    "state": "STATE_SUCCEEDED",
                    "spec": {"model": {"model": id}, "problems": {"name": "basics"}},
                    "benchmarks": [{"problems": {"name": "basics"}, "pass_at_k": [{"k": 1, "estimate": ESTIMATE}]}],
                }
            }
            for id in ("eval_b", "eval_a")
        ),
        *({"samples": [{"problem_id": "p1", "verdict": "VERDICT_PASSED"}]} for _ in range(2)),
        {"comparison": {"difference": ESTIMATE, "problems": 1}},
    )
    out, numbers = tmp_path / "report.html", tmp_path / "report.json"
    result = ratchet("report", "tuned=eval_a", "--baseline", "eval_b", "--out", str(out), "--json", str(numbers))
    assert result.returncode == 0, result.stderr
    assert "eval_a" in out.read_text()
    found = json.loads(numbers.read_text())
    assert [(it["id"], it["label"]) for it in found["evaluations"]] == [("eval_b", "eval_b"), ("eval_a", "tuned")]
    assert found["comparisons"][0]["sets"][0]["difference"]["value"] == 0.5
    assert gateway.received[-1].body == {"baseline_id": "eval_b", "candidate_id": "eval_a"}
