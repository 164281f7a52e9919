"""A process that imports vLLM, then forks an engine process for each line that it reads.

    python -m rollout_service.adapters.process.forkserver_main < requests > pids

Importing vLLM takes some ten seconds of CPU and 400 MB. Here this happens once, and the engines share the memory.
Nothing here may start a thread: in a child, only the thread that forked exists.
"""

import ctypes
import gc
import importlib
import os
import signal
import sys
import tempfile
import traceback
from typing import NoReturn

from setproctitle import setproctitle

from rollout_service.adapters.engines import wire
from rollout_service.adapters.process import engine_main

_PR_SET_PDEATHSIG = 1
_PRELOADED = (
    "vllm.engine.arg_utils",
    "vllm.v1.engine.async_llm",
    "vllm.v1.engine.core",
    "vllm.inputs.engine",
    "transformers.models.auto.tokenization_auto",
    "rollout_service.adapters.vllm.extension",
)
_MODELS_ON_CPU = {
    "LlamaForCausalLM": "vllm.model_executor.models.llama",
    "Qwen2ForCausalLM": "vllm.model_executor.models.qwen2",
    "Qwen3ForCausalLM": "vllm.model_executor.models.qwen3",
}
"""vLLM inspects a model class in another process, unless the class is registered here. Other architectures load, too,
but slower the first time on a machine."""


def main() -> None:
    setproctitle("ratchet-engine fork server")
    requests, pids = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what vLLM prints goes to the log
    _import_vllm(on_cpu=sys.argv[1] == "cpu")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended engines are reaped by the kernel
    gc.collect()
    gc.freeze()  # otherwise the first collection in a child copies every shared page
    while line := requests.readline():
        request = wire.decode_fork_request(line)
        pid = os.fork()
        if pid == 0:
            _become_engine(request)
        _lead_group(pid)
        pids.write(b"%d\n" % pid)


def _import_vllm(*, on_cpu: bool) -> None:
    for module in _PRELOADED:
        importlib.import_module(module)
    if on_cpu:
        from vllm.model_executor.models import ModelRegistry

        importlib.import_module("vllm.v1.worker.cpu_worker")
        for architecture, module in _MODELS_ON_CPU.items():
            ModelRegistry.register_model(architecture, getattr(importlib.import_module(module), architecture))


def _become_engine(request: wire.ForkRequest) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        _lead_group(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(request.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.register_at_fork(after_in_child=die_with_parent)  # the processes of vLLM must not outlive the engine process
        setproctitle(f"ratchet-engine {request.name}")
        os.environ["VLLM_RPC_BASE_PATH"] = request.folder
        os.environ["TMPDIR"] = tempfile.tempdir = request.folder  # it ends with the engine: vLLM leaves files behind
        if request.spec.devices:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(request.spec.devices)
        code = engine_main.main(request)
    except BaseException:  # noqa: BLE001 - the child ends here in any case
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # a normal exit may wait for threads of vLLM


def _lead_group(pid: int) -> None:
    """Parent and child both call this, as in a shell: either may run first."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        pass  # the child has ended already


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
