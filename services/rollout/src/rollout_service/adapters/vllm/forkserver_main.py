"""A process that has vLLM imported and forks an engine process for each line it reads.

    python -m rollout_service.adapters.vllm.forkserver_main < orders > pids

Importing vLLM costs some ten seconds of CPU and 400 MB. Done once here, it costs the engines nothing, and they share
the memory. Nothing here may start a thread: only the forking one lives on in a child.
"""

import ctypes
import gc
import importlib
import os
import signal
import sys
import traceback
from typing import NoReturn

from setproctitle import setproctitle

from rollout_service.adapters.vllm import engine_main, wire

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
"""vLLM looks at a model class in yet another process, so as not to touch CUDA, unless the class is registered. Other
architectures load too: later, the first time on a machine."""


def main() -> None:
    setproctitle("ratchet-engine fork server")
    orders, pids = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what vLLM prints goes to the log
    _import_vllm(on_cpu=sys.argv[1] == "cpu")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended engines are reaped by the kernel
    gc.collect()
    gc.freeze()  # else the first collection in a child would copy every page that is shared with it
    while line := orders.readline():
        order = wire.read_order(line)
        pid = os.fork()
        if pid == 0:
            _become_engine(order)
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


def _become_engine(order: wire.Order) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        _lead_group(0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(order.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        os.register_at_fork(after_in_child=die_with_parent)  # vLLM's own processes must not outlive the engine's
        setproctitle(f"ratchet-engine {order.name}")
        os.environ["VLLM_RPC_BASE_PATH"] = order.folder
        code = engine_main.main(order)
    except BaseException:  # noqa: BLE001 - the child ends here in any case
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # vLLM's threads may hold up an orderly exit


def _lead_group(pid: int) -> None:
    """Done by parent and child, as shells do, so that it is done for whichever goes on first."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        pass  # the child has ended already


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
