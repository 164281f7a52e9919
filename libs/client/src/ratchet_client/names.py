"""References and states as people write them."""

from typing import Any

from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2


def version_name(ref: model_pb2.VersionRef) -> str:
    """ "starter@2"; empty for an empty reference."""
    return f"{ref.model}@{ref.number}" if ref.number else ""


def model_name(ref: model_pb2.ModelRef) -> str:
    """Any of the forms; empty for an empty reference."""
    match ref.WhichOneof("ref"):
        case "version":
            return version_name(ref.version)
        case "alias":
            return f"{ref.alias.model}:{ref.alias.alias}"
        case _:
            return ref.model or ref.uri


def measured_name(evaluation: eval_pb2.Evaluation) -> str:
    """The version that was measured: "starter@2", also where "starter" or an alias was asked for."""
    if not evaluation.spec.HasField("model"):
        return "(samples)"
    return version_name(evaluation.version) or model_name(evaluation.spec.model)


def environment_name(spec: environment_pb2.EnvironmentSpec) -> str:
    """ "edits, 3 answers at most", "harness: python agent.py"; of an empty one, "one answer"."""
    if spec.command:
        return f"{spec.name}: {' '.join(spec.command)}"
    return f"{spec.name}, {spec.max_turns} answers at most" if spec.name else "one answer"


def examples_name(shown: problem_pb2.ProblemSetRef) -> str:
    """ "3 solved problems of mine@1/train"; empty for an empty reference."""
    return f"{shown.limit} solved problems of {shown.name}" if shown.name else ""


def state_name(message: Any) -> str:
    """ "SUCCEEDED" of a message with a State enum."""
    return str(type(message).State.Name(message.state)).removeprefix("STATE_")
