"""A gate judges by problems that training never saw, and what was looked at on them costs confidence."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ratchet_kit.names import VersionRef
from ratchet_kit.sql import Database
from ratchet_kit.statistics import Estimate
from ratchet_problems import Problem
from ratchet_problems.near.sketches import sketch
from ratchet_testing.clock import ManualClock
from registry_service.adapters.alike import FsspecSketchStore
from registry_service.adapters.sql.datasets import SqlDatasetStore
from registry_service.adapters.sql.findings import SqlFindingStore
from registry_service.domain.dataset import Card, DatasetSpec, Upload
from registry_service.domain.evidence import SetComparison
from registry_service.domain.finding import Decision, Finding, FindingState, Kind, Rule
from registry_service.domain.gate import Gate, GateSpec, State
from registry_service.domain.gate_rules import GateRules, Guard
from registry_service.domain.version import Lineage, VersionSpec

from ..conftest import NOW, ModelFolder, Registry, comparison, opened, starter
from ..contract.values import request
from ..memory import memory_stores

SPEC = GateSpec(starter(2), "eval_2", "eval_1")


async def prepare(registry: Registry, model_folder: ModelFolder, *lineages: Lineage) -> None:
    """starter@1, the champion, and one version for each lineage, each measured: eval_1, eval_2, ..."""
    for seed, lineage in enumerate((Lineage(), *lineages), 1):
        spec = VersionSpec("starter", str(model_folder(f"source{seed}", seed)), lineage)
        fingerprints = [
            [f"{digest}/{index}" for index in range(3)] if digest else []
            for digest in (lineage.data_digest, lineage.selection_digest)
        ]
        drawn = [[f"{digest}/0"] for digest in lineage.drawn_digests]
        made = await registry.service.versions.create(spec, "", *fingerprints, drawn)
        [version] = await registry.settle(made)
        registry.evaluations.measure(f"eval_{seed}", version)
    await registry.point("champion", 1)


def failure(gate: Gate) -> str:
    assert gate.state is State.FAILED
    assert gate.failure is not None
    assert gate.failure.code == "FAILED_PRECONDITION"
    return gate.failure.message


async def test_a_guard_refuses_what_the_target_would_let_pass(registry: Registry, model_folder: ModelFolder) -> None:
    lost = SetComparison("mbpp", comparison(Estimate(-0.08, -0.12, -0.04)))
    registry.evaluations.sets = {"mbpp": lost}
    await prepare(registry, model_folder, Lineage())
    rules = GateRules("composed/test", (Guard("mbpp", 0.02),))
    gate = await registry.gate(GateSpec(starter(2), "eval_2", "eval_1", rules=rules))
    assert gate.state is State.REFUSED
    assert "on mbpp it is -0.080" in gate.reason
    assert gate.comparison == comparison(registry.evaluations.difference, confidence=0.9875)
    assert gate.tries == 1


async def test_rules_about_a_set_that_was_not_measured_decide_nothing(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, Lineage())
    gate = await registry.gate(GateSpec(starter(2), "eval_2", "eval_1", rules=GateRules("mbpp")))
    assert "did not measure mbpp, but composed/test" in failure(gate)
    assert gate.tries == 0


async def test_a_gate_is_decided_by_how_many_were_looked_at(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage(), Lineage(), Lineage())
    registry.evaluations.difference = Estimate(0.0, -0.1, 0.1)
    order = [await registry.gate(GateSpec(starter(number), f"eval_{number}", "eval_1")) for number in (4, 2, 2, 3)]
    assert [gate.tries for gate in order] == [3, 1, 1, 2], "whatever is gated when, and however often"
    assert registry.evaluations.asked == pytest.approx([1 - 0.05 / 6, 0.95, 0.95, 0.975])
    for number in (1, 4):
        version = await registry.service.versions.get(starter(number))
        registry.evaluations.measure(f"eval_{number}", version, "sha256:fresh")
    assert (await registry.gate(GateSpec(starter(4), "eval_4", "eval_1"))).tries == 1, (
        "fresh problems are judged afresh"
    )


async def test_a_target_among_several_sets_is_paid_for(registry: Registry, model_folder: ModelFolder) -> None:
    registry.evaluations.sets = {"mbpp": SetComparison("mbpp", comparison(Estimate(0.1, 0.05, 0.15)))}
    await prepare(registry, model_folder, Lineage())
    for rules in (GateRules(), GateRules("mbpp"), GateRules("composed/test")):
        await registry.gate(GateSpec(starter(2), "eval_2", "eval_1", rules=rules))
    assert registry.evaluations.asked == pytest.approx([0.975, 0.9875, 0.9875])


async def test_a_new_champion_begins_anew_but_not_for_who_was_looked_at_before(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, *[Lineage()] * 4)
    gate = await registry.gate(GateSpec(starter(2), "eval_2", "eval_1"))
    registry.clock.advance(timedelta(days=1))
    await registry.point("champion", 2, gate_id=gate.id)
    later = registry.clock.now()
    for number in (5, 6):
        version = await registry.make(model_folder(f"later{number}", number + 5))
        registry.evaluations.measure(f"eval_{version.ref.number}", version, start_time=later)
    fresh = [await registry.gate(GateSpec(starter(number), f"eval_{number}", "eval_2")) for number in (6, 7)]
    assert [one.tries for one in fresh] == [1, 2]
    assert (await registry.gate(GateSpec(starter(5), "eval_5", "eval_2"))).tries == 4, (
        "1, 3, 4 and 5 were looked at then"
    )
    await registry.point("champion", 1)
    again = await registry.gate(GateSpec(starter(7), "eval_7", "eval_1"))
    assert again.tries == 6, "an earlier champion has its earlier tries"


async def test_a_copy_of_the_champion_does_not_begin_anew(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage(), Lineage())
    copy = await registry.make(model_folder("copy", 1))
    registry.evaluations.measure("eval_4", copy)
    registry.evaluations.difference = Estimate(0.0, -0.01, 0.01)
    gate = await registry.gate(GateSpec(starter(4), "eval_4", "eval_1", min_difference=-0.05))
    registry.clock.advance(timedelta(days=1))
    await registry.point("champion", 4, gate_id=gate.id)
    assert (await registry.gate(GateSpec(starter(3), "eval_3", "eval_4"))).tries > 2
    worse = await registry.gate(GateSpec(starter(3), "eval_3", "eval_4", min_difference=-0.05))
    registry.clock.advance(timedelta(days=1))
    await registry.point("champion", 3, gate_id=worse.id)
    registry.evaluations.measure("eval_2", await registry.service.versions.get(starter(2)), start_time=NOW)
    assert (await registry.gate(GateSpec(starter(2), "eval_2", "eval_3"))).tries > 1, "nor one that may be worse"


async def test_a_set_that_the_candidate_was_trained_on_does_not_judge_it(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, Lineage(data_digest="sha256:d"))
    message = failure(await registry.gate(SPEC))
    assert message.startswith("starter@2 was trained on composed/test")


async def test_what_a_base_learned_the_candidate_knows(registry: Registry, model_folder: ModelFolder) -> None:
    lineages = (Lineage(data_digest="sha256:d"), Lineage(base=VersionRef("starter", 2), data_digest="sha256:other"))
    await prepare(registry, model_folder, *lineages)
    assert "trained on composed/test" in failure(await registry.gate(GateSpec(starter(3), "eval_3", "eval_1")))


async def test_a_base_that_is_gone_is_no_obstacle(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage(base=VersionRef("starter", 9)))
    assert (await registry.gate(SPEC)).state is State.PASSED


async def test_a_set_that_shares_problems_with_training_does_not_judge(
    registry: Registry, model_folder: ModelFolder
) -> None:
    registry.evaluations.fingerprints = frozenset({"sha256:train/0", "sha256:train/2", "another"})
    await prepare(registry, model_folder, Lineage(data_digest="sha256:train"))
    message = failure(await registry.gate(SPEC))
    assert message.startswith("starter@2 was trained on 2 of the 200 problems of composed/test")


async def test_problems_that_are_nearly_those_of_training_do_not_judge(
    registry: Registry, model_folder: ModelFolder
) -> None:
    learned, measured = (f"sha256:{digit * 64}" for digit in "ab")
    sketches = FsspecSketchStore(str(registry.root.parent / "datasets" / "sketches"))
    reference = (
        "def f(a):\n    b = 0\n    for c in range(len(a)):\n        b = max(b, sum(a[:c]) - c * len(a))\n    return b\n"
    )
    renamed = reference.replace("a", "items").replace("mitemsx", "max").replace("ritemsnge", "range")
    problems = [Problem(f"new/{place}", f"Task {place}", (), references=(renamed,)) for place in range(7)]
    sketches.keep(learned, sketch([Problem("old", "Another", (), references=(reference,))]))
    sketches.keep(measured, sketch(problems))
    sketches.keep("c" * 64, sketch([Problem("far", "Another", (), references=("print(1)",))]))
    lineages = [
        Lineage(data_digest=learned),
        Lineage(run_id="run", selection_digest=learned),
        Lineage(data_digest=f"sha256:{'c' * 64}"),
        Lineage(data_digest=f"sha256:{'d' * 64}"),
        Lineage(data_digest=f"sha256:{'d' * 64}", drawn_digests=(learned,)),
    ]
    await prepare(registry, model_folder, *lineages)
    for number in range(1, 7):
        version = await registry.service.versions.get(starter(number))
        registry.evaluations.measure(f"eval_{number}", version, measured)
    message = failure(await registry.gate(SPEC))
    assert message.startswith(
        "starter@2 was trained on 7 problems of composed/test or nearly the same ones: new/0 like old (reference 1.00);"
    )
    assert ", and 2 more. Measure it on other problems, leave these out of what is learned from, or" in message
    message = failure(await registry.gate(GateSpec(starter(3), "eval_3", "eval_1")))
    assert message.startswith("starter@3 was chosen among its run's checkpoints by 7 problems of composed/test or")
    message = failure(await registry.gate(GateSpec(starter(6), "eval_6", "eval_1")))
    assert message.startswith(
        "starter@6 was trained on 7 problems of composed/test or nearly the same ones: new/0 like"
    )
    for number in (4, 5):  # other problems; a set that was never examined
        gate = await registry.gate(GateSpec(starter(number), f"eval_{number}", "eval_1"))
        assert gate.state is not State.FAILED


async def test_near_duplicates_that_people_accepted_are_not_counted_and_the_gate_says_who_did(
    sqlite_url: str, tmp_path: Path, clock: ManualClock, model_folder: ModelFolder
) -> None:
    learned, measured = (f"sha256:{digit * 64}" for digit in "ab")
    prompts = [f"Find the longest run of equal neighbours in list {word} of numbers." for word in ("one", "two")]
    near = Finding(Kind.NEAR_DUPLICATE, "train", "t1", "composed/test", "v1", "prompt 0.90", measured)
    async with Database.opened(sqlite_url, "registry_service") as database:
        data, findings = SqlDatasetStore(database), SqlFindingStore(database)
        ref = (await data.create(DatasetSpec("mine", Card(), {"train": Upload(1, "c" * 64)}), "", NOW, request())).ref
        await data.change(ref, lambda it: it.written("train", 0, 1))
        await findings.replace(ref, {"train": learned}, [near], None)
        stores = replace(memory_stores(), findings=findings)
        async with opened(stores, tmp_path, clock) as registry:
            sketches = FsspecSketchStore(str(registry.root.parent / "datasets" / "sketches"))
            sketches.keep(learned, sketch([Problem("t1", prompts[0], (), references=("1",))]))
            sketches.keep(measured, sketch([Problem("v1", prompts[1], (), references=("2",))]))
            await prepare(registry, model_folder, Lineage(data_digest=learned))
            for number in (1, 2):
                version = await registry.service.versions.get(starter(number))
                registry.evaluations.measure(f"eval_{number}", version, measured)
            assert "was trained on 1 problem of composed/test or nearly" in failure(await registry.gate(SPEC))
            rule = Rule(Kind.NEAR_DUPLICATE)
            await findings.decide(Decision("dec_1", ref, rule, FindingState.ACCEPTED, "other numbers.", "key_1", NOW))
            gate = await registry.gate(SPEC)
            assert gate.state is State.PASSED
            assert gate.reason.endswith(
                f" 1 near-duplicate is not counted (problems of mine@1/train like problems of composed/test): accepted "
                f"by key_1 on {NOW:%Y-%m-%d}, because: other numbers."
            )
            await findings.decide(Decision("dec_2", ref, rule, FindingState.REFUSED, "it is one", "key_2", NOW))
            assert (await registry.gate(SPEC)).state is State.FAILED


async def test_too_few_problems_judge_nothing(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage())
    registry.evaluations.sets = {"composed/test": SetComparison("composed/test", comparison(Estimate(1, 0.5, 1), 9))}
    message = failure(await registry.gate(SPEC))
    assert message == "composed/test has 9 independent problems: a gate needs 10 or more"


async def test_what_chose_the_candidate_does_not_judge_it(registry: Registry, model_folder: ModelFolder) -> None:
    registry.evaluations.fingerprints = frozenset({"sha256:v/0", "sha256:v/2"})
    await prepare(
        registry,
        model_folder,
        Lineage(run_id="run_1", selection_digest="sha256:d"),
        Lineage(run_id="run_2", selection_digest="sha256:v"),
        Lineage(base=VersionRef("starter", 3), run_id="run_3", selection_digest=""),
        Lineage(run_id="run_4", selection_digest=""),
    )
    wanted = {
        2: "starter@2 is the best of its run's checkpoints on composed/test, so its score there is too high",
        3: "starter@3 was chosen among its run's checkpoints by 2 of the 200 problems of composed/test",
        4: "starter@4 was chosen among its run's checkpoints by 2 of",  # as what it was made from
    }
    for number, message in wanted.items():
        gate = await registry.gate(GateSpec(starter(number), f"eval_{number}", "eval_1"))
        assert failure(gate).startswith(message)
    unchosen = await registry.gate(GateSpec(starter(5), "eval_5", "eval_1"))
    assert unchosen.state is State.PASSED
    assert "not known" not in unchosen.reason


async def test_what_chose_it_is_not_known_of_a_run_of_old_and_there_is_nothing_to_know_without_one(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, Lineage(run_id="run_1"), Lineage())
    of_old = await registry.gate(SPEC)
    assert of_old.reason.endswith(
        "By which problems starter@2 was chosen among the checkpoints of its run is not known: it was registered "
        "before that was kept."
    )
    assert "not known" not in (await registry.gate(GateSpec(starter(3), "eval_3", "eval_1"))).reason
