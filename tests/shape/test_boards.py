"""Grafana's boards can be read, and Prometheus reads every service of docker-compose.yml."""

import re
from pathlib import Path

import pytest
import yaml

from ratchet_testing import boards

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
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
    assert set(names["names"]) == services
    assert len(services) == 6
    assert f" METRICS_PORT={names['port']} " in (DEPLOY / "docker" / "entrypoint.sh").read_text()
    mounted = [volume.split(":")[0] for name in ("prometheus", "grafana") for volume in compose[name]["volumes"]]
    assert all((ROOT / path).exists() for path in mounted if path.startswith("./"))
