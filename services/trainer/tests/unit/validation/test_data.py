"""Problems, pairs, how they are put, and a curriculum over them."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.names import VersionRef
from ratchet_problems.templates import Template
from ratchet_rewards import Reward
from trainer_service.domain.create.defaults import complete
from trainer_service.domain.create.validation import notices
from trainer_service.domain.inputs.found import Found, FoundSet
from trainer_service.domain.spec.curriculum import Curriculum, Kind, Stage
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.plugins import Plugin, PluginKind
from trainer_service.domain.spec.spec import ProblemSetRef

from .faults import FOUND, LIMITS, STARTER_1, named


def test_problems_that_nothing_can_be_learned_from_are_named(make_spec: Any) -> None:
    faults = tuple(f"p/{number}: tests[0].check: never calls the program" for number in range(7))
    found = replace(FOUND, problems=FoundSet(ProblemSetRef("mine.jsonl"), 1000, faults=faults))
    [said] = named(make_spec(), found=found).items()
    assert said[0] == "spec.problems.name"
    assert said[1].startswith("holds problems that nothing can be learned from: p/0: tests[0].check: never calls the")
    assert said[1].endswith("p/4: tests[0].check: never calls the program; and 2 more")
    assert named(make_spec(algorithm="sft"), found=found) == {}


def test_sft_is_refused_where_no_problem_has_a_reference(make_spec: Any) -> None:
    found = replace(FOUND, problems=FoundSet(ProblemSetRef("mine.jsonl"), 1000, has_references=False))
    assert named(make_spec(algorithm="sft"), found=found) == {
        "spec.problems.name": "must hold references, which SFT learns from: it has none"
    }
    assert named(make_spec(), found=found) == {}


def test_the_base_decides_the_form_of_prompts_unless_the_spec_does(make_spec: Any) -> None:
    bare = replace(FOUND, base=replace(FOUND.base, has_chat_template=False))
    assert complete(make_spec(), FOUND, LIMITS).prompt_form == "chat"
    assert complete(make_spec(), bare, LIMITS).prompt_form == "completion"
    assert complete(make_spec(prompt_form="completion"), FOUND, LIMITS).prompt_form == "completion"
    assert named(make_spec(), found=bare) == named(make_spec(prompt_form="completion")) == {}


def test_a_chat_without_a_chat_template_is_refused(make_spec: Any) -> None:
    bare = replace(FOUND, base=replace(FOUND.base, has_chat_template=False))
    assert named(make_spec(prompt_form="chat"), found=bare) == {
        "spec.prompt_form": "must be COMPLETION, or absent: the base has no chat template"
    }
    assert "CHAT, COMPLETION" in named(make_spec(prompt_form="9"))["spec.prompt_form"]


def test_a_chat_template_that_loses_what_is_put_into_it_is_refused_by_name(make_spec: Any) -> None:
    def base(**template: str) -> Found:
        return replace(FOUND, base=replace(STARTER_1, template=Template(**template)))

    edits = EnvironmentSpec("edits")
    broken = base(fault="does not write what the user says")
    assert named(make_spec(), found=broken) == {
        "spec.base": "must have a chat template that puts a problem to it: its own does not write what the user says"
    }
    assert named(make_spec(prompt_form="completion"), found=broken) == {}
    loses = base(turns_fault="does not write a reply")
    assert named(make_spec(), found=loses) == {}
    assert named(make_spec(environment=edits), found=loses) == {
        "spec.environment": "must be absent: the base's chat template does not write a reply"
    }
    assert named(make_spec(examples=ProblemSetRef("basics", 3)), found=loses) == {
        "spec.examples": "must be absent: the base's chat template does not write a reply"
    }


CHATS = FoundSet(ProblemSetRef("mine.jsonl"), 100, conversation="p/1", system="p/2")


def test_examples_are_a_few_before_problems(make_spec: Any) -> None:
    shown = ProblemSetRef("basics", 3)
    assert named(make_spec(examples=shown)) == {}
    assert named(make_spec(examples=replace(shown, limit=33))) == {"spec.examples.limit": "must be from 1 to 32"}
    assert named(make_spec(examples=shown, algorithm="sft", reward=Reward(), all_answers=True)) == {
        "spec.examples": "must be absent where all answers of a conversation are learned"
    }


def test_conversations_and_a_system_need_a_chat_template_that_writes_them(make_spec: Any) -> None:
    spec = make_spec(system="Be brief.")
    assert named(spec, found=replace(FOUND, problems=CHATS)) == {}
    refuses = replace(STARTER_1, template=Template(system_fault="writes a message of the system 0 times"))
    assert named(spec, found=replace(FOUND, base=refuses, problems=CHATS)) == {
        "spec.system": "must be absent: the base's chat template writes a message of the system 0 times",
        "spec.problems.name": "holds messages of the system (p/2), and the base's chat template writes a message of the"
        " system 0 times",
    }
    bare = replace(FOUND, base=replace(STARTER_1, has_chat_template=False))
    assert named(spec, found=replace(bare, validation_problems=CHATS)) == {
        "spec.system": "must be absent: prompts are texts here, and only a chat template can put a message of the"
        " system",
        "spec.validation_problems.name": "holds conversations (p/1): prompts are texts here, and only a chat template"
        " can put them to a model",
    }
    assert named(make_spec(system=" ")) == {"spec.system": "must not be empty"}
    assert named(make_spec(system="x" * 40_000)) == {"spec.system": "must have at most 32768 characters"}


def test_a_chat_template_of_ones_own_must_put_a_problem(make_spec: Any) -> None:
    spec = make_spec(chat_template="{{ messages }}")
    assert named(spec) == {}
    broken = replace(FOUND, base=replace(STARTER_1, template=Template("raises an error in line 3: no")))
    said = "must put a problem to a model: it raises an error in line 3: no"
    assert named(spec, found=broken) == {"spec.chat_template": said}
    texts = make_spec(chat_template="{{ messages }}", prompt_form="completion")
    assert named(texts) == {"spec.chat_template": "must be absent: prompts are texts here"}
    assert named(make_spec(chat_template=" ")) == {"spec.chat_template": "must not be empty"}
    long = named(make_spec(chat_template="x" * 300_000))
    assert long == {"spec.chat_template": "must have at most 262144 characters"}


def test_all_answers_are_for_examples(make_spec: Any) -> None:
    assert named(make_spec(algorithm="sft", all_answers=True)) == {}
    for algorithm in ("grpo", "dpo"):
        assert named(make_spec(algorithm=algorithm, all_answers=True)) == {
            "spec.all_answers": f"must be absent: {algorithm.upper()} learns from no answers of a conversation"
        }


def test_examples_may_be_the_better_answers_of_pairs(make_spec: Any) -> None:
    pairs, held_out = ProblemSetRef("mine@1/train"), ProblemSetRef("mine@1/validation")
    of_pairs = {"algorithm": "sft", "problems": ProblemSetRef(""), "pairs": pairs}
    there = FoundSet(replace(pairs, digest="sha256:p"), 99, form="chat")
    found = replace(FOUND, problems=None, validation_problems=None, pairs=there)
    spec = make_spec(**of_pairs, validation_pairs=held_out)
    other = replace(there, ref=replace(held_out, digest="sha256:v"))
    assert named(spec, found=replace(found, validation_pairs=other)) == {}
    assert (
        complete(spec, found, LIMITS).passes().tokens
        == complete(make_spec(algorithm="sft"), FOUND, LIMITS).passes().tokens
    )
    same = named(spec, found=replace(found, validation_pairs=there))
    assert same == {"spec.validation_pairs.name": "must hold other pairs than those that are learned from"}
    both = make_spec(
        **of_pairs | {"problems": ProblemSetRef("basics")}, all_answers=True, examples=replace(held_out, limit=3)
    )
    assert set(named(both, found=found)) == {"spec.problems", "spec.all_answers", "spec.examples"}
    judged = make_spec(**of_pairs, validation_problems=ProblemSetRef("basics"))
    assert named(judged, found=replace(found, validation_problems=FOUND.validation_problems)) == {
        "spec.validation_problems": "must be absent: SFT from pairs is validated on validation_pairs"
    }


def test_what_a_chat_template_does_otherwise_is_noticed(make_spec: Any) -> None:
    its = Template(changes="changes what the user says", turns_changes="leaves out thoughts")
    found = replace(FOUND, base=replace(STARTER_1, template=its))

    def said(**spec: Any) -> list[str]:
        return [*notices(complete(make_spec(**spec), found, LIMITS), found)]

    assert said(prompt_form="completion") == []
    (one,) = said()
    assert one.startswith("the base's chat template changes what the user says: so it does in evaluations")
    assert said(environment=EnvironmentSpec("edits"))[1].startswith(
        "the base's chat template leaves out thoughts: training goes on from the answers as they were sampled"
    )


def test_that_only_python_is_read_is_noticed(make_spec: Any) -> None:
    problems = FoundSet(ProblemSetRef("mine.jsonl"), 100, languages=("go", "rust"))
    found = replace(FOUND, problems=problems)
    spec = complete(make_spec(reward=Reward(name="balanced")), found, LIMITS)
    (said,) = notices(spec, found)
    assert said == "style and length: only Python is read; answers in go, rust get 0 there"
    assert not notices(complete(make_spec(), found, LIMITS), found)


KINDS = tuple(Kind(1 + place % 4, ("lists",) if place < 20 else ()) for place in range(100))
OF_KINDS = replace(FOUND, problems=FoundSet(ProblemSetRef("mine.jsonl"), 100, kinds=KINDS))


def test_a_curriculum_draws_a_share_alike_unless_groups_tell_nothing(make_spec: Any) -> None:
    shares = {
        algorithm: complete(make_spec(algorithm=algorithm, curriculum=Curriculum()), FOUND, LIMITS).curriculum
        for algorithm in ("grpo", "ppo")
    }
    assert shares == {"grpo": Curriculum(0.1), "ppo": Curriculum(1.0)}
    staged = Curriculum(stages=(Stage(max_difficulty=2, tags=("lists",), steps=3), Stage(pass_rate=0.5), Stage()))
    few = Hyperparameters(batch_size=8)
    assert named(make_spec(curriculum=staged, hyperparameters=few), found=OF_KINDS) == {}


@pytest.mark.parametrize(
    ("curriculum", "fields"),
    [
        (Curriculum(0.0), {"exploration"}),
        (Curriculum(1.5), {"exploration"}),
        (Curriculum(stages=(Stage(),)), set()),
        (Curriculum(stages=(Stage(), Stage())), {"stages[0].steps"}),
        (Curriculum(stages=(Stage(steps=2), Stage(steps=2))), {"stages[1].steps"}),
        (Curriculum(stages=(Stage(steps=2), Stage(pass_rate=0.5))), {"stages[1].pass_rate"}),
        (Curriculum(stages=(Stage(pass_rate=1.5), Stage())), {"stages[0].pass_rate"}),
        (Curriculum(stages=(Stage(steps=10), Stage())), {"stages"}),
        (Curriculum(stages=(Stage(min_difficulty=5),)), {"stages[0].min_difficulty"}),
        (Curriculum(stages=(Stage(min_difficulty=3, max_difficulty=2),)), {"stages[0].max_difficulty"}),
        (Curriculum(stages=(Stage(tags=("graphs",)),)), {"stages[0].tags"}),
    ],
)
def test_what_a_curriculum_cannot_be_is_named(curriculum: Curriculum, fields: set[str], make_spec: Any) -> None:
    spec = make_spec(curriculum=curriculum, steps=10)
    assert set(named(spec, found=OF_KINDS)) == {f"spec.curriculum.{field}" for field in fields}


def test_a_stage_without_problems_says_what_there_are(make_spec: Any) -> None:
    spec = make_spec(curriculum=Curriculum(stages=(Stage(min_difficulty=4, max_difficulty=5, tags=("text",)),)))
    assert named(spec, found=OF_KINDS)["spec.curriculum.stages[0].tags"] == (
        "must select 16 problems or more, a step's, not 0: of difficulties there are 25 of 1, 25 of 2, 25 of 3, 25 of"
        " 4; of tags lists"
    )


def test_a_curriculum_is_for_those_that_draw_problems(make_spec: Any) -> None:
    for algorithm in ("sft", "dpo"):
        said = named(make_spec(algorithm=algorithm, curriculum=Curriculum()))["spec.curriculum"]
        assert said == f"must be absent: {algorithm.upper()} goes through its data in passes"
    assert set(named(make_spec(algorithm="ppo", curriculum=Curriculum(0.5)))) == {"spec.curriculum.exploration"}
    own = Plugin(PluginKind.SAMPLER, "easy_first")
    assert "spec.curriculum" in named(make_spec(curriculum=Curriculum(), plugins=(own,)))


def test_dpo_has_pairs_and_nothing_else_has(make_spec: Any) -> None:
    pairs = ProblemSetRef("pairs.jsonl")
    assert set(named(make_spec(pairs=pairs))) == {"spec.pairs"}
    both = make_spec(algorithm="dpo", problems=ProblemSetRef("composed/train"))
    assert set(named(both)) == {"spec.problems"}
    few = replace(FOUND, pairs=FoundSet(pairs, 31))
    assert named(make_spec(algorithm="dpo"), found=few) == {
        "spec.pairs.name": "must hold more pairs: it has 31, and batch_size is 32"
    }
    beta = make_spec(hyperparameters=Hyperparameters(dpo_beta=0.1))
    assert named(beta)["spec.hyperparameters.dpo_beta"] == "must be absent: GRPO has no use for it"
    none = make_spec(algorithm="dpo", hyperparameters=Hyperparameters(dpo_beta=0.0))
    assert set(named(none)) == {"spec.hyperparameters.dpo_beta"}


def test_pairs_are_put_as_they_were_written(make_spec: Any) -> None:
    asked = replace(FOUND, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100, form="chat"))
    assert named(make_spec(algorithm="dpo"), found=asked) == {}
    assert (
        "the pairs are conversations"
        in named(make_spec(algorithm="dpo", prompt_form="completion"), found=asked)["spec.prompt_form"]
    )
    bare = replace(FOUND.base, has_chat_template=False) if FOUND.base else None
    assert set(named(make_spec(algorithm="dpo"), found=replace(asked, base=bare))) == {"spec.pairs.name"}
    texts = replace(FOUND, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100, form="completion"))
    assert named(make_spec(algorithm="dpo"), found=texts) == {}
    assert set(named(make_spec(algorithm="dpo", prompt_form="chat"), found=texts)) == {"spec.prompt_form"}
    either = replace(FOUND, base=bare, pairs=FoundSet(ProblemSetRef("pairs.jsonl"), 100))
    assert named(make_spec(algorithm="dpo"), found=either) == {}


def pairs(digest: str) -> FoundSet:
    return FoundSet(ProblemSetRef(f"{digest}.jsonl", digest=digest), 100)


def test_a_reward_model_learns_and_is_validated_on_pairs(make_spec: Any) -> None:
    found = replace(FOUND, pairs=pairs("p"), validation_pairs=pairs("v"))
    spec = make_spec(algorithm="reward_model", validation_pairs=ProblemSetRef("v.jsonl"), output_model="judge")
    assert named(spec, found=found) == {}
    assert complete(spec, found, LIMITS).validation_pairs == ProblemSetRef("v.jsonl", digest="v")
    assert named(spec, found=replace(found, validation_pairs=pairs("p"))).keys() == {"spec.validation_pairs.name"}
    wrong = replace(
        spec,
        base=VersionRef("starter", 1),
        problems=ProblemSetRef("composed/train"),
        validation_problems=ProblemSetRef("composed/validation"),
        reward=Reward("tests_passed"),
        environment=EnvironmentSpec("edits"),
        output_model="starter",
        hyperparameters=Hyperparameters(dpo_beta=0.1),
    )
    assert named(wrong, found=replace(found, base=replace(STARTER_1, has_chat_template=False))).keys() == {
        "spec.base",
        "spec.problems",
        "spec.validation_problems",
        "spec.reward.name",
        "spec.environment",
        "spec.output_model",
        "spec.hyperparameters.dpo_beta",
    }
    assert named(make_spec(validation_pairs=ProblemSetRef("v.jsonl"))).keys() == {"spec.validation_pairs"}
