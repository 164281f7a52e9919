"""Every page for everybody: axe-core finds nothing serious on it, and by keyboard alone all of it is reached."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ratchet.gateway.v1.workflow_pb2 import WorkflowPlan
from ratchet_client import Client
from ratchet_client.workflows import TURN

from . import traffic
from .conftest import Screen, until
from .test_flows import grpo
from .test_forms import SOURCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.usefixtures("known")]
IMPROVE = Path(__file__).parents[2] / "examples/improve.yaml"
AXE = Path(__file__).parents[2] / ".venvs/axe/node_modules/axe-core/axe.min.js"
REACHABLE = "main :is(a[href], button, input, select, textarea, summary, [tabindex='0'])"
READY = "!document.querySelector('[aria-busy]') && !document.body.innerText.includes('Loading …')"
MARK = f"""() => {{
    const can = (node) => !node.disabled && node.checkVisibility({{ visibilityProperty: true }});
    window.unreached = new Set([...document.querySelectorAll("{REACHABLE}")].filter(can));
    addEventListener("focusin", (event) => window.unreached.delete(event.target));
    return window.unreached.size;
}}"""


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make console-test, where there is npm")
    return AXE.read_text()


@pytest.fixture
def pages(client: Client) -> Sequence[str]:
    """One of each kind; with resources that need no training, and no traffic."""
    run = next(iter(client.runs.list()), None)
    if run is None:
        run = client.runs.cancel(client.runs.create(grpo(1e-5)).id)
    experiment = next(iter(client.experiments.list()), None)
    reward = client.rewards.create("half", SOURCE)
    before, after = sorted(one.id for one in client.evaluations.list(model=traffic.MODEL))[:2]
    problem = client.evaluations.compare_sets(before, after).benchmarks[0].changed[0].problem_id
    flow = client.workflows.create(WorkflowPlan(kind=TURN, name="improve.yaml", text=IMPROVE.read_text()))
    client.workflows.cancel(flow.id)
    lists = (
        "",
        "models",
        "workflows",
        "runs",
        "releases",
        "experiments",
        "evaluations",
        "votes",
        "datasets",
        "rewards",
        "keys",
    )
    return (
        *lists,
        f"models/{traffic.MODEL}",
        f"workflows/{flow.id}",
        f"runs/{run.id}",
        f"runs/{run.id}/samples",
        "traffic",
        *(f"traffic/{one.id}" for one in list(client.traffic.list())[:1]),
        *([f"experiments/{experiment.id}"] if experiment else []),
        *(f"releases/{one.id}" for one in list(client.releases.list())[:1]),
        f"evaluations/{after}",
        f"compare/{before}/{after}",
        f"compare/{before}/{after}?benchmark={traffic.SET}&problem_id={problem}",
        f"votes?of={before},{after}&as=me",
        f"rewards/{reward.name}",
    )


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light")])
def test_axe_finds_nothing_serious(screen: Screen, axe: str, pages: Sequence[str], width: int, scheme: Any) -> None:
    page = screen.page
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    found = []
    for view in pages:
        opened(screen, view)
        page.evaluate(axe)
        result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        assert len(result["passes"]) > 10, view
        found += [
            f"{view}: {one['impact']} {one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in result["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        assert not [wrong for wrong in ("[object", "undefined", "NaN") if wrong in page.inner_text("main")], view
    assert found == []


def test_all_of_a_page_is_reached_by_keyboard(screen: Screen, pages: Sequence[str]) -> None:
    page = screen.page
    for view in pages:
        opened(screen, view)
        page.locator("h1").focus()
        for _ in range(page.evaluate(MARK) + 20):  # and a round by the header, or the browser's own
            page.keyboard.press("Tab")
        left = page.evaluate("[...window.unreached].filter((node) => node.isConnected).map((node) => node.outerHTML)")
        assert left == [], view


def opened(screen: Screen, view: str) -> None:
    """The page, all of it: what it loads has come, and what can be opened is open."""
    page = screen.page
    page.goto("about:blank")  # what a page before has begun is over
    screen.show(view)
    page.locator("h1").wait_for()
    until(lambda: page.evaluate(READY))
    page.evaluate("document.querySelectorAll('main details').forEach((one) => (one.open = true))")
    page.wait_for_timeout(300)  # and what that asks for
