"""The project's own rules: public names, import direction, what importing costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import headrace as hr
from headrace.plan.node import Node

SOURCE = Path(hr.__file__).parent
DIRECTION = (
    "errors", "core", "options", "names", "plan", "identity", "columns", "trace", "device", "execute", "storage",
    "remote", "indexed", "ops", "distribute", "formats", "io", "feature_column", "preprocessing", "text", "image",
    "sources", "optimize", "physical", "observe", "iterator", "cluster", "reference", "sinks", "adapters", "checkpoint",
    "extend", "tfds", "dataset", "catalogue", "datasets", "testing", "headrace", "selftest", "cli", "__main__",
)  # fmt: skip
"""Packages, lowest first. Each imports only those before it, in functions too; types may come from anywhere."""

FORMATS = {
    "shared": (), "fixed": ("shared",), "tables": ("shared",), "text": ("shared",), "tfrecord": ("shared",),
    "csv": ("shared", "text"), "jsonl": ("shared", "tables", "text"), "webdataset": ("shared", "text"),
}  # fmt: skip
"""The packages of file formats, and which of each other they import."""


def part_of(module):
    """The package, or module at the top, that a dotted name belongs to; "headrace" is the package's own `__init__`."""
    part = module.split(".")[1] if "." in module else module
    return part if (SOURCE / part).exists() or (SOURCE / f"{part}.py").exists() else "headrace"


def imports_of(tree):
    """The imports of a module that run, wherever they stand; not those under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "headrace":
            yield from (f"headrace.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("headrace."):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] == "headrace")
        yield from imports_of(node)


def test_packages_import_in_one_direction():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        module = ".".join(("headrace", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        others = [] if module == "headrace" else imports_of(ast.parse(path.read_text()))
        wrong += [
            f"{module} imports {other}"
            for other in others
            if other != "headrace._native" and DIRECTION.index(part_of(other)) > DIRECTION.index(part_of(module))
        ]
    assert wrong == []


def test_formats_import_in_one_direction():
    formats = sorted(path.parent.name for path in (SOURCE / "formats").glob("*/__init__.py"))
    assert sorted(FORMATS) == formats
    wrong = [
        f"formats/{name}/{path.name} imports {other}"
        for name in formats
        for path in (SOURCE / "formats" / name).rglob("*.py")
        for other in imports_of(ast.parse(path.read_text()))
        if other.startswith("headrace.formats.") and (used := other.split(".")[2]) != name and used not in FORMATS[name]
    ]
    assert wrong == []


def test_every_package_says_what_it_holds_and_what_it_may_know():
    documented = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in SOURCE.rglob("__init__.py")}
    assert [
        str(path) for path, text in documented.items() if path.parent != SOURCE and len(text.splitlines()) < 3
    ] == []
    assert documented[SOURCE / "__init__.py"]


def test_the_table_of_traits_names_them_all():
    named = re.findall(r"- `(\w+)`:", Node.__doc__)
    table = (SOURCE.parents[1] / "docs/decisions/2026-11-15-contracts.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(named)
    assert all(hasattr(Node, name) for name in named)


MAX_ANY = 800
"""How often the sources may say `Any`: `headrace.core.types` names what a value may be."""


def test_annotations_say_what_values_are():
    count = sum(len(re.findall(r"\bAny\b", path.read_text())) for path in SOURCE.rglob("*.py"))
    assert count <= MAX_ANY, "name the type, or take one of headrace.core.types"


MAX_TRAITS = 20
MAX_NODE_METHODS = 20


def test_nodes_have_few_traits_and_methods():
    assert len(re.findall(r"- `(\w+)`:", Node.__doc__)) <= MAX_TRAITS
    methods = [name for name, value in vars(Node).items() if _is_method(value) and not name.startswith("__")]
    assert len(methods) <= MAX_NODE_METHODS, methods


def _is_method(value):
    return callable(value) or hasattr(value, "__get__")


REPLACED = {
    "Frames", "LateBlock", "LateRecords", "PickedRecords", "Places", "PointedRows", "PointedText", "UnmergedBlock",
}  # fmt: skip
"""Kinds of rows by reference that `RecordRefs` (in files) and `Selection` (of blocks in memory) stand for."""


def test_rows_by_reference_are_one_concept():
    classes = {
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    assert not REPLACED & classes
    assert {"RecordRefs", "Selection"} <= classes


MAX_PARAMETERS = 6


def test_functions_that_plan_and_run_have_few_parameters():
    """More belong into a small frozen value with named fields, which may have as many as it needs."""
    many = {}
    for path in (*(SOURCE / "physical").rglob("*.py"), *(SOURCE / "execute").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                count = len([each for each in arguments if each.arg not in ("self", "cls")])
                if count > MAX_PARAMETERS:
                    many[f"{path.relative_to(SOURCE)}: {node.name}"] = count
    assert many == {}


def test_the_public_names():
    assert sorted(hr.__all__) == [
        "AUTOTUNE",
        "ArrowDataset",
        "BatchSource",
        "BigQueryDataset",
        "ChangeWarning",
        "CsvDataset",
        "Dataset",
        "DatasetSpec",
        "Discretizer",
        "ElementError",
        "FixedLengthRecordDataset",
        "HeadraceError",
        "INFINITE_CARDINALITY",
        "Iterator",
        "JsonLinesDataset",
        "Normalizer",
        "NotIndexableError",
        "Options",
        "ParquetDataset",
        "ParseError",
        "PipelineWarning",
        "Quarantine",
        "QuarantineError",
        "Ragged",
        "SpecError",
        "SqlDataset",
        "StateError",
        "StorageError",
        "TFRecordDataset",
        "TensorSpec",
        "TextLineDataset",
        "TransportError",
        "UNKNOWN_CARDINALITY",
        "WebDataset",
        "WorkerError",
        "catalogue",
        "checkpoint",
        "cluster",
        "dataset",
        "feature_column",
        "image",
        "image_dataset_from_directory",
        "io",
        "load",
        "make_csv_dataset",
        "merge_states",
        "mix",
        "most_frequent",
        "observe",
        "preprocessing",
        "quantiles",
        "set_random_seed",
        "text",
        "text_dataset_from_directory",
        "tfds",
        "timeseries_dataset_from_array",
    ]
    public = [name for name in vars(hr.Dataset) if not name.startswith("_")]
    assert sorted(public) == [
        "apply", "as_numpy_iterator", "batch", "batch_by_tokens", "bucket_by_sequence_length", "cache", "cardinality",
        "choose_from_datasets", "chunk", "class_names", "concatenate", "count", "counter", "debug", "distribute",
        "distribute_over", "element_spec", "enumerate", "explain", "file_paths", "filter", "flat_map", "from_arrow",
        "from_batches", "from_csv", "from_dask", "from_generator", "from_huggingface", "from_image_folder",
        "from_pandas", "from_polars", "from_ray", "from_spark", "from_sql", "from_tensor_slices", "from_tensors",
        "from_text_folder", "from_tfrecord", "from_torch", "get_single_element", "group_by_window", "headroom",
        "ignore_errors", "interleave", "iterator", "list_files", "load", "map", "map_batches", "options", "pack",
        "padded_batch", "prefetch", "progress", "ragged_batch", "random", "random_map", "range", "rebatch", "reduce",
        "rejection_resample", "repeat", "rows_of", "sample_from_datasets", "save", "scan", "shard", "shuffle", "skip",
        "skip_steps", "snapshot", "split", "statistics", "take", "take_while", "throttle", "to_arrow", "to_dask",
        "to_jax", "to_keras", "to_pandas", "to_polars", "to_ray", "to_torch", "unbatch", "unique", "weighted_sample",
        "why_slow", "window", "with_options", "write_parquet", "write_sql", "write_tfds", "write_tfrecord",
        "write_webdataset", "zip",
    ]  # fmt: skip


def test_every_public_name_has_a_docstring_with_an_example():
    for name in vars(hr.Dataset):
        if not name.startswith("_"):
            assert ">>>" in (getattr(hr.Dataset, name).__doc__ or ""), name


def test_importing_headrace_imports_no_framework():
    code = "import sys, headrace; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {
        "torch",
        "tensorflow",
        "jax",
        "keras",
        "pandas",
        "polars",
        "datasets",
        "pyarrow",
        "headrace.datasets",
    } & set(loaded)


def test_importing_headrace_needs_no_fcntl(tmp_path):
    code = "import sys; sys.modules['fcntl'] = None; import headrace as hr; print(list(hr.Dataset.range(3).batch(3)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[array([0, 1, 2])]\n"
    code += "; hr.Dataset.range(3).save(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "saved")], capture_output=True, text=True, check=False
    )
    assert "StorageError: files of rows are written and waited for on Linux and macOS only" in done.stderr


def test_a_missing_compiler_is_explained():
    done = subprocess.run(
        ["make", "-s", "-C", str(SOURCE.parents[1]), "compiler", "CXX=no-such-compiler"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "no compiler named no-such-compiler" in done.stdout
    assert "apt install g++" in done.stdout
