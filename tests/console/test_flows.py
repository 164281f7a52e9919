"""What people do in the console, done by a browser: sign in, watch, compare, experiment, release, roll back, vote."""

import json
import re
from pathlib import Path

import pytest

from ratchet.common.v1 import access_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import preference_pb2
from ratchet.gateway.v1 import experiment_pb2, release_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import Client

from ..e2e.conftest import Platform
from . import traffic
from .conftest import Screen, inert, sign_in, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
STEPS = 6


@pytest.fixture(scope="module")
def runs(platform: Platform) -> tuple[str, str]:
    """Two runs under way."""
    with platform.client() as client:
        first, second = [client.runs.create(grpo(rate), request_id=f"console-{rate}").id for rate in (5e-5, 2e-5)]
    return first, second


def grpo(rate: float, name: str = "") -> trainer_pb2.RunSpec:
    return trainer_pb2.RunSpec(
        display_name=name or f"learning rate {rate:g}",
        base=model_pb2.ModelRef(alias=model_pb2.AliasRef(model="starter", alias="champion")),
        algorithm=trainer_pb2.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name="composed/train"),
        validation_problems=problem_pb2.ProblemSetRef(name="composed/validation", limit=8),
        reward=trainer_pb2.RewardSpec(name="tests_passed"),
        steps=STEPS,
        validate_every=2,
        seed=1,
        hyperparameters=trainer_pb2.Hyperparameters(
            batch_size=8,
            group_size=4,
            learning_rate=rate,
            max_prompt_tokens=64,
            max_response_tokens=72,
        ),
        output_model="starter",
    )


class TestSignIn:
    def test_a_key_opens_it_and_stays_in_the_tab(self, stranger: Screen, platform: Platform) -> None:
        page = stranger.page
        sign_in(stranger, "rk_wrong_0123456789abcdef0123456789")
        page.get_by_role("alert").wait_for()
        page.get_by_label("API key").press_sequentially(platform.home.admin_key())
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Health").wait_for()
        secret = platform.home.admin_key()
        assert secret not in page.url
        assert page.context.cookies() == []
        assert page.evaluate("JSON.stringify(localStorage)") == "{}"
        page.reload()
        page.get_by_role("heading", name="Health").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("API key").wait_for()
        assert page.evaluate("sessionStorage.length") == 0

    def test_a_key_for_completions_is_told_so(self, stranger: Screen, client: Client) -> None:
        made = client.keys.create("an app", [access_pb2.SCOPE_INFERENCE])
        sign_in(stranger, made.secret)
        stranger.page.get_by_text("This sign-in is for completions").wait_for()

    def test_a_key_that_is_revoked_leads_back(self, stranger: Screen, client: Client) -> None:
        made = client.keys.create("somebody", [access_pb2.SCOPE_ADMIN])
        sign_in(stranger, made.secret)
        stranger.page.get_by_role("heading", name="Health").wait_for()
        client.keys.revoke(made.key.id)
        stranger.page.get_by_role("heading", name="Sign in").wait_for()


class TestFirstLook:
    def test_where_there_is_nothing_it_says_what_to_do(self, screen: Screen) -> None:
        for view, command in (
            ("runs", "ratchet train"),
            ("releases", "ratchet deploy"),
            ("experiments", "ratchet experiments create"),
            ("evaluations", "ratchet evaluate"),
            ("votes", "ratchet evaluate"),
            ("datasets", "ratchet data add"),
            ("rewards", "ratchet new reward"),
        ):
            screen.show(view)
            screen.page.locator(".empty code", has_text=command).first.wait_for()

    def test_services_and_models(self, screen: Screen) -> None:
        services = screen.page.get_by_role("region", name="Services")
        for name in ("gateway", "trainer", "rollout", "sandbox", "eval", "registry"):
            services.get_by_role("row", name=re.compile(rf"^{name} serving")).wait_for()
        screen.page.get_by_role("link", name="starter", exact=True).click()
        screen.page.get_by_role("region", name="Versions").get_by_text("@1").wait_for()
        screen.page.get_by_text("first version").wait_for()
        screen.page.get_by_role("link", name="@1", exact=True).click()
        screen.page.get_by_text("Nobody has asked this version for a week.").wait_for()

    def test_by_keyboard_and_on_a_phone(self, screen: Screen) -> None:
        page = screen.page
        page.keyboard.press("Tab")
        for _ in range(30):
            if page.evaluate("document.activeElement.textContent") == "Runs":
                break
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Runs").wait_for()
        assert page.evaluate("document.activeElement.tagName") == "H1"
        page.set_viewport_size({"width": 360, "height": 700})
        for view in (
            "",
            "models",
            "runs",
            "releases",
            "experiments",
            "evaluations",
            "traffic",
            "votes",
            "datasets",
            "rewards",
            "keys",
        ):
            screen.show(view)
            page.wait_for_timeout(500)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


@pytest.mark.usefixtures("known")
class TestEvaluations:
    def test_two_side_by_side_down_to_both_answers(self, screen: Screen, client: Client) -> None:
        page = screen.page
        of = {one.version.number: one.id for one in client.evaluations.list(model=traffic.MODEL)}
        screen.show("evaluations")
        for number in (1, 2):
            page.get_by_label(f"Compare {of[number]}").check()
        assert page.url.endswith(f"compare={of[1]},{of[2]}")
        page.reload()
        page.get_by_role("link", name="Compare", exact=True).click()
        page.get_by_text("The candidate is better: +0.500 in pass@1").wait_for()
        screen.picture("comparison")
        rows = page.get_by_role("region", name=f"Won and lost: {traffic.SET}").locator("tbody tr")
        assert [text.split()[1] for text in rows.all_inner_texts()] == ["won"] * (traffic.COUNT // 2)
        problem = rows.first.get_by_role("link")
        id = problem.inner_text()
        problem.focus()
        page.keyboard.press("Enter")
        asked = next(one for one in traffic.problems() if one.id == id)
        page.get_by_text(asked.prompt).first.wait_for()
        sides = page.locator(".pair > section")
        wrong, right = sides.all_inner_texts()
        assert (wrong.partition("\n")[0], right.partition("\n")[0]) == ("Baseline: table@1", "Candidate: table@2")
        assert (traffic.WRONG in wrong, asked.references[0].strip() in right) == (True, True)
        cells = sides.first.get_by_role("region", name="Failed tests").locator("tbody tr").first.locator("td")
        test, expected, got = cells.all_inner_texts()
        assert (test.startswith("solve("), expected == got) == (True, False)
        screen.picture("answers")
        page.set_viewport_size({"width": 390, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("link", name="All that was won and lost").click()
        page.get_by_text("The candidate is better").wait_for()

    def test_samples_are_shown_by_verdict(self, screen: Screen, client: Client) -> None:
        page, one = screen.page, next(iter(client.evaluations.list(model=traffic.MODEL)))
        screen.show(f"evaluations/{one.id}")
        sample = page.locator("details", has_text="#0").first
        sample.locator("summary").first.click()
        sample.get_by_role("heading", name="Prompt").wait_for()
        for fact in ("used", "forecast"):
            row = page.locator(".facts > div", has=page.locator("dt", has_text=fact))
            row.get_by_text("of CPU in the sandbox").wait_for()
        page.get_by_text(re.compile(r"EUR, .* EUR for 1,000 answers")).wait_for()
        page.get_by_label("Verdict", exact=True).select_option("tampered")
        page.get_by_text("This sample does not exist.").wait_for()

    def test_a_gate_says_what_each_point_cost(self, screen: Screen) -> None:
        page = screen.page
        screen.show(f"models/{traffic.MODEL}")
        cost = page.get_by_role("region", name="Gates").locator("details")
        cost.locator("summary").click()
        cost.get_by_text(re.compile(r"EUR, .* EUR for each point gained")).wait_for()

    def test_an_episode_is_shown_step_by_step(self, screen: Screen, platform: Platform) -> None:
        tasks = Path(__file__).parents[2] / "examples/tasks"
        assert platform.ratchet("data", "add", "--name", "agents", str(tasks)).returncode == 0
        made = platform.ratchet(
            *("evaluate", "--model", "starter", "--benchmark", "agents", "--samples", "1", "--json"),
            *("--", "bash", "-c", "echo '<img src=x>' > people.json; echo printed"),
        )
        if "task folders need a node at L2" in made.stderr:
            pytest.skip("this machine has no namespaces")
        page = screen.page
        screen.show(f"evaluations/{json.loads(made.stdout)['id']}")
        page.get_by_text("an episode, on average").wait_for()
        sample = page.locator("details", has_text="ratchet/csv-to-json").first
        sample.locator("summary").first.click()
        sample.get_by_text("Episode, step by step").click()
        sample.get_by_role("heading", name="added: app/people.json").wait_for()
        said = sample.locator(".episode").inner_text()
        assert all(one in said for one in ("printed", "+<img src=x>", "the judge: reward 0")), said
        assert inert(screen)

    def test_the_list_is_filtered_and_sorted_by_the_address(self, screen: Screen) -> None:
        page = screen.page
        screen.show(f"evaluations?model={traffic.MODEL}&state=succeeded&order=by+score")
        rows = page.get_by_role("region", name="Evaluations").locator("tbody tr")
        rows.first.wait_for()
        scores = [float(text.split()[1]) for text in rows.locator("td[data-name=score]").all_inner_texts()]
        assert scores == sorted(scores, reverse=True)
        assert all(
            name.startswith(f"{traffic.MODEL}@") for name in rows.locator("td[data-name=model]").all_inner_texts()
        )
        page.get_by_label("In state").select_option("failed")
        page.get_by_text("No evaluation is like that.").wait_for()
        assert "state=failed" in page.url
        page.reload()
        page.get_by_text("No evaluation is like that.").wait_for()
        page.get_by_label("In state").select_option("")
        rows.first.wait_for()
        assert "state=" not in page.url

    def test_votes(self, screen: Screen, client: Client) -> None:
        page = screen.page
        ids = [one.id for one in client.evaluations.list(model=traffic.MODEL)]

        def voted() -> int:
            return sum(pair.choice != preference_pb2.CHOICE_UNSPECIFIED for pair in client.preferences.list())

        start = voted()
        screen.show(f"votes?of={','.join(ids[:2])}&as=me")
        for number in range(4):
            until(page.get_by_role("button", name="No difference").is_enabled)
            before = page.get_by_label("Left answer").inner_text()
            if number == 3:
                screen.picture("votes")
            page.keyboard.press("3" if before == traffic.WRONG else "1")
            page.get_by_text(f"over {start + number + 1} votes").wait_for()
        assert voted() == start + 4


@pytest.mark.usefixtures("known")
class TestTraffic:
    def test_an_episode_of_production_step_by_step(self, screen: Screen, client: Client) -> None:
        kept = client.keys.create("an agent", [access_pb2.SCOPE_INFERENCE], keep_traffic=True)
        question = {"role": "user", "content": traffic.prompt(traffic.problems()[0])}
        with Client(screen.url, kept.secret) as agent:
            first = agent.chat(traffic.MODEL, [question], max_tokens=8)
            said = {"role": "assistant", "content": first.text}
            again = {"role": "user", "content": "Are you sure?"}
            second = agent.chat(traffic.MODEL, [question, said, again], max_tokens=8)
            agent.feedback(second.id, score=0.5)
        page = screen.page
        screen.show(f"traffic?key_id={kept.key.id}")
        rows = page.locator("details.sample")
        until(lambda: rows.count() == 2)
        assert "Are you sure?" in rows.first.inner_text()
        assert "score 0.5" in rows.first.inner_text()
        rows.last.locator("summary").first.click()
        rows.last.get_by_text("Episode, step by step").click()
        rows.last.get_by_role("heading", name="answer 2: ").wait_for()
        steps = rows.last.locator("h4").all_inner_texts()
        assert [step.split(":")[0] for step in steps] == ["user", "answer 1", "user", "answer 2"]
        assert rows.last.get_by_text(", score 0.5").count() == 1
        rows.last.get_by_role("link", name=first.id).click()
        page.get_by_role("heading", name="answer 2: ").wait_for()
        client.keys.revoke(kept.key.id)

    def test_an_experiment_from_its_form_to_its_conclusion(self, screen: Screen, client: Client) -> None:
        page = screen.page
        screen.show("experiments")
        form = page.locator("form")
        form.get_by_label("Control").select_option("table@1")
        form.get_by_label("Treatment").select_option("table@2")
        form.get_by_label("Minimum hours").fill("0")
        form.get_by_label("Minimum units of each variant").fill("20")
        form.get_by_label("Description").fill("Is table@2 worth its release?")
        page.get_by_role("button", name="Start the experiment").click()
        page.get_by_role("heading", name=re.compile("exp_")).wait_for()
        id = page.url.rsplit("/", 1)[1]
        with traffic.users(client) as answered:
            until(lambda: answered() >= 200)
        until(lambda: "treatment: better in quality" in client.experiments.get(id).report.conclusion)
        page.reload()
        page.get_by_text("treatment: better in quality").first.wait_for()
        closing = page.get_by_role("group", name="treatment minus control, quality")
        closing.get_by_role("img").wait_for()
        page.get_by_role("button", name="Conclude").click()
        page.get_by_role("dialog").get_by_label("Reason").fill("it is clear")
        page.get_by_role("dialog").get_by_role("button", name="Conclude").click()
        page.get_by_text("it is clear").wait_for()
        ended = client.experiments.get(id, points=24)
        assert ended.state == experiment_pb2.Experiment.STATE_CONCLUDED
        assert len(ended.past) == 24
        screen.picture("experiment")
        screen.show("experiments")
        page.get_by_role("link", name=id).wait_for()
        screen.show(f"models/{traffic.MODEL}/2")
        page.get_by_text(re.compile(r"\d+ answers cost .* EUR, .* EUR for 1,000 answers\.")).wait_for()

    def test_a_release_from_its_form_to_its_rollback(self, screen: Screen, client: Client) -> None:
        page = screen.page
        screen.show("releases")
        form = page.locator("form")
        form.get_by_label("Stages").fill("20, 100")
        form.get_by_label("Minimum minutes").fill("20")
        form.get_by_label("Minimum answers").fill("20")
        page.get_by_role("button", name="Start the release").click()
        page.get_by_role("heading", name=re.compile("rel_")).wait_for()
        id = page.url.rsplit("/", 1)[1]
        until(lambda: client.releases.get(id).state == release_pb2.Release.STATE_PROGRESSING)
        with traffic.users(client) as answered:
            until(lambda: answered() >= 200)
        page.get_by_role("img", name=re.compile("Bounds")).wait_for()
        page.get_by_text("20 % to the candidate").wait_for()
        screen.picture("release")
        page.get_by_role("button", name="Roll back").click()
        dialog = page.get_by_role("dialog")
        dialog.wait_for()
        page.keyboard.press("Escape")
        dialog.wait_for(state="detached")
        assert client.releases.get(id).state == release_pb2.Release.STATE_PROGRESSING
        page.get_by_role("button", name="Roll back").click()
        dialog.get_by_label("Reason").fill("customers complain <script>window.broken = 5</script>")
        dialog.get_by_role("button", name="Roll back").click()
        page.locator(".state", has_text="rolled back").wait_for()
        assert client.releases.get(id).percent == 0
        assert page.get_by_role("button", name="Roll back").count() == 0
        page.get_by_text("customers complain <script>").first.wait_for()
        assert inert(screen)

    def test_what_the_api_refuses_is_shown_in_the_form(self, screen: Screen) -> None:
        screen.show("experiments")
        page = screen.page
        page.get_by_label("Minimum units of each variant").fill("9999999999999")
        page.get_by_role("button", name="Start the experiment").click()
        page.get_by_text("Correct the marked fields above.").wait_for()
        page.get_by_text("must be from 0 to").wait_for()
        assert page.evaluate("document.activeElement.name") == "units"


class TestRuns:
    """Last: training takes the longest."""

    def test_curves_come_while_it_runs(self, screen: Screen, client: Client, runs: tuple[str, str]) -> None:
        page = screen.page
        screen.show(f"runs/{runs[0]}")
        curve = page.get_by_role("group", name="Reward, mean of a step").get_by_role("img")
        curve.wait_for(timeout=400_000)
        assert client.runs.get(runs[0]).state == trainer_pb2.Run.STATE_RUNNING
        until(lambda: client.runs.get(runs[0]).step >= STEPS, 400)
        last = [one.metrics["reward_mean"] for one in client.runs.steps(runs[0]) if "reward_mean" in one.metrics][-1]
        until(lambda: float(curve.get_attribute("aria-label").rpartition(" ")[2]) == pytest.approx(last, rel=0.01))
        page.locator(".state", has_text="succeeded").wait_for(timeout=200_000)
        page.get_by_text(re.compile(r"of CPU, .* tokens in, .* out")).wait_for()
        page.get_by_role("link", name=re.compile(r"starter@\d")).first.wait_for()

    def test_the_worst_answers_of_a_step_and_why_take_three_clicks(
        self, screen: Screen, client: Client, runs: tuple[str, str]
    ) -> None:
        page, id = screen.page, runs[0]
        until(lambda: client.runs.get(id).step >= 2, 400)
        worst, *_ = client.runs.samples(id, step=2)
        screen.show("runs")
        page.get_by_role("link", name=id).click()
        page.get_by_role("link", name="Samples").click()
        page.get_by_label("Step").fill("2")
        page.keyboard.press("Tab")
        first = page.locator("details.sample").first
        until(lambda: first.locator("summary").inner_text().startswith("step 2 "))
        assert page.url.endswith(f"runs/{id}/samples?step=2")
        first.locator("summary").click()
        first.get_by_role("link", name=worst.id, exact=True).wait_for()
        assert worst.completion.strip() in first.inner_text()
        screen.picture("samples")
        page.set_viewport_size({"width": 360, "height": 700})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        first.get_by_role("link", name=worst.problem_id).click()  # the problem over the steps
        until(lambda: page.get_by_label("Problem").input_value() == worst.problem_id)
        page.locator("details.sample").first.wait_for()
        page.get_by_label("Verdict").select_option("tampered")
        page.get_by_text("No such sample is kept.").wait_for()
        screen.show(f"runs/{id}/samples/{worst.id}")
        page.get_by_text("Prompt", exact=True).wait_for()

    def test_two_side_by_side(self, screen: Screen, client: Client, runs: tuple[str, str]) -> None:
        page = screen.page
        until(lambda: client.runs.get(runs[1]).step >= STEPS, 500)
        screen.show("runs")
        for id in runs:
            page.get_by_label(f"Curves of {id}").check()
        curve = page.get_by_role("group", name="Reward, mean of a step").get_by_role("img")
        until(lambda: all(id in (curve.get_attribute("aria-label") or "") for id in runs))
        for measure in ("KL", "Tokens of an answer, mean", "Validation score"):
            page.get_by_role("group", name=measure, exact=True).wait_for()
        assert page.url.endswith(f"show={runs[0]},{runs[1]}")
        differs = page.get_by_role("region", name="What differs")
        assert [row.inner_text().split() for row in differs.get_by_role("row").all()][1:] == [
            ["hyperparameters.learning_rate", "0.00005", "0.00002"]
        ]
        legend = page.get_by_role("group", name="KL", exact=True).locator(".u-legend")
        assert "learning rate 5e-05" in legend.inner_text()
        raw = curve.get_attribute("aria-label")
        page.get_by_label("Smoothing").select_option("much")
        until(lambda: curve.get_attribute("aria-label") != raw)
        page.get_by_label("Smoothing").select_option("none")
        until(lambda: curve.get_attribute("aria-label") == raw)
        page.get_by_label("Logarithmic axis").check()
        until(lambda: curve.get_attribute("aria-label") == raw)
        page.get_by_label("Logarithmic axis").uncheck()
        screen.picture("runs")
        screen.picture("runs-dark", dark=True)
        page.reload()
        until(lambda: all(id in (curve.get_attribute("aria-label") or "") for id in runs))
        page.get_by_label(f"Curves of {runs[0]}").uncheck()
        until(lambda: runs[0] not in (curve.get_attribute("aria-label") or ""))

    def test_what_a_run_will_take_is_said_before(self, screen: Screen) -> None:
        page = screen.page
        screen.show("runs")
        page.get_by_label("Steps", exact=True).fill("200")
        page.keyboard.press("Tab")
        page.get_by_text(re.compile("Possible: a step may take .*, its training .* of memory")).wait_for()
        screen.picture("run-form")

    def test_what_is_wrong_is_said_below_its_field_and_stays(self, screen: Screen) -> None:
        page = screen.page
        screen.show("runs")
        steps = page.get_by_label("Steps", exact=True)
        steps.fill("-1")
        page.get_by_label("Name", exact=True).fill("one")
        page.keyboard.press("Tab")
        wrong = page.locator(".wrong", has_text="greater than or equal to 1")
        wrong.wait_for()
        page.get_by_label("Name", exact=True).fill("another")
        assert (wrong.count(), steps.get_attribute("aria-invalid")) == (1, "true")
        steps.fill("2")
        assert wrong.count() == 0

    def test_the_version_names_the_run(self, screen: Screen, client: Client, runs: tuple[str, str]) -> None:
        until(lambda: client.runs.get(runs[0]).version.number, 400)
        version = client.runs.get(runs[0]).version
        screen.show("models/starter")
        row = screen.page.get_by_role("region", name="Versions").get_by_role(
            "row", name=re.compile(f"@{version.number} ")
        )
        row.get_by_role("link", name=runs[0]).wait_for()
        screen.picture("model")
        client.chat("starter", "say hi", max_tokens=4)
        screen.show()
        screen.page.get_by_role("region", name="Engines").get_by_text("starter@1").wait_for()
        screen.picture("health")
        until(lambda: client.models.version_health("starter", 1).days)  # an answer is counted after it is given
        screen.show("models/starter")
        screen.page.get_by_role("link", name="@1", exact=True).click()
        traffic = screen.page.get_by_role("region", name="Traffic by day and arm")
        assert traffic.get_by_role("row").nth(1).inner_text().split()[1:4] == ["none", "1", "0"]
