"""Rewrite a program for tf.data so that it uses headrace, as far as that is safe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedNameProvider

from headrace.cli.porting.scan import Scan
from headrace.cli.porting.tables import (
    DATASET_METHODS,
    DTYPES,
    FUNCTIONS,
    GUIDE,
    PIPELINE_METHODS,
    RENAMED_KEYWORDS,
    Verdict,
    verdict,
)

Statement = TypeVar("Statement", cst.SimpleStatementLine, cst.For, cst.With, cst.If)

MARK = "# headrace port:"
MAX_SCANS = 10
KERAS_CALLS = ("fit", "evaluate", "predict")


@dataclass(frozen=True)
class Ported:
    """A rewritten program, and what was left to do by hand."""

    code: str
    changed: bool
    marks: list[str] = field(default_factory=list)


def port_source(source: str) -> Ported:
    """Rewrite a program.

    Args:
        source: Text of a Python module.

    Returns:
        The new text, whether it differs, and the reasons of the comments that were added.

    Raises:
        libcst.ParserSyntaxError: If the text is no Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    scan = Scan(wrapper.resolve(QualifiedNameProvider))
    for _ in range(MAX_SCANS):
        before = scan.found
        wrapper.module.visit(scan)
        if scan.found == before:
            break
    rewriter = _Rewriter(scan)
    module = wrapper.module.visit(rewriter)
    if not rewriter.used and not rewriter.marks:
        return Ported(source, changed=False)
    module = _with_imports(module, rewriter.used)
    return Ported(module.code, module.code != source, rewriter.marks)


class _Rewriter(cst.CSTTransformer):
    def __init__(self, scan: Scan) -> None:
        super().__init__()
        self.used: set[str] = set()
        self.marks: list[str] = []
        self._scan = scan
        self._pipeline = 0
        self._notes: list[list[str]] = []

    # Where we are

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self._pipeline += node.name.value in self._scan.functions

    def visit_Call(self, node: cst.Call) -> None:
        self._pipeline += self._is_pipeline_call(node)

    def _is_pipeline_call(self, node: cst.Call) -> bool:
        full = self._full_name(node.func)
        if full is not None:
            found = verdict(full)
            return bool(found and found.code)
        return isinstance(node.func, cst.Attribute) and (
            node.func.attr.value in PIPELINE_METHODS
            or (node.func.attr.value in DATASET_METHODS and self._scan.is_dataset(node.func.value))
        )

    def _full_name(self, node: cst.CSTNode) -> str | None:
        return self._scan.full_name(node)

    # Names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._renamed(original_node) or updated_node

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._renamed(original_node) or updated_node

    def _renamed(self, node: cst.Attribute | cst.Name) -> cst.BaseExpression | None:
        full = self._full_name(node)
        if full is None or not full.startswith(("tensorflow.", "tensorflow_datasets.")):
            return None
        if self._pipeline and full in DTYPES:
            return self._code(DTYPES[full])
        if self._pipeline and full in FUNCTIONS:
            return self._code(FUNCTIONS[full])
        if full in _MODULES:
            return None  # `tf.data` alone: what stands behind it decides
        found = verdict(full)
        if found is None:
            if self._pipeline and full.startswith("tensorflow.random."):
                self._note("random numbers: use ds.random_map, whose function gets an rng")
            return None
        if found.code is None:
            self._leave(found, full)
            return None
        return self._code(found.code)

    def _code(self, text: str) -> cst.BaseExpression:
        self.used.add(text.partition(".")[0])
        return cst.parse_expression(text)

    # Calls

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        self._pipeline -= self._is_pipeline_call(original_node)
        full = self._full_name(original_node.func)
        if full in ("tensorflow.py_function", "tensorflow.numpy_function"):
            return _direct_call(updated_node) or updated_node
        if self._pipeline and full is not None:
            rewritten = self._tensorflow_call(full, updated_node)
            if rewritten is not None:
                return rewritten
        return self._method_call(original_node, updated_node)

    def _tensorflow_call(self, full: str, node: cst.Call) -> cst.BaseExpression | None:
        values = [arg.value for arg in node.args if arg.keyword is None]
        if full == "tensorflow.cast" and len(node.args) == 2:
            value, dtype = (arg.value for arg in node.args)
            return cst.Call(cst.Attribute(_in_parentheses(value), cst.Name("astype")), [cst.Arg(dtype)])
        if full in ("tensorflow.ensure_shape", "tensorflow.identity") and values:
            return values[0]
        if full == "tensorflow.one_hot" and len(values) == 2:
            self.used.add("np")
            table = cst.parse_expression("np.eye(depth, dtype=np.float32)")
            table = table.deep_replace(table.args[0].value, values[1])  # type: ignore[attr-defined]
            return cst.Subscript(table, [cst.SubscriptElement(cst.Index(values[0]))])
        renamed = RENAMED_KEYWORDS.get(full, {})
        if renamed or full in FUNCTIONS:
            kept = [arg for arg in node.args if arg.keyword is None or arg.keyword.value != "name"]
            args = [_with_keyword(arg, renamed) for arg in kept]
            return node.with_changes(args=_without_last_comma(args))
        return None

    def _method_call(self, original: cst.Call, node: cst.Call) -> cst.BaseExpression:
        if not (isinstance(original.func, cst.Attribute) and isinstance(node.func, cst.Attribute)):
            return node
        method, receiver = original.func.attr.value, original.func.value
        if method == "numpy" and not node.args and (self._pipeline or self._scan.is_element(receiver)):
            self.used.add("hr")
            return node.func.value
        if method in KERAS_CALLS and not self._scan.is_dataset(receiver):
            pairs = zip(original.args, node.args, strict=True)
            return node.with_changes(args=[self._for_keras(before, after) for before, after in pairs])
        return node

    def _for_keras(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        if not self._scan.is_dataset(original.value):
            return updated
        self.used.add("hr")
        return updated.with_changes(value=cst.Call(cst.Attribute(updated.value, cst.Name("to_keras"))))

    # Statements

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.BaseStatement:
        in_pipeline = original_node.name.value in self._scan.functions
        self._pipeline -= in_pipeline
        if not in_pipeline:
            return updated_node
        pairs = zip(original_node.decorators, updated_node.decorators, strict=True)
        kept = [new for old, new in pairs if not self._is_tf_function(old.decorator)]
        return updated_node.with_changes(decorators=kept)

    def _is_tf_function(self, node: cst.BaseExpression) -> bool:
        return self._full_name(node.func if isinstance(node, cst.Call) else node) == "tensorflow.function"

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._notes.append([])

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.BaseStatement | cst.RemovalSentinel:
        if self._pipeline and _is_set_shape(updated_node):
            self._notes.pop()
            return cst.RemoveFromParent()
        return self._with_comments(updated_node)

    def visit_For(self, node: cst.For) -> None:
        self._notes.append([])

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.BaseStatement:
        return self._with_comments(updated_node)

    def visit_With(self, node: cst.With) -> None:
        self._notes.append([])

    def leave_With(self, original_node: cst.With, updated_node: cst.With) -> cst.BaseStatement:
        return self._with_comments(updated_node)

    def visit_If(self, node: cst.If) -> None:
        self._notes.append([])

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        return self._with_comments(updated_node)

    def _with_comments(self, node: Statement) -> Statement:
        """Add the notes of a statement as comments, those that are not there yet."""
        notes = dict.fromkeys(self._notes.pop())
        present = {line.comment.value for line in node.leading_lines if line.comment is not None}
        added: list[cst.EmptyLine] = [cst.EmptyLine(comment=cst.Comment(note)) for note in notes if note not in present]
        return node.with_changes(leading_lines=[*node.leading_lines, *added])

    def _leave(self, found: Verdict, full: str) -> None:
        self._note(f"{found.reason} ({GUIDE})" if found.reason else f"{full} has no equivalent ({GUIDE})")

    def _note(self, reason: str) -> None:
        if reason not in self.marks:
            self.marks.append(reason)
        if self._notes:
            self._notes[-1].append(f"{MARK} {' '.join(reason.split())}")


_MODULES = frozenset(
    [
        "tensorflow.data",
        "tensorflow.data.experimental",
        "tensorflow.io",
        "tensorflow.io.gfile",
        "tensorflow.image",
        "tensorflow.strings",
        "tensorflow.feature_column",
    ]
)


def _in_parentheses(value: cst.BaseExpression) -> cst.BaseExpression:
    simple = isinstance(value, cst.Name | cst.Attribute | cst.Call | cst.Subscript) or bool(value.lpar)
    return value if simple else value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _with_keyword(arg: cst.Arg, renamed: dict[str, str]) -> cst.Arg:
    if arg.keyword is None or arg.keyword.value not in renamed:
        return arg
    return arg.with_changes(keyword=cst.Name(renamed[arg.keyword.value]))


def _without_last_comma(args: list[cst.Arg]) -> list[cst.Arg]:
    if args and isinstance(args[-1].comma, cst.Comma):
        args[-1] = args[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return args


def _direct_call(node: cst.Call) -> cst.Call | None:
    """`tf.py_function(fn, [a, b], Tout)` as `fn(a, b)`."""
    given = {arg.keyword.value if arg.keyword else i: arg.value for i, arg in enumerate(node.args)}
    function, inputs = given.get(0, given.get("func")), given.get(1, given.get("inp"))
    if function is None or inputs is None:
        return None
    if isinstance(inputs, cst.List | cst.Tuple):
        return cst.Call(function, [cst.Arg(element.value) for element in inputs.elements])
    return cst.Call(function, [cst.Arg(inputs, star="*")])


def _is_set_shape(node: cst.SimpleStatementLine) -> bool:
    if len(node.body) != 1 or not isinstance(node.body[0], cst.Expr):
        return False
    call = node.body[0].value
    return isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) and call.func.attr.value == "set_shape"


def _with_imports(module: cst.Module, used: set[str]) -> cst.Module:
    """Add the imports that are needed, and remove those of TensorFlow that nothing refers to any more."""
    code = module.code
    for name, line in (("np", "import numpy as np"), ("hr", "import headrace as hr")):
        if name in used and line not in code:
            position = _after_docstring(module)
            statement = cst.parse_statement(line)
            body = [*module.body[:position], statement, *module.body[position:]]
            module = module.with_changes(body=body)
            code = module.code
    return module.visit(_UnusedImports(_names_in(module)))


def _after_docstring(module: cst.Module) -> int:
    position = 0
    for i, statement in enumerate(module.body):
        if not isinstance(statement, cst.SimpleStatementLine):
            break
        first = statement.body[0]
        future = isinstance(first, cst.ImportFrom) and getattr(first.module, "value", "") == "__future__"
        docstring = i == 0 and isinstance(first, cst.Expr) and isinstance(first.value, cst.SimpleString)
        if not (future or docstring):
            break
        position = i + 1
    return position


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._in_attr = 0

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def visit_Attribute_attr(self, node: cst.Attribute) -> None:
        self._in_attr += 1

    def leave_Attribute_attr(self, node: cst.Attribute) -> None:
        self._in_attr -= 1

    def visit_Name(self, node: cst.Name) -> None:
        if not self._in_attr:
            self.names.add(node.value)


def _names_in(module: cst.Module) -> set[str]:
    visitor = _Names()
    module.visit(visitor)
    return visitor.names


class _UnusedImports(cst.CSTTransformer):
    """Removes imports of TensorFlow whose name does not occur."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self._names = names

    def leave_Import(
        self, original_node: cst.Import, updated_node: cst.Import
    ) -> cst.BaseSmallStatement | cst.RemovalSentinel:
        kept = [alias for alias in updated_node.names if not self._unused(alias)]
        if not kept:
            return cst.RemoveFromParent()
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=[*kept[:-1], last])

    def leave_ImportFrom(
        self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom
    ) -> cst.BaseSmallStatement | cst.RemovalSentinel:
        module = cst.Module([]).code_for_node(updated_node.module) if updated_node.module else ""
        if not module.startswith("tensorflow") or isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        kept = [alias for alias in updated_node.names if _bound(alias) in self._names]
        if not kept:
            return cst.RemoveFromParent()
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return updated_node.with_changes(names=[*kept[:-1], last])

    def _unused(self, alias: cst.ImportAlias) -> bool:
        module = cst.Module([]).code_for_node(alias.name)
        return module.startswith("tensorflow") and _bound(alias) not in self._names


def _bound(alias: cst.ImportAlias) -> str:
    if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
        return alias.asname.name.value
    return cst.Module([]).code_for_node(alias.name).partition(".")[0]
