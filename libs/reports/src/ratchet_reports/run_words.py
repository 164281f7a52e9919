"""A training run in words: what it does, what it is made of, how far it is."""

import math
from collections.abc import Sequence

from ratchet.common.v1 import priority_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client.names import model_name
from ratchet_reports import usage_words

PHASES = {
    pb.Run.PHASE_SUBMITTING: "starting the job and Ray",
    pb.Run.PHASE_LOADING_MODEL: "loading the model on the training ranks",
    pb.Run.PHASE_LOADING_POLICY: "loading the policy in the rollout service",
    pb.Run.PHASE_GENERATING: "sampling and grading completions",
    pb.Run.PHASE_UPDATING: "updating the weights",
    pb.Run.PHASE_VALIDATING: "validating",
    pb.Run.PHASE_SAVING: "writing a checkpoint",
    pb.Run.PHASE_REGISTERING: "registering the best checkpoint",
}
RECENT_STEPS, LEAST_STEPS = 10, 3
"""Number of steps behind the estimate of the time left."""


def plugin(one: pb.Plugin) -> str:
    kind = pb.PluginKind.Name(one.kind).removeprefix("PLUGIN_KIND_").lower()
    return f"{kind} {one.name} of {one.package} {one.version}, {one.digest}"


def form(value: pb.PromptForm.ValueType) -> str:
    """How problems are put; "chat" in a run of old."""
    return pb.PromptForm.Name(value or pb.PROMPT_FORM_CHAT).removeprefix("PROMPT_FORM_").lower()


def stage(one: pb.CurriculumStage) -> str:
    """The problems that it selects, and when it ends."""
    low = f" from {one.min_difficulty}" if one.HasField("min_difficulty") else ""
    high = f" up to {one.max_difficulty}" if one.HasField("max_difficulty") else ""
    selected = [f"difficulty{low}{high}"] if low or high else []
    selected += [f"tagged {' or '.join(one.tags)}"] if one.tags else []
    ends = [f"{one.steps} steps"] if one.HasField("steps") else []
    ends += [f"a pass rate of {one.pass_rate:g}"] if one.HasField("pass_rate") else []
    return f"{', '.join(selected) or 'all problems'}; to {' or '.join(ends) or 'the end of the run'}"


def algorithm(spec: pb.RunSpec) -> str:
    name, hyper = pb.Algorithm.Name(spec.algorithm).removeprefix("ALGORITHM_").lower(), spec.hyperparameters
    return f"{name}, LoRA of rank {hyper.lora_rank} (alpha {hyper.lora_alpha})" if hyper.lora_rank else name


def parent(spec: pb.RunSpec) -> str:
    """The step of another run that it started from; empty without one."""
    return f"step {spec.parent.step} of {spec.parent.run_id}" if spec.HasField("parent") else ""


def reward(spec: pb.RewardSpec) -> str:
    """One line; empty without one."""
    if not spec.components:
        return spec.name
    if len(spec.components) == 1:
        return _component(spec.components[0])
    combination = pb.RewardSpec.Combination.Name(spec.combination).removeprefix("COMBINATION_").lower()
    return f"{combination} of {', '.join(map(_component, spec.components))}"


def verdict(sample: pb.TrainingSample | eval_pb2.Sample) -> str:
    return verdict_pb2.Verdict.Name(sample.verdict).removeprefix("VERDICT_") if sample.verdict else "UNTESTED"


def components(sample: pb.TrainingSample) -> str:
    """The values of a sample's reward, by name."""
    return ", ".join(f"{name} {value:.3g}" for name, value in sorted(sample.components.items()))


def failed(test: pb.FailedTest | verdict_pb2.ShownTest) -> str:
    """One line."""
    found = test.error or test.got or "nothing"
    return f"{test.test}: {found}{f', not {test.expected}' if test.expected else ''}"


def reason(sample: pb.TrainingSample) -> str:
    """The first thing that went wrong, and what else did; empty for a pass."""
    said = failed(sample.failed_tests[0]) if sample.failed_tests else sample.detail
    many = sample.held_out_failed
    held_out = f"{many} held-out test{'s' if many > 1 else ''} failed" if many else ""
    cut = "cut off at max_response_tokens" if sample.truncated else ""
    return "; ".join(filter(None, (said, held_out, cut)))


def _component(component: pb.RewardComponent) -> str:
    weight = f" {component.weight:g}" if component.HasField("weight") else ""
    if component.schedule:
        weight = " " + " to ".join(f"{point.weight:g} at step {point.step}" for point in component.schedule)
    veto = f" (vetoed below {component.veto_below:g})" if component.HasField("veto_below") else ""
    number = f"@{component.version}" if component.version else ""
    scored_by = f" by {model_name(component.model)}" if component.HasField("model") else ""
    return f"{component.name}{number}{weight}{scored_by}{veto}"


def activity(run: pb.Run) -> str:
    """The run's phase, in words; empty when it has ended."""
    match run.state:
        case pb.Run.STATE_QUEUED:
            return f"waiting for {run.waits_for or 'a worker of the trainer'}"
        case pb.Run.STATE_RUNNING if run.preempted_by:
            return f"making room for {run.preempted_by} after this step"
        case pb.Run.STATE_RUNNING if run.waits_for:
            return f"validating {run.waits_for}"
        case pb.Run.STATE_STARTING | pb.Run.STATE_RUNNING:
            return PHASES.get(run.phase, "starting" if run.state == pb.Run.STATE_STARTING else "training")
    return ""


def learned_nothing(run: pb.Run) -> str:
    """The notice of a run whose rewards never differed within a group; empty for any other."""
    return next((one.message for one in run.notices if one.guard == "learned_nothing"), "")


def priority(run: pb.Run) -> str:
    return (
        priority_pb2.Priority.Name(run.spec.priority or priority_pb2.PRIORITY_NORMAL).removeprefix("PRIORITY_").lower()
    )


def waits(run: pb.Run) -> str:
    """The reason why a run waits that is queued or has trained, or the run that it makes room for; else empty."""
    return activity(run) if run.waits_for or (run.preempted_by and run.state == pb.Run.STATE_RUNNING) else ""


def memory(run: pb.Run) -> str:
    """The memory that training was expected to take, and how it was made to fit."""
    hyper = run.spec.hyperparameters
    expected = f"about {run.forecast.peak_bytes / 2**30:.1f} GiB" if run.HasField("forecast") else "not known"
    if run.forecast.HasField("limit_bytes"):
        expected += f" of {run.forecast.limit_bytes / 2**30:.1f}"
    tokens = max(hyper.micro_batch_tokens >> run.out_of_memory, hyper.max_prompt_tokens + hyper.max_response_tokens)
    twice = ", activations made a second time" if hyper.gradient_checkpointing or run.out_of_memory else ""
    seconds = math.ceil(run.forecast.step_time.ToTimedelta().total_seconds())
    time = f", at most about {seconds} s a step" if run.forecast.HasField("step_time") else ""
    if run.forecast.HasField("cost"):
        time += f" and {usage_words.money(run.forecast.cost, run.forecast.currency)} for its steps"
    return f"{expected}{time}, in passes of {tokens} tokens{twice}"


def tokens(run: pb.Run) -> str:
    """Tokens that it has trained on, of those that it may."""
    return f"{run.tokens:,}" + (f" of {run.spec.max_tokens:,}" if run.spec.HasField("max_tokens") else "")


def cost(run: pb.Run) -> str:
    """The cost until now, of its budget; empty without prices."""
    return usage_words.cost(run.usage, run.spec.budget if run.spec.HasField("budget") else None)


def seconds_per_step(steps: Sequence[pb.Step]) -> float | None:
    """By the times of the last steps, so with validation and checkpoints; None before the third of an attempt, whose
    first ones load and compile."""
    recent = [step for step in steps if step.attempt == steps[-1].attempt][-RECENT_STEPS:]
    if len(recent) < LEAST_STEPS:
        return None
    spent = recent[-1].create_time.ToDatetime() - recent[0].create_time.ToDatetime()
    return spent.total_seconds() / (recent[-1].number - recent[0].number)


def score(checkpoint: pb.Checkpoint) -> str:
    """The score of its validation, with the interval where it has one."""
    if not checkpoint.HasField("validation_score"):
        return ""
    interval = checkpoint.validation
    between = f" ({interval.low:.3f} to {interval.high:.3f})" if checkpoint.HasField("validation") else ""
    return f"  {checkpoint.validation_score:.3f}{between}"


def evaluation(checkpoint: pb.Checkpoint) -> str:
    """The evaluation that measures it, and the reason why it gives no score; empty where there is neither."""
    return "".join(f"  {text}" for text in (checkpoint.evaluation_id, checkpoint.unscored) if text)


def suite(validate: pb.Validation) -> str:
    """Its sets with their weights, and the samples."""
    sets = ", ".join(f"{one.problems.name}={one.weight:g}" for one in validate.suite)
    return f"{sets}, {validate.samples} samples a problem" if sets else ""
