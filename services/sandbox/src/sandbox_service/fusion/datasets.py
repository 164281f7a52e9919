"""SandboxFusion's names of data sets and of the classes that read them, and which benchmark of ours each is."""

from collections.abc import Mapping

from ratchet_kit.errors import FieldViolation, InvalidArgument, Unimplemented
from sandbox_service.fusion.rows import READERS, Options, Reader
from sandbox_service.fusion.shapes import TestConfig

RUN_TIMEOUT = 20.0  # seconds
COMPILE_TIMEOUT = 10.0

# SandboxFusion's classes of data sets, and the reader of each.
CLASSES: Mapping[str, str] = {
    "HumanEvalDataset": "human_eval",
    "EvoEvalDataset": "evo_eval",
    "MBPPDataset": "mbpp",
    "MHPPDataset": "mhpp",
    "CommonOJDataset": "common_oj",
    "LiveCodeBenchDataset": "live_code_bench",
    "AutoEvalDataset": "auto_eval",
    "AutoEvalV4Dataset": "auto_eval",
    "AutoEvalV5Dataset": "auto_eval",
    "AutoEvalV6Dataset": "auto_eval",
    "BigCodeBenchDataset": "big_code_bench",
    "MultiPLEDataset": "multipl_e",
}
# SandboxFusion's data sets, and the class of each.
DATASETS: Mapping[str, str] = {
    "humaneval_python": "HumanEvalDataset",
    "shadow_humaneval_python": "HumanEvalDataset",
    "evoeval": "EvoEvalDataset",
    "mbpp": "MBPPDataset",
    "mhpp": "MHPPDataset",
    "code_contests": "CommonOJDataset",
    "live_code_bench_v1": "LiveCodeBenchDataset",
    "bigcodebench": "BigCodeBenchDataset",
}


def reader(dataset: str, dataset_type: str | None) -> Reader:
    """Raises InvalidArgument for a data set without a class, Unimplemented for a class that isn't offered."""
    name = DATASETS.get(dataset, dataset_type)
    if name is None:
        known = ", ".join(DATASETS)
        raise InvalidArgument(
            f"dataset: no data set {dataset!r}; set config.dataset_type to its class, or take one of {known}",
            [FieldViolation("dataset", f"is not one of {known}, and config.dataset_type is not set")],
        )
    if name not in CLASSES:
        raise Unimplemented(f"data sets of class {name!r} are not offered here: {', '.join(CLASSES)} are")
    return READERS[CLASSES[name]]


def options(read: Reader, config: TestConfig) -> Options:
    """Raises InvalidArgument where the class needs a language and none is set."""
    if read is READERS["common_oj"] and config.language is None:
        raise InvalidArgument(
            "config.language must be set for CommonOJDataset", [FieldViolation("config.language", "must be set")]
        )
    return Options(config.language or "", bool(config.is_fewshot), bool(config.extra.get("is_freeform")))
