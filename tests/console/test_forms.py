"""What people start, make and delete in the console; and that what others wrote is text. Behind what is in pictures."""

import json
import re
from typing import Any

import pytest

from ratchet.common.v1 import access_pb2, model_pb2
from ratchet.gateway.v1 import experiment_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client

from . import traffic
from .conftest import Screen, inert, sign_in, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.usefixtures("known")]
SAYS = "<script>window.broken = 3</script>"
SOURCE = "import json, sys\n\nprint(json.dumps([0.5 for _ in json.load(sys.stdin)]))  # <b>half</b>\n"


def form_of(screen: Screen, view: str, action: str) -> Any:
    screen.show(view)
    return screen.page.locator("form", has=screen.page.get_by_role("button", name=action))


def agree(screen: Screen, action: str) -> None:
    """Presses the button, and the one of its question, by keyboard."""
    screen.page.get_by_role("button", name=action, exact=True).focus()
    screen.page.keyboard.press("Enter")
    screen.page.get_by_role("dialog").get_by_role("button", name=action).focus()
    screen.page.keyboard.press("Enter")


def of_loud(screen: Screen) -> Any:
    """The form of an evaluation of LOUD, but for its temperature and its problems."""
    form = form_of(screen, "evaluations", "Start the evaluation")
    form.get_by_label("Version").select_option(f"{traffic.LOUD}@1")
    form.get_by_label("Maximum number of problems").fill(str(traffic.COUNT))
    form.get_by_label("Maximum tokens of an answer").fill("8")
    return form


class TestEvaluations:
    def test_one_is_started_seen_and_deleted(self, screen: Screen, client: Client) -> None:
        page, form = screen.page, of_loud(screen)
        form.get_by_label("Temperature").fill("9")
        form.get_by_label("Problems", exact=True).fill("compsoed")
        page.keyboard.press("Tab")
        form.get_by_text("must be from 0 to 5").wait_for()  # before anything is started
        form.get_by_label("Temperature").fill("0")
        page.keyboard.press("Tab")
        form.get_by_text("no benchmark 'compsoed': use one of").wait_for()
        assert form.get_by_label("Problems", exact=True).get_attribute("aria-invalid") == "true"
        form.get_by_label("Problems", exact=True).fill(traffic.SET)
        page.keyboard.press("Tab")
        form.get_by_text("Forecast: no evaluation of this model on this set in this way yet.").wait_for()
        form.get_by_role("button").click()
        page.get_by_role("heading", name=re.compile("eval_")).wait_for()
        page.locator(".state", has_text="succeeded").wait_for(timeout=120_000)
        shown = page.url.rpartition("#/")[2]
        form = of_loud(screen)
        form.get_by_label("Temperature").fill("0")
        form.get_by_label("Problems", exact=True).fill(traffic.SET)
        page.keyboard.press("Tab")
        form.get_by_text(re.compile(r"Forecast: about .* EUR, .* of CPU")).wait_for()
        screen.show(shown)
        page.get_by_role("combobox", name="Verdict").select_option(label="compile error")
        sample = page.locator("details").filter(has_text="compile error").first
        sample.locator("summary").first.click()
        assert sample.locator("pre").first.inner_text() == traffic.HOSTILE
        (one,) = client.evaluations.list(model=traffic.LOUD)
        other = next(one for one in client.evaluations.list(model=traffic.MODEL))
        screen.show(f"votes?of={one.id},{other.id}&as=you")
        page.locator("pre", has_text="<script>").first.wait_for()
        assert inert(screen)
        screen.show(f"evaluations/{one.id}")
        agree(screen, "Delete")
        page.get_by_role("heading", name="Evaluations").wait_for()
        assert list(client.evaluations.list(model=traffic.LOUD)) == []


class TestExperiments:
    def test_by_a_metric_of_ones_own_and_by_cost(self, screen: Screen, client: Client) -> None:
        page, form = screen.page, form_of(screen, "experiments", "Start the experiment")
        form.get_by_label("Control").select_option("table@1")
        form.get_by_label("Treatment").select_option("table@2")
        assert not form.get_by_label("Name of your metric").is_visible()
        form.get_by_label("Primary metric").select_option(label="one of your own, by name")
        form.get_by_label("Name of your metric").fill("Accepted")
        form.get_by_label("Of it").select_option(label="less is better")
        form.get_by_label("Guardrail").select_option(label="cost")
        form.get_by_label("Price of a million prompt tokens").fill("0.5")
        form.get_by_label("Price of a million answer tokens").fill("2")
        form.get_by_role("button").click()
        form.get_by_text("must start with a letter and hold").wait_for()
        assert page.evaluate("document.activeElement.name") == "named"
        page.keyboard.press("Control+a")
        page.keyboard.type("accepted")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=re.compile("exp_")).wait_for()
        id = page.url.rsplit("/", 1)[1]
        spec = client.experiments.get(id).spec
        assert (spec.primary.name, spec.primary.direction) == ("accepted", spec.primary.DIRECTION_LESS_IS_BETTER)
        assert [one.measure for one in spec.guardrails] == [experiment_pb2.ExperimentMetric.MEASURE_COST]
        assert (spec.price.prompt_per_million, spec.price.completion_per_million) == (0.5, 2)
        agree(screen, "Stop")
        agree(screen, "Delete")
        page.get_by_role("heading", name="Experiments").wait_for()
        assert id not in [one.id for one in client.experiments.list()]

    def test_offline_over_stored_prompts(self, screen: Screen, client: Client) -> None:
        kept = client.keys.create("a shop", [access_pb2.SCOPE_INFERENCE], keep_traffic=True)
        with Client(screen.url, kept.secret) as shop:
            for problem in traffic.problems()[:20]:
                shop.chat(traffic.MODEL, traffic.prompt(problem), temperature=0.0, max_tokens=8)
        page, form = screen.page, form_of(screen, "experiments", "Start the experiment")
        form.get_by_label("Control").select_option("table@1")
        form.get_by_label("Treatment").select_option("table@2")
        form.get_by_label("Its requests are").select_option(label="stored prompts, offline")
        assert not form.get_by_label("Minimum hours").is_visible()
        form.get_by_label("Number of latest prompts").fill("20")
        form.get_by_label("Tokens of an answer").fill("8")
        form.get_by_label("Primary metric").select_option(label="tokens")
        form.get_by_label("Guardrail").select_option(label="none")
        form.get_by_role("button").click()
        page.get_by_text("prompts replayed").wait_for()
        page.locator(".state", has_text="concluded").wait_for(timeout=120_000)
        page.get_by_text("treatment: ").first.wait_for()
        client.keys.revoke(kept.key.id)


class TestRuns:
    def test_one_is_started_and_deleted(self, screen: Screen, client: Client) -> None:
        page, form = screen.page, form_of(screen, "runs", "Start the run")
        form.get_by_label("Base").select_option("starter@1")
        form.get_by_label("Algorithm").select_option(label="sft")
        assert not form.get_by_label("Reward").is_visible()
        form.get_by_label("Algorithm").select_option(label="dpo")
        assert not form.get_by_label("Problems", exact=True).is_visible()
        form.get_by_label("Pairs").fill("nowhere.jsonl")
        page.keyboard.press("Tab")
        page.locator("#field-pairs-wrong").wait_for()
        form.get_by_label("Algorithm").select_option(label="grpo")
        form.get_by_label("Reward").fill("kindness")
        form.get_by_label("Steps", exact=True).fill("100001")
        form.get_by_label("Name").fill(SAYS)
        form.get_by_role("button").click()
        form.get_by_text("must be one of tests_passed").wait_for()
        form.get_by_text("must be from 1 to 100000").wait_for()
        form.get_by_label("Reward").fill("tests_passed")
        form.get_by_label("Steps", exact=True).fill("2")
        form.get_by_label("Maximum number of these").fill("8")
        page.keyboard.press("Tab")
        form.get_by_text("Possible: ").wait_for()
        form.get_by_role("button").click()
        page.get_by_role("heading", name=re.compile("run_")).wait_for()
        id = page.url.rsplit("/", 1)[1]
        agree(screen, "Cancel the run")
        page.locator(".state", has_text="cancelled").wait_for(timeout=120_000)
        for view in ("runs", f"runs/{id}"):
            screen.show(view)
            page.get_by_text(SAYS, exact=True).first.wait_for()
        agree(screen, "Resume")
        until(lambda: client.runs.get(id).resumes == 1)
        agree(screen, "Cancel the run")
        until(lambda: client.runs.get(id).state == trainer_pb2.Run.STATE_CANCELLED)
        agree(screen, "Delete")
        page.get_by_role("heading", name="Runs").wait_for(timeout=120_000)  # its job ends first
        assert id not in [one.id for one in client.runs.list()]
        assert inert(screen)


class TestKeys:
    def test_one_is_made_used_and_revoked(self, screen: Screen, client: Client) -> None:
        page, form = screen.page, form_of(screen, "keys", "Create the key")
        form.get_by_label("Name").fill(SAYS)
        form.get_by_label("Models that it may call").fill("Nope!")
        form.get_by_role("button").click()
        form.get_by_text("must name a model").wait_for()
        form.get_by_label("Models that it may call").fill("table, starter")
        form.get_by_label("Days until it expires").fill("2")
        page.keyboard.press("Enter")
        secret = page.get_by_label(f"Secret of {SAYS}").input_value()
        (made,) = [one for one in client.keys.list() if one.name == SAYS]
        assert (sorted(made.models), list(made.scopes)) == (["starter", "table"], [access_pb2.SCOPE_INFERENCE])
        assert made.HasField("expire_time")
        with Client(screen.url, secret) as app:
            app.chat("table", "hello", max_tokens=1)
        page.get_by_role("button", name=f"Keep traffic: {SAYS}").click()
        page.get_by_role("dialog").get_by_role("button", name="Keep").click()
        page.get_by_role("button", name=f"Forget traffic: {SAYS}").wait_for()
        page.get_by_role("button", name=f"Revoke: {SAYS}").focus()
        page.keyboard.press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        page.get_by_role("row", name=re.compile("revoked")).get_by_text(SAYS).wait_for()
        assert inert(screen)

    def test_who_revokes_their_own_is_told_and_signed_out(self, stranger: Screen, client: Client) -> None:
        made = client.keys.create("own", [access_pb2.SCOPE_ADMIN])
        sign_in(stranger, made.secret)
        page = stranger.page
        page.get_by_role("heading", name="Health").wait_for()
        stranger.show("keys")
        page.get_by_role("button", name="Revoke: own").click()
        page.get_by_text("you will be signed out").wait_for()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        page.get_by_role("heading", name="Sign in").wait_for()


class TestRewards:
    def test_what_is_registered_is_listed_and_shown(self, screen: Screen, client: Client) -> None:
        client.rewards.create("half", SOURCE, "Half of everything")
        page = screen.page
        screen.show("rewards")
        page.get_by_role("row", name=re.compile("Half of everything")).get_by_role("link", name="half@1").click()
        page.get_by_role("heading", name="half").wait_for()
        assert page.locator("pre").first.inner_text() == SOURCE


class TestDatasets:
    def test_one_is_uploaded_examined_shown_and_deleted(self, screen: Screen, client: Client) -> None:
        page, form = screen.page, form_of(screen, "datasets", "Upload")
        row = {
            "id": "a",
            "prompt": "Write add(a, b).",
            "entry_point": "add",
            "tests": [{"check": "assert add(1, 2) == 3"}],
            "references": ["def add(a, b):\n    return a + b\n"],
        }
        second = {**row, "id": "b", "prompt": "Write add for numbers of any kind.", "references": []}
        rows = "".join(f"{json.dumps(one)}\n" for one in (row, second)).encode()
        file = {"name": "train.jsonl", "mimeType": "application/jsonl", "buffer": rows}
        before = [one.name for one in client.datasets.list("")]  # of other tests
        form.get_by_label("Name").fill("No Name")
        form.get_by_label("Files").set_input_files(file)
        form.get_by_role("button", name="Upload").click()
        assert [one.name for one in client.datasets.list("")] == before, "the browser refuses the name"
        form.get_by_label("Name").fill("console")
        form.get_by_label("Licence").fill("<b>MIT")
        form.get_by_role("button", name="Upload").click()
        page.get_by_role("heading", name="console").wait_for()
        page.get_by_text("ready").first.wait_for()
        page.get_by_role("heading", name="Found in train").wait_for()
        page.get_by_text("1 problem without a reference").wait_for()
        (made,) = client.datasets.list("console")
        assert made.splits[0].rows == 2
        form = form_of(screen, "datasets", "Upload")
        form.get_by_label("Name").fill("console")
        form.get_by_label("Files").set_input_files({"name": "bad.jsonl", "mimeType": "", "buffer": b"{}\n"})
        form.get_by_role("button", name="Upload").click()
        page.get_by_text("failed").first.wait_for()
        agree(screen, "Delete")
        page.get_by_role("heading", name="Data sets", exact=True).wait_for()
        page.get_by_role("link", name="console@1").wait_for()
        assert not page.get_by_role("link", name="console@2").count()
        assert inert(screen)


class TestWhatHappensMeanwhile:
    def test_a_gateway_that_is_away_is_said_and_forgotten(self, screen: Screen) -> None:
        screen.show("keys")
        page = screen.page
        first = page.get_by_role("cell", name=re.compile("^bootstrap"))
        first.wait_for()
        page.route("**/api/v1/keys*", lambda route: route.abort())
        page.get_by_role("alert").get_by_text("The gateway does not answer").wait_for()
        assert first.is_visible()  # what was known stays
        page.unroute("**/api/v1/keys*")
        page.get_by_role("alert").wait_for(state="detached")

    def test_a_form_that_got_no_names_asks_again(self, screen: Screen) -> None:
        page = screen.page
        page.route("**/api/v1/catalogue", lambda route: route.abort())
        screen.show("evaluations")
        page.get_by_role("alert").get_by_text("The gateway does not answer").wait_for()
        page.unroute("**/api/v1/catalogue")
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("button", name="Start the evaluation").wait_for()

    def test_a_list_that_is_cut_says_so(self, screen: Screen, client: Client) -> None:
        page = screen.page

        def more(route: Any) -> None:
            found = route.fetch().json()
            route.fulfill(json={"experiments": found["experiments"][:1] * 100, "next_page_token": "more"})

        page.route("**/api/v1/experiments?*", more)
        screen.show("experiments")
        page.get_by_text("The newest 100 are shown. All of them: ratchet experiments list --limit 0").wait_for()
        page.unroute("**/api/v1/experiments?*")

    def test_the_description_of_an_experiment_is_text(self, screen: Screen, client: Client) -> None:
        description = "<img src=x onerror='window.broken = 4'>"
        variants = [
            experiment_pb2.ExperimentVariant(
                name=f"v{number}", version=model_pb2.VersionRef(model=traffic.MODEL, number=number)
            )
            for number in (1, 2)
        ]
        primary = experiment_pb2.ExperimentMetric(measure=experiment_pb2.ExperimentMetric.MEASURE_QUALITY)
        draft = client.experiments.create(
            experiment_pb2.ExperimentSpec(variants=variants, primary=primary, description=description)
        )
        screen.show(f"experiments/{draft.id}")
        screen.page.get_by_text(description).first.wait_for()
        assert inert(screen)

    def test_each_thing_fits_a_phone(self, screen: Screen, client: Client) -> None:
        page = screen.page
        page.set_viewport_size({"width": 360, "height": 700})
        one, release = next(iter(client.evaluations.list())), next(iter(client.releases.list()), None)
        for view in (
            *(f"experiments/{it.id}" for it in client.experiments.list()),
            *(f"runs/{it.id}" for it in client.runs.list()),
            *([f"releases/{release.id}"] if release else []),
            f"evaluations/{one.id}",
            "models/table",
            "rewards/half",
        ):
            screen.show(view)
            page.wait_for_timeout(500)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


def test_the_page_of_the_api_needs_no_other_host(stranger: Screen) -> None:
    """That nothing leaves this host the fixture looks at."""
    page = stranger.page
    page.goto(f"{stranger.url}/docs")
    operation = page.locator(".opblock", has_text="/api/v1/experiments/plan")
    operation.locator(".opblock-summary-control").first.click()
    operation.locator(".opblock-body").get_by_text("effect").first.wait_for()
    page.wait_for_load_state("networkidle")
