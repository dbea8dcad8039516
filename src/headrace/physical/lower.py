"""Lowering: from a logical plan to the plan that runs. Strategies are chosen here, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from headrace.execute.budget import cpus
from headrace.formats.shared.file_names import FileNames
from headrace.formats.shared.many_files import Files, FilesInTurn
from headrace.formats.shared.records import Records
from headrace.formats.tables.rows import TableRows
from headrace.indexed.numbered import Numbered
from headrace.ops.cache import Cache
from headrace.ops.filter import Filter
from headrace.ops.map import Map
from headrace.ops.random_map import RandomMap
from headrace.ops.shared.batching import Batching
from headrace.ops.shared.filter_first import FilterFirst
from headrace.ops.shared.gather import Gather, RowsByNumber
from headrace.ops.shared.map_chain import MapChain
from headrace.optimize.rules import Choice, apply_rules
from headrace.physical import file_cuts, row_cuts
from headrace.physical.cuts import cutter_of, fused, fuses
from headrace.physical.final_prefetch import REASON, with_final_prefetch
from headrace.physical.row_cuts import opens_anywhere
from headrace.physical.scan import ParallelScan, without_threads
from headrace.physical.strands import Strand
from headrace.plan.access import is_brief
from headrace.plan.capabilities import AcceptsDevice, device_of_rows, provides
from headrace.plan.node import Ahead, Node, rebuild, walk
from headrace.plan.prepared import Prepared
from headrace.sources.parts import Parts
from headrace.sources.sql.dense import DenseRows

__all__ = ["NestedPlans", "file_cuts", "lower", "lower_pass", "prepare_pass", "row_cuts"]


def prepare_pass(plan: Node, threads: int) -> Prepared:
    """Return the plan of one pass, ready to run on `threads` threads."""
    return Prepared.of(plan, lambda node: lower_pass(node, threads))


ON_REQUEST = "may have side effects, so an element is computed when it is requested"
MIN_NESTED_ROWS = 256
"""A dataset of fewer rows that is opened while another runs is read serially: there may be one for each row."""


@dataclass(frozen=True)
class NestedPlans:
    """Prepares plans of datasets that are opened while another runs, such as the children of an interleave.

    `threads` is None for as many as the process that runs them has CPUs, which may be on another machine.
    """

    threads: int | None = None

    def __call__(self, plan: Node) -> Prepared:
        """Return the plan ready to run."""
        few = plan.cardinality.known and plan.cardinality < MIN_NESTED_ROWS
        threads = 1 if few else self.threads or cpus()
        return Prepared.of(plan, lambda node: lower(apply_rules(node) if plan.inputs else node, threads))


def lower_pass(plan: Node, threads: int, choices: list[Choice] | None = None) -> Node:
    """Return the physical plan of one pass over a plan as written. `choices` gets each choice with its reason."""
    ruled = fed_ahead(from_device(apply_rules(plan, choices), choices), threads, choices)
    ahead = with_final_prefetch(ruled)
    if choices is not None:
        if ahead is not ruled:
            choices.append(Choice(ahead.operation, "the end", REASON))
        elif not pulls_blocks(ruled):
            first = next(node for node in walk(ruled) if not node.pure)
            choices.append(Choice("row by row", "the end", f"{first.operation} {ON_REQUEST}"))
    return lower(ahead, threads, choices)


def from_device(plan: Node, choices: list[Choice] | None) -> Node:
    """Return the plan with its rows copied back from a device, unless the consumer accepts them there."""
    if device_of_rows(plan) is None or provides(plan, AcceptsDevice):
        return plan
    if choices is not None:
        choices.append(Choice("from_device", "the end", "NumPy arrays are wanted"))
    from headrace.ops.device_map import FromDevice

    return FromDevice(plan)


def fed_ahead(plan: Node, threads: int, choices: list[Choice] | None) -> Node:
    """Return the plan with the rows of maps on a device made ahead of them, if that is unobservable."""

    def change(node: Node) -> Node:
        rows = node.inputs[0] if device_of_rows(node) is not None else None  # such nodes have one input
        if rows is None or device_of_rows(rows) is not None or not rows.pure or rows.ahead:
            return node
        if choices is not None:
            choices.append(Choice("host_part", node.operation, "the CPU does its part while the device works"))
        from headrace.ops.device_map import with_host_part

        return with_host_part(node)

    return plan if threads < 2 else rebuild(plan, change)


def pulls_blocks(plan: Node) -> bool:
    """Return whether the consumer may request many rows at a time; else it requests each one separately."""
    return plan.pure or plan.ahead is Ahead.READY


def lower(plan: Node, threads: int, choices: list[Choice] | None = None, batch_size: int = 0) -> Node:
    """Return the physical plan: what runs on up to `threads` threads. `choices` gets each choice with its reason.

    Its consumer combines every `batch_size` rows, if that is not 0.
    """
    if isinstance(plan, ParallelScan) or (threads < 2 and choices is None):  # on one thread nothing is chosen
        return plan
    operations, source = _pipeline(plan)
    serial = None if source is None else _reason_for_serial_scan(source, operations, threads)
    if source is not None and serial is None:
        return _scan(operations, source, ScanShape(threads, batch_size), choices)
    if choices is not None and not operations and serial:
        choices.append(Choice("serial scan", plan.operation, serial))
    inputs = plan.inputs
    fetched = _fetched_inputs(plan)
    rows = _batch_size(plan, batch_size)
    lowered = tuple(node if node in fetched else lower(node, threads, choices, rows) for node in inputs)
    return plan if all(a is b for a, b in zip(inputs, lowered, strict=True)) else plan.with_inputs(lowered)


def _batch_size(plan: Node, given: int) -> int:
    """Return how many rows of its input an operation, or the one after it, combines; 0 if that is not fixed."""
    if isinstance(plan, Batching):
        return plan.batch_size if plan.batch_size > 1 else 0
    return given if plan.transparent else 0


def _fetched_inputs(plan: Node) -> tuple[Node, ...]:
    """Return the inputs whose rows the operation fetches by number: it opens no stream of them."""
    if isinstance(plan, Gather):
        return (plan.rows,)
    return plan.inputs if isinstance(plan, RowsByNumber) and plan.addressable else ()


def _pipeline(plan: Node) -> tuple[list[Node], Node | None]:
    """Return the per-row operations that end in this node, last first, as they run in a cut, and their source.

    The source is None if one of the operations cannot run in a cut.
    """
    operations: list[Node] = []
    node = plan
    while node.inputs and cutter_of(node) is None and not _is_strand(node):
        alone = fused(node)
        if alone is None or len(node.inputs) != 1:
            return operations, None
        operations.append(alone)
        node = node.inputs[0]
    return operations, node


class ScanShape(NamedTuple):
    """On how many threads a scan runs at most, and how many rows its consumer combines; 0 if it does not."""

    threads: int
    batch_size: int


def _scan(operations: list[Node], source: Node, shape: ScanShape, choices: list[Choice] | None) -> ParallelScan:
    node, what = source, "reads cuts of the source and what follows it" if operations else "reads cuts of the source"
    if _is_strand(source):
        node, what = Strand(source), "works on rows of the source as they come"
    for operation in reversed(operations):
        node = operation.with_inputs((node,))
    batch_size = shape.batch_size if all(operation.one_to_one for operation in operations) else 0
    whole = f", in whole batches of {batch_size:,}" if batch_size else ""
    reason = f"{what} on up to {shape.threads} threads{whole}"
    scan = ParallelScan(node, threads=shape.threads, batch_size=batch_size, reason=reason)
    if choices is not None:
        choices.append(Choice(scan.operation, source.operation, scan.reason))
    return scan


def _is_strand(source: Node) -> bool:
    """Return whether the source reads ahead by itself, in order: a worker that pulls its rows rarely waits."""
    return source.pure and isinstance(source, Parts | DenseRows | Gather)


def _reason_for_serial_scan(source: Node, operations: list[Node], threads: int) -> str | None:
    """Return why a source is read in order; "" if that is obvious, None if it is worth reading in cuts."""
    if isinstance(source, Cache):  # once it is complete, the origin of its rows is unobservable
        return None if operations and threads > 1 else ""
    if not source.pure:
        return "reading it may have side effects"
    strand = _is_strand(source)
    if strand and not operations:
        return ""
    if cutter_of(source) is None and not strand:
        return "" if source.addressable else "it has no cuts"
    if threads < 2:
        return "one processor"
    if strand:
        return None
    if isinstance(source, Files):
        if source.files is None or not isinstance(source.input, FileNames):  # a split reads some of the names
            return "its files are known when their names are read"
        if isinstance(source, FilesInTurn):
            return "its files take turns, each with a scan of its own"
        return "a small file" if source.brief else None
    if isinstance(source, Records | TableRows):
        return _reason_for_serial_file(source)
    if not opens_anywhere(source):
        return "it cannot be opened at a row number"
    return None if operations or _reads_by_number(source) else "no operation works on its rows"


def _reason_for_serial_file(source: Records | TableRows) -> str | None:
    if not source.in_turn or source.piece is not None:
        return "a part of a scan"
    if source.in_store:
        return "files in stores that take turns are fetched in turn"
    return "a small file" if is_brief(source) else None if source.cuttable else "the file cannot be cut"


def _reads_by_number(source: Node) -> bool:
    """Return whether fetching a row costs more than copying it: it is read from a file, or made by a function."""
    return isinstance(source, RowsByNumber) and not isinstance(source.input, Numbered)


@fuses(Map)
def _fuse_map(node: Map) -> Node | None:
    return without_threads(node) if node.traced and node.mode != "process" else None


@fuses(RandomMap)
def _fuse_random_map(node: RandomMap) -> Node | None:
    return without_threads(node) if node.traced and node.mode != "process" else None


@fuses(Filter)
def _fuse_filter(node: Filter) -> Node | None:
    return without_threads(node) if node.traced and node.mode != "process" else None


@fuses(MapChain)
def _fuse_chain(node: MapChain) -> Node | None:
    return node if all(part.traced for part in node.combines) else None


@fuses(FilterFirst)
def _fuse_filtered(node: FilterFirst) -> Node | None:
    return node if all(part.traced for part in node.combines) else None


def scans(plan: Node) -> list[ParallelScan]:
    """Return the scans of a physical plan."""
    return [node for node in walk(plan) if isinstance(node, ParallelScan)]
