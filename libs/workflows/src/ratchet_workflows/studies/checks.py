"""The checks of a study by the platform, before anything of it is begun."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client
from ratchet_client.names import model_name
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.fields import Source
from ratchet_workflows.notation.references import model_ref, version_of
from ratchet_workflows.notation.unseen import check_unseen
from ratchet_workflows.studies.plan import DEFAULT, Plan, Variant
from ratchet_workflows.studies.ranges import Search


def bases(client: Client, plan: Plan) -> dict[str, str]:
    """The meaning of bases' names now, "starter" -> "starter@1". Raises UsageError, ApiError for what is not there."""
    found = {}
    for variant in [*plan.variants, plan.variant(DEFAULT, {})]:
        name = model_name(variant.spec.base)
        if variant.spec.base.WhichOneof("ref") in ("model", "alias") and name not in found:
            found[name] = str(version_of(client, name))
    return found


def check(
    client: Client,
    plan: Plan,
    source: Source,
    known: Mapping[str, str],
) -> trainer_pb2.RunSpec:
    """The first of the runs, with its defaults. Raises UsageError that names every field at fault, and ApiError for
    what is not a field's fault, such as a run that does not fit into memory."""
    variants = _corners(plan, plan.search) if plan.search else plan.variants
    for variant in variants:
        check_unseen(source, variant.spec, plan.evaluate)
    taken = trainer_pb2.RunSpec()
    faults: dict[tuple[str, str], list[str]] = {}
    for variant in reversed(variants):
        try:
            taken = client.runs.create(variant.run_of(plan.seeds[0], known), validate_only=True).spec
        except ApiError as error:
            if not error.violations:
                raise
            for one in error.violations:
                path = one["field"].removeprefix("spec.")
                at = next((at for at in (f"vary.{path}", f"search.ranges.{path}") if source.has(at)), f"train.{path}")
                faults.setdefault((at, one["description"].rstrip(".")), []).insert(0, variant.name)
    base = variants[0].spec.base
    try:
        spec = plan.evaluation_of(model_ref(known[model_name(base)]) if model_name(base) in known else base)
        client.evaluations.create(spec, validate_only=True)
    except ApiError as error:
        if not error.violations:
            raise
        for one in error.violations:
            path = f"evaluate.{one['field'].removeprefix('spec.')}"
            faults[path, one["description"].rstrip(".")] = []
    if faults:
        sentences = [
            str(source.wrong(at, said + (f" (in {'; '.join(of)})" if 0 < len(of) < len(variants) else "")))
            for (at, said), of in faults.items()
        ]
        raise UsageError("\n".join(sentences))
    return taken


def _corners(plan: Plan, search: Search) -> list[Variant]:
    """The default, and the ends of each range with the others as they are by default."""
    ends = [
        plan.trial({path: value}) for path, one in search.ranges.items() for value in one.choices or (one.low, one.high)
    ]
    return [plan.variant(DEFAULT, {}), *ends]


def values(spec: trainer_pb2.RunSpec, search: Search) -> dict[str, object]:
    """The values of a complete spec where the search looks, as a file writes them; without unset ones and messages."""
    found: dict[str, object] = {}
    for path in search.ranges:
        *parents, last = path.split(".")
        message: Any = spec
        for part in parents:
            message = getattr(message, part)
        field: FieldDescriptor = message.DESCRIPTOR.fields_by_name[last]
        if field.message_type is not None or field.is_repeated or (field.has_presence and not message.HasField(last)):
            continue
        value = getattr(message, last)
        if field.enum_type is not None:
            named = field.enum_type.values_by_number[value].name
            value = named.removeprefix(field.enum_type.values[0].name.removesuffix("UNSPECIFIED")).lower()
        found[path] = value
    return found
