"""A first look at a program: which names are datasets, which are their elements, which functions a pipeline runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import libcst as cst
from libcst.metadata import QualifiedNameSource

from headrace.cli.porting.tables import DATASET_METHODS, PIPELINE_METHODS, verdict

FullNames = Mapping[cst.CSTNode, Any]
"""What libcst's QualifiedNameProvider found."""


class Scan(cst.CSTVisitor):
    """Collects names; run it until nothing new is found."""

    def __init__(self, qualified: FullNames) -> None:
        super().__init__()
        self._qualified = qualified
        self.datasets: set[str] = set()
        self.elements: set[str] = set()
        self.functions: set[str] = set()
        self._makers: set[str] = set()
        self._calls: dict[str, set[str]] = {}
        self._inside: list[str] = []

    @property
    def found(self) -> int:
        """How many names are known."""
        return sum(map(len, (self.datasets, self.elements, self.functions, self._makers)))

    def full_name(self, node: cst.CSTNode) -> str | None:
        """The full name of what an expression refers to, if it was imported."""
        if not _is_dotted(node):
            return None
        names = self._qualified.get(node) or ()
        if callable(names):  # libcst computes them when they are asked for
            names = names()
        return next((each.name for each in names if each.source is QualifiedNameSource.IMPORT), None)

    def is_dataset(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is, as far as can be seen, a dataset."""
        if isinstance(node, cst.Name):
            return node.value in self.datasets
        if isinstance(node, cst.Subscript):
            return self.is_dataset(node.value)
        if not isinstance(node, cst.Call):
            return False
        function = node.func
        if isinstance(function, cst.Name) and function.value in self._makers:
            return True
        full = self.full_name(function)
        if full is not None:
            found = verdict(full)
            last = full.rpartition(".")[2]
            return bool(found and found.code) and (last.endswith("Dataset") or last.startswith(("from_", "load")) or
                                                   "Dataset." in full or "_dataset" in last)  # fmt: skip
        return isinstance(function, cst.Attribute) and (
            function.attr.value in DATASET_METHODS and self.is_dataset(function.value)
        )

    def is_element(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is an element of a dataset, or a part of one."""
        while isinstance(node, cst.Attribute | cst.Subscript):
            node = node.value
        return isinstance(node, cst.Name) and node.value in self.elements

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        """Remember in which function what follows stands."""
        self._inside.append(node.name.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        """Functions that are called by functions of a pipeline belong to it, too."""
        self._inside.pop()
        name = original_node.name.value
        if name in self.functions:
            self.functions |= self._calls.get(name, set())

    def visit_Return(self, node: cst.Return) -> None:
        """A function that returns a dataset makes one."""
        if self._inside and node.value is not None and self.is_dataset(node.value):
            self._makers.add(self._inside[-1])

    def visit_Assign(self, node: cst.Assign) -> None:
        """A name for a dataset, or for an element of one."""
        names = {name for target in node.targets for name in _names(target.target)}
        if self.is_dataset(node.value):
            self.datasets |= names
        elif self._is_next(node.value):
            self.elements |= names

    def _is_next(self, node: cst.BaseExpression) -> bool:
        if not (isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.args):
            return False
        inner = node.args[0].value
        if node.func.value == "next" and isinstance(inner, cst.Call):
            return bool(inner.args) and self.is_dataset(inner.args[0].value)
        return False

    def visit_For(self, node: cst.For) -> None:
        """The variables of a loop over a dataset are elements."""
        self._loop(node.target, node.iter)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        """So are those of a comprehension."""
        self._loop(node.target, node.iter)

    def _loop(self, target: cst.BaseExpression, source: cst.BaseExpression) -> None:
        if isinstance(source, cst.Call) and _function_name(source.func) == "enumerate" and source.args:
            source = source.args[0].value
        if self.is_dataset(source):
            self.elements |= set(_names(target))

    def visit_Call(self, node: cst.Call) -> None:
        """Functions that are given to a method of a pipeline run there; calls are remembered by their function."""
        called = _function_name(node.func)
        if self._inside and called is not None:
            self._calls.setdefault(self._inside[-1], set()).add(called)
        runs = isinstance(node.func, cst.Attribute) and node.func.attr.value in PIPELINE_METHODS
        if runs or self.full_name(node.func) in ("tensorflow.py_function", "tensorflow.numpy_function"):
            for arg in node.args:
                name = _function_name(arg.value)
                self.functions |= {name} if name is not None else set()
                self.functions |= set(_called(arg.value)) if isinstance(arg.value, cst.Lambda) else set()


def _is_dotted(node: cst.CSTNode) -> bool:
    """Whether an expression is a name, or names with dots between."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _names(target: cst.BaseExpression) -> Iterator[str]:
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            yield from _names(element.value)


def _function_name(node: cst.BaseExpression) -> str | None:
    """The name of a function of this module, or of a method of the same object."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value in ("self", "cls"):
        return node.attr.value
    return None


def _called(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Call):
        name = _function_name(node.func)
        if name is not None:
            yield name
    for child in node.children:
        yield from _called(child)
