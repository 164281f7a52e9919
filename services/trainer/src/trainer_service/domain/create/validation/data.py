"""What is learned from, and validated on."""

from collections.abc import Iterator, Sequence

from ratchet_kit.faults import Faults
from ratchet_kit.names import Location
from ratchet_problems import examples
from ratchet_problems.messages import MOST_SYSTEM, MOST_TEMPLATE
from ratchet_problems.sets import dataset_of
from trainer_service.domain.inputs.found import Found, FoundModel, FoundSet, Trial
from trainer_service.domain.spec import curriculum
from trainer_service.domain.spec.algorithms import Algorithm
from trainer_service.domain.spec.curriculum import Curriculum
from trainer_service.domain.spec.plugins import PluginKind
from trainer_service.domain.spec.spec import ProblemSetRef, PromptForm, RunSpec, Validation

NAMED = 5
"""Problems at fault that an error names."""


def check(spec: RunSpec, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    if not algorithm.takes_examples:
        if not spec.forgeable_rewards:
            _check_forgeable(found, faults)
        _check_problems(found, faults)
    elif found.problems and not found.problems.has_references:
        faults.add("problems.name", f"must hold references, which {algorithm.name.upper()} learns from: it has none")
    _check_pairs(spec, found, algorithm, faults)
    if spec.validate:
        _check_validate(spec, spec.validate, algorithm, faults)
    if spec.all_answers:
        only = f"must be absent: {algorithm.name.upper()} learns from no answers of a conversation"
        faults.unless(algorithm.takes_examples and spec.pairs is None, "all_answers", only)
    if spec.examples:
        _check_examples(spec, spec.examples, algorithm, faults)
    if spec.follow_problems:
        _check_followed(spec, algorithm, faults)
    if spec.curriculum:
        _check_curriculum(spec, spec.curriculum, found, algorithm, faults)


def _check_validate(spec: RunSpec, wanted: Validation, algorithm: Algorithm, faults: Faults) -> None:
    """The rest eval-service has checked."""
    if algorithm.makes_reward_model:
        faults.add("validate", f"must be absent: {algorithm.name.upper()} answers no problems")
    for field in ("validation_problems", "validation_pairs"):
        faults.unless(getattr(spec, field) is None, field, "must be absent: checkpoints are compared by validate")
    for place, entry in enumerate(wanted.suite):
        trained = f"must not be {spec.learned.name}, which is learned from: a score on it chooses no checkpoint"
        faults.unless(entry.problems.name != spec.learned.name, f"validate.suite[{place}].problems.name", trained)


def _check_examples(spec: RunSpec, shown: ProblemSetRef, algorithm: Algorithm, faults: Faults) -> None:
    faults.bounds("examples.limit", shown.limit or 0, at_least=1, at_most=examples.MOST)
    pairs = f"must be absent: {algorithm.name.upper()} learns from pairs, which are put to the model as they stand"
    faults.unless(not algorithm.takes_pairs and spec.pairs is None, "examples", pairs)
    faults.unless(not spec.all_answers, "examples", "must be absent where all answers of a conversation are learned")


def check_form(spec: RunSpec, found: Found, faults: Faults) -> None:
    """How they are put to the model; whatever the algorithm is."""
    if spec.system:
        faults.length("system", spec.system, MOST_SYSTEM)
        faults.required("system", spec.system.strip())
    if spec.chat_template:
        faults.length("chat_template", spec.chat_template, MOST_TEMPLATE)
        faults.required("chat_template", spec.chat_template.strip())
    known = faults.one_of("prompt_form", spec.prompt_form.upper(), [form.upper() for form in PromptForm])
    pairs = found.pairs.form if found.pairs else ""
    if known and pairs and pairs != spec.prompt_form:
        what = "conversations" if pairs == PromptForm.CHAT else "texts to go on with"
        faults.add("prompt_form", f"must be {pairs.upper()}, or absent: the pairs are {what}")
    elif known and pairs == PromptForm.CHAT and found.base and not found.base.has_chat_template:
        faults.add("pairs.name", "holds conversations, and the base has no chat template: write prompts as texts")
    elif known and spec.prompt_form == PromptForm.CHAT and found.base and not found.base.has_chat_template:
        faults.add("prompt_form", "must be COMPLETION, or absent: the base has no chat template")
    elif known and spec.prompt_form == PromptForm.CHAT and found.base:
        _check_template(spec, found, found.base, faults)
    elif known and spec.prompt_form == PromptForm.COMPLETION:
        _check_texts(spec, found, faults)


def _sets(found: Found) -> Iterator[tuple[str, FoundSet]]:
    for field in ("problems", "validation_problems", "pairs", "validation_pairs"):
        if there := getattr(found, field):
            yield field, there


def _check_texts(spec: RunSpec, found: Found, faults: Faults) -> None:
    chat = "prompts are texts here, and only a chat template can put"
    faults.unless(not spec.system, "system", f"must be absent: {chat} a message of the system")
    faults.unless(not spec.chat_template, "chat_template", "must be absent: prompts are texts here")
    for field, there in _sets(found):
        if there.conversation:
            faults.add(f"{field}.name", f"holds conversations ({there.conversation}): {chat} them to a model")


def _check_template(spec: RunSpec, found: Found, base: FoundModel, faults: Faults) -> None:
    its = base.template
    if its.fault and spec.chat_template:
        faults.add("chat_template", f"must put a problem to a model: it {its.fault}")
        return
    if its.fault:
        faults.add("base", f"must have a chat template that puts a problem to it: its own {its.fault}")
        return
    for field, has_turns in (("environment", spec.environment), ("examples", spec.examples)):
        if has_turns and its.turns_fault:
            faults.add(field, f"must be absent: the base's chat template {its.turns_fault}")
    if its.system_fault:
        faults.unless(not spec.system, "system", f"must be absent: the base's chat template {its.system_fault}")
        for field, there in _sets(found):
            if there.system:
                holds = f"holds messages of the system ({there.system}), and the base's chat template"
                faults.add(f"{field}.name", f"{holds} {its.system_fault}")


def notices(spec: RunSpec, found: Found) -> Sequence[str]:
    """What is no fault, and should be known of how problems are put to the model."""
    if found.base is None or spec.prompt_form != PromptForm.CHAT:
        return ()
    its, said = found.base.template, []
    if its.changes:
        said.append(f"the base's chat template {its.changes}: so it does in evaluations and where it is served")
    if spec.environment and not spec.environment.on_folders and its.turns_changes:
        said.append(
            f"the base's chat template {its.turns_changes}: training goes on from the answers as they were sampled,"
            " evaluations and whoever is served go on from what the template writes"
        )
    return said


def _check_forgeable(found: Found, faults: Faults) -> None:
    for field, there in (("problems", found.problems), ("validation_problems", found.validation_problems)):
        if there and there.forgeable:
            faults.add(
                f"{field}.name",
                f"holds problems whose tests share the program's process ({there.forgeable}): a policy can learn to "
                "forge their rewards; set forgeable_rewards to take them all the same",
            )


def _check_problems(found: Found, faults: Faults) -> None:
    """Not those of SFT, which runs no tests, and may learn from references that are no programs."""
    for field, there in (("problems", found.problems), ("validation_problems", found.validation_problems)):
        if there and there.faults:
            faults.add(f"{field}.name", f"holds problems that nothing can be learned from: {_named(there.faults)}")


def _named(every: Sequence[str]) -> str:
    more = f"; and {len(every) - NAMED} more" if len(every) > NAMED else ""
    return f"{'; '.join(every[:NAMED])}{more}"


def check_trials(trials: Sequence[Trial], faults: Faults) -> None:
    """`trials`: of the problems, and of those to validate on; or none."""
    for field, trial in zip(("problems", "validation_problems"), trials, strict=False):
        if trial.faults:
            what = f"{_named(trial.faults)} (of {trial.tried} that were tried)"
            checked = "ratchet benchmarks verify FILE --out CHECKED leaves them out"
            faults.add(f"{field}.name", f"holds problems that nothing can be learned from: {what}: {checked}")


def _check_pairs(spec: RunSpec, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    name = algorithm.name.upper()
    of_examples = algorithm.takes_examples and spec.pairs is not None
    if algorithm.takes_pairs or of_examples:
        faults.unless(not spec.problems.name, "problems", f"must be absent: {name} learns from pairs")
    else:
        faults.unless(spec.pairs is None, "pairs", f"must be absent: {name} learns from problems")
    if of_examples:
        absent = f"must be absent: {name} from pairs is validated on validation_pairs"
        faults.unless(spec.validation_problems is None, "validation_problems", absent)
        _check_held_out(found, faults)
        return
    if not algorithm.makes_reward_model:
        absent = f"must be absent: {name} is validated on validation_problems"
        faults.unless(spec.validation_pairs is None, "validation_pairs", absent)
        return
    absent = f"must be absent: {name} answers no problems, and is validated on validation_pairs"
    faults.unless(spec.validation_problems is None, "validation_problems", absent)
    _check_held_out(found, faults)
    scored = f"what {name} makes scores conversations"
    texts = [
        field
        for field, there in (("pairs", found.pairs), ("validation_pairs", found.validation_pairs))
        if there and there.form == PromptForm.COMPLETION
    ]
    for field in texts:
        faults.add(f"{field}.name", f"must hold problems or conversations, not texts: {scored}")
    if found.base and not found.base.has_chat_template:
        faults.add("base", f"must have a chat template: {scored}")
    elif not texts:
        faults.unless(spec.prompt_form == PromptForm.CHAT, "prompt_form", f"must be CHAT, or absent: {scored}")
    if spec.base and not isinstance(spec.base, Location) and spec.output_model == spec.base.model:
        faults.add(
            "output_model", f"must not be {spec.output_model}, whose versions write: a reward model is not a policy"
        )


def _check_held_out(found: Found, faults: Faults) -> None:
    held_out = found.validation_pairs
    if found.pairs and held_out and found.pairs.ref.digest == held_out.ref.digest:
        faults.add("validation_pairs.name", "must hold other pairs than those that are learned from")


def _check_followed(spec: RunSpec, algorithm: Algorithm, faults: Faults) -> None:
    field = "follow_problems"
    if not algorithm.is_online:
        faults.add(field, f"must be false: {algorithm.name.upper()} goes through its data in passes")
        return
    is_dataset = dataset_of(spec.problems.name) is not None
    faults.unless(is_dataset, field, f"must be false: {spec.problems.name} is no data set, which has versions")
    own = spec.curriculum or any(plugin.kind == PluginKind.SAMPLER for plugin in spec.plugins)
    faults.unless(not own, field, "must be false: a curriculum or a sampler draws, from the problems at Create")


def _check_curriculum(spec: RunSpec, wanted: Curriculum, found: Found, algorithm: Algorithm, faults: Faults) -> None:
    if not algorithm.is_online:
        faults.add("curriculum", f"must be absent: {algorithm.name.upper()} goes through its data in passes")
        return
    own = any(plugin.kind == PluginKind.SAMPLER for plugin in spec.plugins)
    faults.unless(not own, "curriculum", "must be absent: a sampler of one's own draws the problems")
    curriculum.check(
        wanted,
        kinds=found.problems.kinds if found.problems else None,
        steps=spec.steps,
        batch_size=spec.hyperparameters.batch_size,
        group_size=spec.hyperparameters.group_size,
        faults=faults.under("curriculum"),
    )
