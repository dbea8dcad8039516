"""The project's own rules: public names, import direction, what importing costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import headrace as hr
from headrace.plan.node import Node

SOURCE = Path(hr.__file__).parent
LAYERS = [
    {"_native", "keys", "errors", "options", "names", "paths"},
    {"ragged", "random", "arrow_text"},
    {"plan"},
    {"identity"},
    {"columns"},
    {"block"},
    {"exact_values", "late_block"},
    {"trace"},
    {"execute"},
    {"storage"},
    {"records"},
    {"io"},
    {"feature_column", "image", "preprocessing", "text"},
    {"sources", "ops"},
    {"cluster"},
    {"optimise", "reference"},
    {"physical"},
    {"iterator"},
    {"sinks", "adapters"},
    {"dataset"},
    {"extend"},
    {"tfds"},
    {"catalogue"},
    {"datasets"},
    {"testing", "cli", "__init__"},
]
PLAN_NEEDS_NOTHING_OF_BLOCKS = "plan describes, block stores; only types cross, under TYPE_CHECKING"


def layer(module):
    part = module.split(".")[1] if "." in module else "__init__"
    return next(i for i, names in enumerate(LAYERS) if part in names)


def imported(path):
    """headrace modules imported at the top of a file, not only for type checkers."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("headrace"):
            if node.module == "headrace":
                yield from (f"headrace.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_data_flows_one_way():
    wrong = []
    for path in SOURCE.rglob("*.py"):
        module = ".".join(("headrace", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        wrong += [f"{module} imports {other}" for other in imported(path) if layer(other) > layer(module)]
    assert wrong == []


def test_the_table_of_traits_names_them_all():
    named = re.findall(r"- `(\w+)`:", Node.__doc__)
    table = (SOURCE.parents[1] / "docs/decisions/2026-11-15-contracts.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == sorted(named)
    assert all(hasattr(Node, name) for name in named)


MAX_TRAITS = 20
MAX_NODE_METHODS = 20


def test_nodes_have_few_traits_and_methods():
    assert len(re.findall(r"- `(\w+)`:", Node.__doc__)) <= MAX_TRAITS
    methods = [name for name, value in vars(Node).items() if _is_method(value) and not name.startswith("__")]
    assert len(methods) <= MAX_NODE_METHODS, methods


def _is_method(value):
    return callable(value) or hasattr(value, "__get__")


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
        "apply", "as_numpy_iterator", "batch", "bucket_by_sequence_length", "cache", "cardinality",
        "choose_from_datasets", "class_names", "concatenate", "count", "counter", "distribute", "distribute_over",
        "element_spec", "enumerate", "explain", "filter", "flat_map", "from_arrow", "from_batches", "from_csv",
        "from_dask", "from_generator", "from_huggingface", "from_image_folder", "from_pandas", "from_polars",
        "from_ray", "from_spark", "from_sql", "from_tensor_slices", "from_tensors", "from_text_folder", "from_tfrecord",
        "from_torch",
        "get_single_element", "group_by_window", "ignore_errors", "interleave", "iterator", "list_files",
        "load", "map", "map_batches", "options", "pack", "padded_batch", "prefetch", "progress", "ragged_batch",
        "random", "random_map", "range", "rebatch", "reduce", "rejection_resample", "repeat",
        "sample_from_datasets", "save", "scan", "shard", "shuffle", "skip", "snapshot", "statistics", "take",
        "take_while", "throttle", "to_dask", "to_jax", "to_keras", "to_ray", "to_torch", "unbatch", "unique", "window",
        "with_options",
        "write_parquet", "write_sql", "write_tfds", "write_tfrecord", "write_webdataset", "zip",
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
