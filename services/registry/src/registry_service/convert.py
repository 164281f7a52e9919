"""Protobuf to the domain and back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import TypeVar

from ratchet.registry.v1 import dataset_pb2
from ratchet.registry.v1 import registry_pb2 as pb
from ratchet_kit import refs
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.grpc_errors import failure_to_proto
from ratchet_kit.names import (
    AliasRef,
    DatasetRef,
    RewardRef,
    VersionRef,
    check_dataset_name,
    check_model_name,
    check_reward_name,
    check_split_name,
    check_version_number,
)
from ratchet_kit.statistics import comparison_to_proto
from ratchet_kit.times import duration_to_proto, since_from_proto, timestamp_to_proto
from ratchet_problems.balance import Balance, Quantiles
from registry_service.domain.dataset import Card, Dataset, DatasetSpec, Split, Upload
from registry_service.domain.finding import Finding, FindingState, Kind, Rule
from registry_service.domain.gate import Gate, GateSpec
from registry_service.domain.gate_rules import GateRules, Guard
from registry_service.domain.model import AliasChange, Model
from registry_service.domain.ports import VersionFilter
from registry_service.domain.reference_runs import ReferenceRuns
from registry_service.domain.reward import Reward, RewardSpec
from registry_service.domain.version import Lineage, State, Version, VersionSpec

T = TypeVar("T")
_KINDS: Mapping[int, Kind] = {dataset_pb2.Finding.Kind.Value(f"KIND_{kind.name}"): kind for kind in Kind}
_FINDING_STATES: Mapping[int, FindingState] = {
    dataset_pb2.Finding.State.Value(f"STATE_{state.name}"): state for state in FindingState
}


def ref_from_proto(model: str, number: int) -> VersionRef:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.read("model", check_model_name, model)
    faults.read("number", check_version_number, number)
    faults.raise_if_any()
    return VersionRef(model, number)


def wanted_from_proto(request: pb.GetVersionRequest) -> VersionRef | AliasRef:
    """Raises InvalidArgument."""
    if request.WhichOneof("which") == "alias":
        return AliasRef(request.model, request.alias)
    return ref_from_proto(request.model, request.number)


def version_spec_from_proto(request: pb.CreateVersionRequest) -> VersionSpec:
    """Raises InvalidArgument."""
    lineage = Lineage(
        base=refs.model_from_proto(request.lineage.base, "lineage.base") if request.lineage.HasField("base") else None,
        run_id=request.lineage.run_id,
        data_digest=request.lineage.data_digest,
        config_digest=request.lineage.config_digest,
        code_version=request.lineage.code_version,
        step=request.lineage.step,
        selection_digest=request.lineage.selection_digest if request.lineage.HasField("selection_digest") else None,
        system=request.lineage.system,
        drawn_digests=tuple(one.digest for one in request.drawn_problems),
    )
    return VersionSpec(request.model, request.source_uri, lineage, dict(request.labels))


def gate_spec_from_proto(request: pb.CreateGateRequest) -> GateSpec:
    """Raises InvalidArgument."""
    return GateSpec(
        candidate=refs.version_from_proto(request.candidate, "candidate"),
        candidate_evaluation_id=request.candidate_evaluation_id,
        champion_evaluation_id=request.champion_evaluation_id,
        min_difference=request.min_difference,
        rules=_rules_from_proto(request.rules),
    )


def _rules_from_proto(message: pb.GateRules) -> GateRules:
    return GateRules(
        target=message.target,
        guards=tuple(Guard(guard.problems, guard.max_loss) for guard in message.guards),
        max_unsolved=message.max_unsolved if message.HasField("max_unsolved") else None,
        max_tampered_share=message.max_tampered_share if message.HasField("max_tampered_share") else None,
    )


def reward_spec_from_proto(request: pb.CreateRewardRequest) -> RewardSpec:
    return RewardSpec(request.name, request.source, request.description)


def reward_ref_from_proto(name: str, number: int) -> RewardRef:
    """Raises InvalidArgument."""
    faults = Faults()
    faults.read("name", check_reward_name, name)
    faults.read("number", check_version_number, number)
    faults.raise_if_any()
    return RewardRef(name, number)


def wanted_reward_from_proto(request: pb.GetRewardRequest) -> RewardRef:
    """Raises InvalidArgument."""
    if request.HasField("number"):
        return reward_ref_from_proto(request.name, request.number)
    return RewardRef(check_reward_name(request.name))


def expected_from_proto(request: pb.SetAliasRequest) -> int | None:
    return request.expected_number if request.HasField("expected_number") else None


def model_to_proto(model: Model) -> pb.Model:
    return pb.Model(
        name=model.name,
        description=model.description,
        create_time=timestamp_to_proto(model.create_time),
        aliases=model.aliases,
        latest_version=model.latest_version,
        failed_versions=model.failed_versions,
    )


def version_to_proto(version: Version) -> pb.Version:
    message = pb.Version(
        ref=refs.version_to_proto(version.ref),
        state=pb.Version.State.Value(f"STATE_{version.state.name}"),
        failure=failure_to_proto(version.failure),
        source_uri=version.spec.source_uri,
        lineage=_lineage_to_proto(version.spec.lineage),
        labels=version.spec.labels,
        create_time=timestamp_to_proto(version.create_time),
        end_time=timestamp_to_proto(version.end_time) if version.end_time else None,
    )
    if version.artifact is not None:
        message.artifact_uri = version.artifact.uri
        message.artifact_sha256 = version.artifact.sha256
        message.policy_id = version.artifact.policy_id
        message.size_bytes = version.artifact.size_bytes
        message.settings_id = version.artifact.settings_id
    return message


def change_to_proto(change: AliasChange) -> pb.AliasChange:
    return pb.AliasChange(
        model=change.model,
        alias=change.alias,
        from_number=change.from_number,
        to_number=change.to_number,
        reason=change.reason,
        gate_id=change.gate_id,
        create_time=timestamp_to_proto(change.create_time),
        actor=change.actor,
        takes_back=change.takes_back,
    )


def gate_to_proto(gate: Gate, stale: str = "") -> pb.Gate:
    return pb.Gate(
        id=gate.id,
        state=pb.Gate.State.Value(f"STATE_{gate.state.name}"),
        failure=failure_to_proto(gate.failure),
        candidate=refs.version_to_proto(gate.spec.candidate),
        champion=refs.version_to_proto(gate.champion),
        candidate_evaluation_id=gate.spec.candidate_evaluation_id,
        champion_evaluation_id=gate.spec.champion_evaluation_id,
        comparison=comparison_to_proto(gate.comparison) if gate.comparison else None,
        reason=gate.reason,
        min_difference=gate.spec.min_difference,
        create_time=timestamp_to_proto(gate.create_time),
        end_time=timestamp_to_proto(gate.end_time) if gate.end_time else None,
        rules=_rules_to_proto(gate.spec.rules),
        guards=[
            pb.GuardResult(
                problems=guard.problems, comparison=comparison_to_proto(guard.comparison), passed=guard.passed
            )
            for guard in gate.guards
        ],
        tries=gate.tries,
        stale=stale,
    )


def reward_to_proto(reward: Reward) -> pb.Reward:
    return pb.Reward(
        name=reward.name,
        number=reward.number,
        source=reward.source,
        digest=reward.digest,
        size_bytes=reward.size_bytes,
        description=reward.description,
        create_time=timestamp_to_proto(reward.create_time),
        actor=reward.actor,
        runs=reward.runs,
        last_run_id=reward.last_run_id,
    )


def dataset_spec_from_proto(request: dataset_pb2.CreateDatasetRequest) -> DatasetSpec:
    """Raises InvalidArgument for a split that is named twice."""
    card = request.card
    uploads = {split.name: Upload(split.size_bytes, split.sha256) for split in request.splits}
    if len(uploads) < len(request.splits):
        raise InvalidArgument("splits must have different names")
    names = (field.name for field in fields(Card))
    return DatasetSpec(request.name, Card(**{name: getattr(card, name) for name in names}), uploads)


def dataset_ref_from_proto(name: str, number: int | None, split: str | None = None) -> DatasetRef:
    """`number`: None for the newest. `split`: None where none is asked for. Raises InvalidArgument."""
    faults = Faults()
    faults.read("name", check_dataset_name, name)
    if number is not None:
        faults.read("number", check_version_number, number)
    if split is not None:
        faults.read("split", check_split_name, split)
    faults.raise_if_any()
    return DatasetRef(name, number, split or "")


def dataset_to_proto(dataset: Dataset) -> dataset_pb2.Dataset:
    return dataset_pb2.Dataset(
        name=dataset.name,
        number=dataset.number,
        state=dataset_pb2.Dataset.State.Value(f"STATE_{dataset.state.name}"),
        failure=failure_to_proto(dataset.failure),
        splits=[_split_to_proto(name, split) for name, split in dataset.splits.items()],
        card=dataset_pb2.DatasetCard(**asdict(dataset.card)),
        create_time=timestamp_to_proto(dataset.create_time),
        end_time=timestamp_to_proto(dataset.end_time) if dataset.end_time else None,
        actor=dataset.actor,
        uses=dataset.uses,
        last_user=dataset.last_user,
    )


def rule_from_proto(request: dataset_pb2.ListFindingsRequest | dataset_pb2.DecideFindingsRequest) -> Rule:
    """Raises InvalidArgument for an unknown kind."""
    return Rule(_known(_KINDS, "kind", request.kind), request.split, request.problem, request.other_set)


def finding_state_from_proto(request: dataset_pb2.ListFindingsRequest) -> FindingState | None:
    """Raises InvalidArgument for an unknown one."""
    return _known(_FINDING_STATES, "state", request.state)


def version_filter_from_proto(request: pb.ListVersionsRequest) -> VersionFilter:
    """Raises InvalidArgument for an unknown state, and for an invalid time."""
    states: dict[int, State] = {pb.Version.State.Value(f"STATE_{state.name}"): state for state in State}
    return VersionFilter(_known(states, "state", request.state), since_from_proto(request))


def decided_from_proto(request: dataset_pb2.DecideFindingsRequest) -> FindingState:
    """Raises InvalidArgument for none, and for an unknown one."""
    faults = Faults()
    faults.required("state", request.state)
    faults.raise_if_any()
    return _known(_FINDING_STATES, "state", request.state) or FindingState.OPEN


def _known(table: Mapping[int, T], field: str, number: int) -> T | None:
    faults = Faults()
    faults.unless(not number or number in table, field, "is not known")
    faults.raise_if_any()
    return table.get(number)


def finding_to_proto(finding: Finding) -> dataset_pb2.Finding:
    decision = finding.decision
    return dataset_pb2.Finding(
        kind=dataset_pb2.Finding.Kind.Value(f"KIND_{finding.kind.name}"),
        split=finding.split,
        problem=finding.problem,
        other_set=finding.other_set,
        other=finding.other,
        detail=finding.detail,
        state=dataset_pb2.Finding.State.Value(f"STATE_{finding.state.name}"),
        decision=dataset_pb2.FindingDecision(
            reason=decision.reason,
            actor=decision.actor,
            create_time=timestamp_to_proto(decision.create_time),
            dataset=str(decision.dataset),
        )
        if decision
        else None,
    )


def _split_to_proto(name: str, split: Split) -> dataset_pb2.DatasetSplit:
    content = split.content
    return dataset_pb2.DatasetSplit(
        name=name,
        size_bytes=split.upload.size_bytes,
        sha256=split.upload.sha256,
        received_bytes=split.received,
        content_bytes=content.size_bytes if content else 0,
        content_sha256=content.sha256 if content else "",
        rows=content.rows if content else 0,
        digest=content.digest if content else "",
        notices=content.notices if content else (),
        balance=_balance_to_proto(content.balance) if content and content.balance else None,
        compared_sets=content.compared_sets if content else 0,
        compared_problems=content.compared_problems if content else 0,
        references=_runs_to_proto(content.references) if content and content.references else None,
        progress=dataset_pb2.ExaminationProgress(
            check=dataset_pb2.ExaminationProgress.Check.Value(f"CHECK_{split.progress.check.name}"),
            done=split.progress.done,
            total=split.progress.total,
        )
        if split.progress
        else None,
    )


def _balance_to_proto(balance: Balance) -> dataset_pb2.Balance:
    return dataset_pb2.Balance(
        tags=_counts_to_proto(balance.tags),
        difficulties=_counts_to_proto(balance.difficulties),
        languages=_counts_to_proto(balance.languages),
        prompt=_quantiles_to_proto(balance.prompt),
        reference=_quantiles_to_proto(balance.reference),
        tests=_quantiles_to_proto(balance.tests),
    )


def runs_from_proto(request: dataset_pb2.ReportUnsoundRequest) -> ReferenceRuns | None:
    """Gives None where the report has none of it."""
    runs = request.runs
    if not request.HasField("runs"):
        return None
    cpu_time = _quantiles_from_proto(runs.cpu_time) if runs.HasField("cpu_time") else None
    memory_bytes = _quantiles_from_proto(runs.memory_bytes) if runs.HasField("memory_bytes") else None
    return ReferenceRuns(runs.problems, runs.strict, runs.shared, cpu_time, memory_bytes)


def _quantiles_from_proto(quantiles: dataset_pb2.Quantiles) -> Quantiles:
    return Quantiles(*(getattr(quantiles, one.name) for one in fields(Quantiles)))


def _runs_to_proto(runs: ReferenceRuns) -> dataset_pb2.ReferenceRuns:
    return dataset_pb2.ReferenceRuns(
        problems=runs.problems,
        strict=runs.strict,
        shared=runs.shared,
        cpu_time=_quantiles_to_proto(runs.cpu_time),
        memory_bytes=_quantiles_to_proto(runs.memory_bytes),
        cpu_time_limit=None if runs.cpu_time_limit is None else duration_to_proto(runs.cpu_time_limit),
        memory_limit_bytes=runs.memory_limit_bytes,
    )


def _counts_to_proto(counts: Mapping[str, int]) -> Sequence[dataset_pb2.Count]:
    return [dataset_pb2.Count(name=name, problems=problems) for name, problems in counts.items()]


def _quantiles_to_proto(quantiles: Quantiles | None) -> dataset_pb2.Quantiles | None:
    return dataset_pb2.Quantiles(**asdict(quantiles)) if quantiles else None


def _rules_to_proto(rules: GateRules) -> pb.GateRules:
    return pb.GateRules(
        target=rules.target,
        guards=[pb.Guard(problems=guard.problems, max_loss=guard.max_loss) for guard in rules.guards],
        max_unsolved=rules.max_unsolved,
        max_tampered_share=rules.max_tampered_share,
    )


def _lineage_to_proto(lineage: Lineage) -> pb.Lineage:
    return pb.Lineage(
        base=refs.model_to_proto(lineage.base) if lineage.base else None,
        run_id=lineage.run_id,
        data_digest=lineage.data_digest,
        config_digest=lineage.config_digest,
        code_version=lineage.code_version,
        step=lineage.step,
        selection_digest=lineage.selection_digest,
        system=lineage.system,
        drawn_digests=lineage.drawn_digests,
    )
