"""The metrics that Grafana's boards ask Prometheus for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FROM_PROMETHEUS = frozenset({"instance", "job", "service", "le"})
"""Labels that no service sets on its own."""


def read(board: Path) -> Any:
    return json.loads(board.read_text())


def expressions_of(board: Path) -> list[str]:
    return [target["expr"] for panel in read(board)["panels"] for target in panel.get("targets", ())]


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"ratchet_\w+", text))


def labels_in(expression: str) -> Iterator[tuple[str, str]]:
    """(metric, label) for each label that a selector names, and for those that are grouped by where the expression has
    one metric."""
    for name, selector in re.findall(r"(ratchet_\w+)\{([^}]*)\}", expression):
        yield from ((name, label) for label in re.findall(r"(\w+)\s*=~?\"", selector))
    names = metrics_in(expression)
    if len(names) == 1:
        groups = {label.strip() for inner in re.findall(r"\bby \(([^)]*)\)", expression) for label in inner.split(",")}
        yield from ((name, label) for name in names for label in groups)
