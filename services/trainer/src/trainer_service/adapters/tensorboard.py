"""The tracker "tensorboard": event files in a folder that TensorBoard reads, or below an fsspec URL.

A run has one folder, `<project>/<name>-<id>`, with a file for each time that this service was started; a step is in
one of them. What the run is, and its files on record, are texts.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ratchet_kit.errors import RatchetError, Unavailable
from ratchet_kit.storage import errors
from trainer_service.adapters.mlflow import flat
from trainer_service.domain.work.ports import Shown

MOST_TEXT = 200_000
"""Characters of a file."""


class TensorBoard:
    name = "tensorboard"

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._writers: dict[str, EventFileWriter] = {}
        self._texts: dict[str, dict[str, str]] = {}

    async def show(self, shown: Shown, key: str) -> str:
        place = key or f"{shown.project}/{_folder_name(shown)}"
        try:
            with errors(self._url):
                await asyncio.to_thread(self._write, shown, f"{self._url}/{place}")
        except RatchetError:
            raise
        except Exception as error:  # fsspec's file systems raise errors of their own
            raise Unavailable(f"{self._url} cannot be written: {type(error).__name__}: {error}") from error
        return place

    def _write(self, shown: Shown, folder: str) -> None:
        run = shown.run
        writer = self._writers.get(run.id) or EventFileWriter(folder)
        self._writers[run.id] = writer
        for step in (*shown.steps, *shown.scored):
            values = [Summary.Value(tag=name, simple_value=value) for name, value in step.metrics.items()]
            writer.add_event(
                Event(wall_time=_seconds(step.create_time), step=step.number, summary=Summary(value=values))
            )
        said = self._texts.setdefault(run.id, {})
        for name, text in _texts(shown).items():
            if said.get(name) != text:
                summary = Summary(value=[_text(name, text)])
                writer.add_event(Event(wall_time=_seconds(run.update_time), step=run.step, summary=summary))
                said[name] = text
        writer.flush()
        if run.state.is_final:
            writer.close()
            del self._writers[run.id], self._texts[run.id]


def _texts(shown: Shown) -> Mapping[str, str]:
    """Markdown."""
    run, best = shown.run, shown.run.best_checkpoint
    facts = {
        "run": run.id,
        "state": run.state.name,
        "attempt": run.attempt,
        "version": run.version or "",
        "failure": run.failure.message if run.failure else "",
        "best step": best.step if best else "",
        "best model": best.uri if best else "",
        "policy id": best.policy_id if best else "",
    }
    files = {name: _block(data.decode(errors="replace")) for name, data in shown.files.items()}
    notices = {f"step {one.step}": one.message for one in run.notices}
    texts = {"run": _table(facts), "spec": _table(dict(flat(asdict(run.spec)))), "notices": _table(notices), **files}
    return {name: text for name, text in texts.items() if text}


def _table(rows: Mapping[str, Any]) -> str:
    lines = [f"| {name} | {_cell(value)} |" for name, value in rows.items() if value != ""]
    return "\n".join(["| | |", "|---|---|", *lines]) if lines else ""


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _block(text: str) -> str:
    return "\n".join(f"    {line}" for line in text[:MOST_TEXT].splitlines())


def _text(name: str, text: str) -> Summary.Value:
    """As TensorBoard's own `text` makes it: a string under the metadata of the plug-in of that name."""
    tensor = TensorProto(dtype=DT_STRING, tensor_shape=TensorShapeProto(), string_val=[text.encode()])
    plugin = SummaryMetadata.PluginData(plugin_name="text", content=b"")
    return Summary.Value(tag=name, tensor=tensor, metadata=SummaryMetadata(plugin_data=plugin))


def _folder_name(shown: Shown) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", shown.run.spec.display_name).strip("-.")[:80]
    return f"{name}-{shown.run.id}" if name else shown.run.id


def _seconds(time: datetime) -> float:
    return time.timestamp()
