"""A composition of operations: its structure, its English and its Python."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from ratchet_kit import syntax
from ratchet_problems.composed.vocabulary import After, Filter, Finisher, Map, Source

ENTRY_POINT = "solve"


@dataclass(frozen=True, slots=True)
class Composition:
    """A pipeline with every constant filled in: templates hold only {x} or {v}."""

    source: Source
    filters: tuple[Filter, ...]
    maps: tuple[Map, ...]
    finisher: Finisher
    after: After | None = None

    @property
    def structure(self) -> str:
        """The operations, without source and constants: what a split keeps together."""
        names = [filter_.name for filter_ in self.filters] + [map_.name for map_ in self.maps] + [self.finisher.name]
        return ">".join([*names, self.after.name] if self.after else names)

    @property
    def difficulty(self) -> int:
        """The number of steps; a source that is itself composed counts as one."""
        return len(self.filters) + len(self.maps) + 1 + (self.after is not None) + self.source.complex

    @property
    def prompt(self) -> str:
        maps = [f"{step.words} of the" for step in reversed(self.maps)]
        before = [step.before for step in self.filters if step.before]
        after = " and ".join(step.after for step in self.filters if step.after)
        elements = " ".join(filter(None, [*maps, *before, self.source.noun, after, self.source.place]))
        result = f"the {self.finisher.words} of the {elements}{self.finisher.suffix}"
        if self.after:
            comma = "," if self.finisher.suffix and self.after.suffix else ""
            result = f"{self.after.words} {result}{comma}{self.after.suffix}"
        return f"Write {self.signature} that returns {result}."

    @property
    def signature(self) -> str:
        return f"{ENTRY_POINT}({', '.join(self.source.parameters)})"

    def references(self) -> tuple[str, ...]:
        """Programs that solve it, in three styles: one expression, a loop, named steps."""
        return tuple(dict.fromkeys([self.as_expression(), self._as_loop(), self._as_steps()]))

    def as_expression(self) -> str:
        """The shortest program that solves it."""
        variable, condition, element = self.source.variable, self._condition(), self._element()
        if not condition and element == variable:
            elements = self.source.sequence
        else:
            elements = f"[{element} for {variable} in {self.source.iterable}{' if ' if condition else ''}{condition}]"
        if self.finisher.twice and not elements.isidentifier():
            return self._program(f"vs = {elements}", f"return {self._result('vs')}")
        return self._program(f"return {self._result(elements)}")

    def simpler(self) -> Iterator["Composition"]:
        """The same composition with one step left out, where what remains is one."""
        for index in range(len(self.filters)):
            yield replace(self, filters=self.filters[:index] + self.filters[index + 1 :])
        for index in range(len(self.maps)):
            rest = replace(self, maps=self.maps[:index] + self.maps[index + 1 :])
            if rest._is_typed():
                yield rest
        if self.after:
            yield replace(self, after=None)

    def _is_typed(self) -> bool:
        kind = self.source.kind
        for step in self.maps:
            if step.kind != kind:
                return False
            kind = step.to
        return self.finisher.kind in (None, kind)

    def _condition(self) -> str:
        return " and ".join(_fill(step.test, x=self.source.variable) for step in self.filters)

    def _element(self) -> str:
        element = self.source.variable
        for step in self.maps:
            element = _fill(step.expression, x=element)
        return element

    def _result(self, value: str) -> str:
        result = _fill(self.finisher.expression, v=value)
        return _fill(self.after.expression, v=result) if self.after else result

    def _as_loop(self) -> str:
        lines = ["vs = []", f"for {self.source.variable} in {self.source.iterable}:"]
        condition = self._condition()
        if condition:
            lines += [f"    if {condition}:"]
        lines += [f"{'    ' * (2 if condition else 1)}vs.append({self._element()})", f"return {self._result('vs')}"]
        return self._program(*lines)

    def _as_steps(self) -> str:
        variable, elements, lines = self.source.variable, self.source.iterable, []
        for part in self.filters:
            lines += [f"vs = [{variable} for {variable} in {elements} if {_fill(part.test, x=variable)}]"]
            elements = "vs"
        for step in self.maps:
            lines += [f"vs = [{_fill(step.expression, x=variable)} for {variable} in {elements}]"]
            elements = "vs"
        if not lines:
            lines = [f"vs = {self.source.sequence}"]
        return self._program(*lines, f"return {self._result('vs')}")

    def _program(self, *lines: str) -> str:
        return "\n".join([f"def {self.signature}:", *(f"    {line}" for line in lines)])


@lru_cache(maxsize=65536)
def _fill(template: str, *, x: str = "", v: str = "") -> str:
    """The template with its operand, in parentheses where Python's precedence needs them."""
    operand = x or v
    alone = template in ("{x}", "{v}") or template.startswith(("abs(", "str(", "len(", "sum(", "max(", "min(", "set("))
    needs = not alone and isinstance(syntax.parse_expression(operand).body, ast.BinOp | ast.UnaryOp | ast.IfExp)
    text = f"({operand})" if needs else operand
    return template.format(x=text, v=text)
