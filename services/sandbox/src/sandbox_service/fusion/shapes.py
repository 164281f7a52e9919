"""SandboxFusion's requests and answers, field by field. Words and defaults are its own."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from ratchet_kit.text import check_encodable

# What the client may name; what this node has of it is another matter.
Language = Literal[
    "python", "python2", "c", "cpp", "nodejs", "go", "go_test", "java", "php", "csharp", "bash", "typescript", "sql",
    "rust", "cuda", "lua", "R", "perl", "D_ut", "ruby", "scala", "julia", "pytest", "junit", "kotlin_script", "jest",
    "verilog", "python_gpu", "lean", "swift", "racket", "gtest", "react",
]  # fmt: skip


Text = Annotated[str, AfterValidator(check_encodable)]


MAX_TIMEOUT = 3600  # seconds; the service's own bound is lower


class CommandRunStatus(StrEnum):
    """How one command ended. `Finished` says nothing about its return code."""

    FINISHED = "Finished"
    ERROR = "Error"
    TIME_LIMIT_EXCEEDED = "TimeLimitExceeded"


class RunStatus(StrEnum):
    SUCCESS = "Success"
    FAILED = "Failed"
    SANDBOX_ERROR = "SandboxError"


class _Shape(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class CommandRunResult(_Shape):
    """Times in seconds. `return_code` is negative for a signal, and unset when a limit ended the command."""

    status: CommandRunStatus
    execution_time: float | None = None
    cpu_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class RunCodeRequest(_Shape):
    compile_timeout: float = Field(10, gt=0, le=MAX_TIMEOUT, description="seconds for the compiler, where there is one")
    run_timeout: float = Field(
        10, gt=0, le=MAX_TIMEOUT, description="seconds of CPU time, and as many again of sleeping and waiting"
    )
    memory_limit_MB: int | None = Field(-1, description="unset, 0 or less: 1024; under 64: 64")
    code: Text = Field(examples=['print("hello")'])
    stdin: Text | None = None
    language: Language = Field(examples=["python"])
    files: dict[Text, Text | None] = Field({}, description="relative paths to contents in base64")
    fetch_files: list[Text] = Field([], description="relative paths of files to return after the run")


class RunCodeResponse(_Shape):
    status: RunStatus
    message: str
    compile_result: CommandRunResult | None = None
    run_result: CommandRunResult | None = None
    executor_pod_name: str | None = None
    files: dict[str, str] = {}


class TestConfig(_Shape):
    __test__ = False  # not for pytest

    dataset_type: Text | None = Field(None, description="how the rows are read, for a dataset that isn't known by name")
    language: Language | None = None
    locale: str | None = None
    is_fewshot: bool | None = None
    compile_timeout: float | None = Field(None, gt=0, le=MAX_TIMEOUT)
    run_timeout: float | None = Field(None, gt=0, le=MAX_TIMEOUT)
    custom_extract_logic: str | None = Field(None, description="not run here: it's code for the service's own process")
    provided_data: list[dict[str, Any]] | dict[str, Any] | None = Field(None, description="the row of the dataset")
    extra: dict[str, Any] = {}


class SubmitRequest(_Shape):
    dataset: Text = Field(examples=["humaneval_python"])
    id: int | Text
    completion: Text
    config: TestConfig


class EvalTestCase(_Shape):
    passed: bool
    exec_info: RunCodeResponse
    test_info: dict[str, Any] | None = None


class EvalResult(_Shape):
    id: int | str
    accepted: bool
    extracted_code: str
    full_code: str | None = None
    test_code: str | None = None
    tests: list[EvalTestCase]
    extracted_type: Literal["fenced", "incomplete_fenced", "heuristic", "empty"] | None = None
    extra: dict[str, Any] | None = None
