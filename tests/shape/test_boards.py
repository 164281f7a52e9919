"""Grafana's boards can be read, and Prometheus reads every service of docker-compose.yml."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from ratchet_testing import boards

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = ("gateway", "trainer", "rollout", "sandbox", "eval", "registry")
BOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_board_can_be_read(board: Path) -> None:
    found = boards.read(board)
    panels = found["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    spots = [(spot["x"] + i, spot["y"] + j) for spot in (panel["gridPos"] for panel in panels)
             for i in range(spot["w"]) for j in range(spot["h"])]  # fmt: skip
    assert len(set(spots)) == len(spots)
    assert max(x for x, _ in spots) == 23
    variables = {f"${one['name']}" for one in found["templating"]["list"]}
    used = set(re.findall(r"\$\w+", " ".join(boards.expressions_of(board)))) - {"$__rate_interval"}
    assert used | {"$datasource"} == variables
    assert all(panel["datasource"]["uid"] == "${datasource}" for panel in panels if panel["type"] != "row")


def test_each_board_is_another() -> None:
    assert len({boards.read(board)["uid"] for board in BOARDS}) == len(BOARDS) == 5


def test_prometheus_reads_all_six_services() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    (names,) = job["dns_sd_configs"]
    services = {name for name in compose if "build" in compose[name] and not name.endswith("-gpu")}
    assert set(names["names"]) == services == set(SERVICES)
    assert f" METRICS_PORT={names['port']} " in (DEPLOY / "docker" / "entrypoint.sh").read_text()
    mounted = [volume.split(":")[0] for name in ("prometheus", "grafana") for volume in compose[name]["volumes"]]
    assert all((ROOT / path).exists() for path in mounted if path.startswith("./"))


def _ups(last: str) -> list[dict[str, str]]:
    """The six services, of which the sandbox has other values for `up` from the third minute on."""
    values = {name: "1x10" if name != "sandbox" else f"1x2 {last}" for name in SERVICES}
    name = 'up{{job="ratchet",service="{0}",instance="{0}:9090"}}'
    return [{"series": name.format(service), "values": value} for service, value in values.items()]


def _levels(values: str) -> list[dict[str, str]]:
    return [*_ups("1x8"), {"series": 'ratchet_sandbox_level{instance="sandbox:9090"}', "values": values}]


FIRES = {
    "all is well, at L1": (_levels("1x10"), []),
    "a service hangs": (_ups("0x8"), ["RatchetServiceDown"]),
    "a service is gone": (_ups("_x8"), ["RatchetServiceDown"]),
    "the level fell": (_levels("2x2 1x8"), ["RatchetSandboxLevelFell"]),
    "the level rose": (_levels("1x2 2x8"), []),
}


@pytest.mark.parametrize("case", FIRES)
def test_an_alert_fires_when_it_should(case: str, tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine: apt-get install prometheus")
    series, wanted = FIRES[case]
    fires = "ALERTS{alertname=~'RatchetServiceDown|RatchetSandboxLevelFell',alertstate='firing'}"
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in wanted]
    test = {
        "rule_files": [str(DEPLOY / "prometheus" / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "promql_expr_test": [
                    {"expr": f"max by (alertname) ({fires})", "eval_time": "10m", "exp_samples": expected}
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    result = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
