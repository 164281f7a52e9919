"""Grafana's boards can be read, and Prometheus reads every service of docker-compose.yml."""

import re
import shutil
import subprocess
from collections.abc import Mapping
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
    assert len({boards.read(board)["uid"] for board in BOARDS}) == len(BOARDS) == 7


def test_prometheus_reads_all_six_services() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    jobs = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    names, *exporters = (names for job in jobs for names in job["dns_sd_configs"])
    assert all(compose[name]["profiles"] for one in exporters for name in one["names"])
    services = {name for name in compose if "SERVICE" in compose[name].get("build", {}).get("args", {})}
    services = {name for name in services if not name.endswith("-gpu")}
    assert set(names["names"]) == services == set(SERVICES)
    assert f" METRICS_PORT={names['port']} " in (DEPLOY / "docker" / "entrypoint.sh").read_text()
    mounted = [
        volume.split(":")[0]
        for name in ("prometheus", "alertmanager", "grafana", "node-exporter")
        for volume in compose[name]["volumes"]
    ]
    assert all((ROOT / path).exists() for path in mounted if path.startswith("./"))


def up(**others: str) -> dict[str, str]:
    """Of the six services, each of which answers unless `others` has its values."""
    name = 'up{{job="ratchet",service="{0}",instance="{0}:9090"}}'
    return {name.format(service): others.get(service, "1x40") for service in SERVICES}


NOTHING, ONCE, EACH_MINUTE = "0x40", "0x25 1x15", "0+1x40"
HANDLED, PROGRAMS = "ratchet_gateway_http_handled_total", "ratchet_sandbox_programs_total"
FAULTS, LEVEL = (
    'ratchet_background_faults_total{instance="a",work="tidy"}',
    'ratchet_sandbox_level{instance="sandbox:9090"}',
)
ANSWERS = "ratchet_gateway_answers_total"
DROPPED, SET_ASIDE = "ratchet_gateway_records_dropped_total", "ratchet_gateway_records_set_aside_total"
Series = Mapping[str, str]
WORLDS: Mapping[str, tuple[Series, Series]] = {
    "RatchetServiceDown": (up(sandbox="1x2 _x37"), up()),
    "RatchetGatewayErrors": (
        {f'{HANDLED}{{status="503"}}': "0+2x40", f'{HANDLED}{{status="200"}}': "0+98x40"},
        {f'{HANDLED}{{status="503"}}': "0+1x40", f'{HANDLED}{{status="404"}}': "0+199x40"},
    ),
    "RatchetNoRolloutNode": (
        {'ratchet_rollout_nodes{instance="a",state="up"}': "0x40"},
        {'ratchet_rollout_nodes{instance="a",state="up"}': "1x40"},
    ),
    "RatchetRolloutNodeAway": (
        {'ratchet_rollout_nodes{instance="a",state="away"}': "1x40"},
        {'ratchet_rollout_nodes{instance="a",state="away"}': "0x26 1x3 0x9"},  # for three minutes
    ),
    "RatchetEngineDied": (
        {'ratchet_rollout_engine_deaths_total{policy="p"}': ONCE},
        {'ratchet_rollout_engine_deaths_total{policy="p"}': "1x40"},
    ),
    "RatchetReleaseSetAside": (
        {"ratchet_gateway_releases_set_aside_total": ONCE},
        {"ratchet_gateway_releases_set_aside_total": "1x40"},
    ),
    "RatchetChampionAway": (
        {f'{ANSWERS}{{model="m",arm="fallback"}}': "0+60x40", f'{ANSWERS}{{model="m",arm="none"}}': "0x40"},
        {f'{ANSWERS}{{model="m",arm="fallback"}}': "0+6x40", f'{ANSWERS}{{model="m",arm="none"}}': "0+54x40"},
    ),
    "RatchetChampionWorse": (
        {'ratchet_gateway_drift{model="m",version="2",bound="quality"}': "1x40"},
        {'ratchet_gateway_drift{model="m",version="2",bound="quality"}': "0x40"},
    ),
    "RatchetRecordsLost": ({DROPPED: NOTHING, SET_ASIDE: ONCE}, {DROPPED: NOTHING, SET_ASIDE: NOTHING}),
    "RatchetRunStartsAgain": (
        {'ratchet_trainer_run_attempt{run_id="r"}': "2x9 3x30"},
        {'ratchet_trainer_run_attempt{run_id="r"}': "1x9 2x30"},
    ),
    "RatchetPlatformFaults": (
        {"ratchet_sandbox_platform_faults_total": EACH_MINUTE},
        {"ratchet_sandbox_platform_faults_total": ONCE, 'ratchet_eval_platform_faults_total{error="a"}': ONCE},
    ),
    "RatchetSandboxRefuses": (
        {'ratchet_sandbox_refused_total{instance="a"}': EACH_MINUTE},
        {'ratchet_sandbox_refused_total{instance="a"}': "0x26 9x13"},  # for a moment
    ),
    "RatchetSandboxLevelFell": ({LEVEL: "2x20 1x19"}, {LEVEL: "1x20 2x19"}),
    "RatchetTampering": (
        {f'{PROGRAMS}{{verdict="tampered"}}': "0+5x40", f'{PROGRAMS}{{verdict="passed"}}': "0+95x40"},
        {f'{PROGRAMS}{{verdict="tampered"}}': "0+1x40", f'{PROGRAMS}{{verdict="passed"}}': "0+99x40"},
    ),
    "RatchetDeadLetters": (
        {'ratchet_queue_dead_letters_total{stream="s"}': ONCE},
        {'ratchet_queue_dead_letters_total{stream="s"}': "1x40"},
    ),
    "RatchetBackgroundFaults": ({FAULTS: EACH_MINUTE}, {FAULTS: "0x26 5x13"}),
}
"""Of each alert: a world in which it must fire, and one in which it must not; by minutes."""
MORE = {
    "a service hangs": (up(gateway="0x40"), {"RatchetServiceDown"}),
    "plain Docker, at L1": ({LEVEL: "1x40"}, set[str]()),
    "nobody calls": ({f'{HANDLED}{{status="503"}}': NOTHING, f'{PROGRAMS}{{verdict="tampered"}}': NOTHING}, set[str]()),
}
CASES = [
    *((f"{name} fires", fires, {name}) for name, (fires, _) in WORLDS.items()),
    *((f"{name} does not", quiet, set[str]()) for name, (_, quiet) in WORLDS.items()),
    *((name, series, wanted) for name, (series, wanted) in MORE.items()),
]


def test_every_alert_has_its_worlds() -> None:
    (group,) = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())["groups"]
    assert [rule["alert"] for rule in group["rules"]] == list(WORLDS)
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert [name for name in WORLDS if f"| `{name}` |" not in page] == []


@pytest.mark.parametrize(("case", "series", "wanted"), CASES, ids=[name for name, *_ in CASES])
def test_an_alert_fires_when_it_should(case: str, series: Series, wanted: set[str], tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool on this machine: apt-get install prometheus")
    fires = "max by (alertname) (ALERTS{alertstate='firing'})"
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in wanted]
    given = [{"series": name, "values": values} for name, values in (up() | dict(series)).items()]
    test = {
        "rule_files": [str(DEPLOY / "prometheus" / "alerts.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": given,
                "promql_expr_test": [{"expr": fires, "eval_time": "30m", "exp_samples": expected}],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    result = subprocess.run(["promtool", "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
