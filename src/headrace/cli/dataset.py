"""Make, check, list and share datasets that have names and versions."""

from __future__ import annotations

import sys
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.output import Json, bytes_text, say, short, show_json
from headrace.core.paths import local_only
from headrace.core.types import Attribute, Component, JsonObject
from headrace.tfds.builder import ReadOnlyBuilder

if TYPE_CHECKING:
    from headrace.tfds.info import DatasetInfo

dataset = typer.Typer(
    help="Datasets by name and version, in TFDS's layout: make, check, list and share them.", no_args_is_help=True
)
Name = Annotated[str, typer.Argument(help="A name, such as digits or mnist:3.*.*, or a directory.", show_default=False)]
DataDir = Annotated[str | None, typer.Option("--data-dir", help="Folder of datasets. Default: that of TFDS.")]


def find(name: str, data_dir: str | None) -> Any:
    """Return what reads a dataset: by its directory, or by its name."""
    from headrace.catalogue.load import find_builder
    from headrace.tfds.builder import builder_from_directory

    if Path(name).is_dir() or "://" in name:
        return builder_from_directory(name)
    return find_builder(name, data_dir=data_dir, locked=False)


@dataset.command()
def new(name: Annotated[str, typer.Argument(help="Name of the new dataset.", show_default=False)]) -> None:
    """Write a file NAME.py to start from, with everything in it that a dataset needs."""
    from headrace.catalogue.template import TEMPLATE
    from headrace.tfds.versions import snake_case

    plain = snake_case(name)
    if not plain.isidentifier():
        raise ValueError(f"{name!r} is no name for a dataset: letters, digits and underscores")
    with Path(f"{plain}.py").open("x") as file:
        file.write(TEMPLATE.format(name=plain))
    say(f"{plain}.py: fill it in, then run `headrace dataset build {plain}.py`")


@dataset.command()
def build(
    file: Annotated[
        str, typer.Argument(help="A public dataset, or the Python file that defines datasets.", show_default=False)
    ],
    data_dir: DataDir = None,
    name: Annotated[str | None, typer.Option("--name", help="Which dataset, if the file defines several.")] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", help="Number of parts to build in parallel.", min=1)
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", help="Build only this many rows of each part, as a trial.", min=1)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Build it again if it exists.")] = False,
) -> None:
    """Build a public dataset, or the datasets of a Python file; an interrupted build continues.

    Of a dataset of a hub (hf:owner/name, openml:40945) the files are downloaded, and read as they are.

    Examples:

      headrace dataset build fashion_mnist

      headrace dataset build reviews.py --processes 4
    """
    from headrace.catalogue.load import is_of_a_hub

    if is_of_a_hub(file):
        if limit or overwrite:
            raise ValueError(f"{file} is not built but downloaded: leave out --limit and --overwrite")
        _say_info(_fetched(file, data_dir).info)
        return
    if not file.endswith(".py"):
        from headrace.catalogue.prepare import prepare

        built = prepare(public(file), data_dir, processes=processes, overwrite=overwrite, limit=limit)
        _say_info(built.info)
        return
    for each in builders_in(local_only(file, "FILE")):
        if name in (None, each.name):
            built = each.build(data_dir, processes=processes, overwrite=overwrite, limit=limit)
            _say_info(built.info)


def public(name: str) -> Attribute:
    """Return the public dataset of a name."""
    from headrace.catalogue.prepare import find_public, public_names
    from headrace.errors import what_there_is
    from headrace.tfds.versions import parse_name

    found = find_public(parse_name(name))
    if found is None:
        raise ValueError(f"there is no public dataset {name!r}: {what_there_is(name, public_names())}")
    return found


@dataset.command()
def download(name: Name, data_dir: DataDir = None) -> None:
    """Download the files of a public dataset, or of one of a hub, and verify them, without building it."""
    from headrace.catalogue.load import hub_downloads, is_of_a_hub
    from headrace.tfds.builder import data_directory

    if is_of_a_hub(name):
        info = _fetched(name, data_dir).info
        folder = hub_downloads(name, local_only(data_directory(data_dir).path, "--data-dir"))
        say(f"{info.full_name}: {info.splits.total_num_examples:,} rows in {folder}")
        return
    found = public(name)
    say(f"{found.info.full_name}: {bytes_text(found.download_bytes)}")
    for path in found.download(data_dir).values():
        say(f"  {path}")


def _fetched(name: str, data_dir: str | None) -> Any:
    """Return what reads a dataset of a hub, once its files are here."""
    from headrace.catalogue.load import find_builder

    return find_builder(name, data_dir=data_dir, locked=False, download=True)


@dataset.command("rm")
def remove_dataset(
    name: Name,
    data_dir: DataDir = None,
    downloads: Annotated[bool, typer.Option("--downloads", help="Remove only the downloaded files.")] = False,
) -> None:
    """Remove one version of a dataset from this machine, and its downloads."""
    from headrace.catalogue.load import hub_downloads, is_of_a_hub
    from headrace.catalogue.prepare import find_public
    from headrace.catalogue.sources import remove_sources
    from headrace.catalogue.usage import remove_folder, remove_version
    from headrace.tfds.builder import data_directory
    from headrace.tfds.versions import parse_name

    folder = local_only(data_directory(data_dir).path, "--data-dir")
    if is_of_a_hub(name):
        say(f"{bytes_text(remove_folder(hub_downloads(name, folder)))} removed")
        return
    known = find_public(parse_name(name))
    freed = remove_sources(list(known.source_files().values()), known.source_folder(folder)) if known else 0
    if not downloads:
        freed += remove_version(folder, parse_name(name))
    say(f"{bytes_text(freed)} removed")


@dataset.command("du")
def disk_usage(data_dir: DataDir = None, as_json: Json = False) -> None:
    """Show how much space the datasets of a folder and their downloads take."""
    from headrace.catalogue.usage import disk_usage_of
    from headrace.tfds.builder import data_directory

    found = disk_usage_of(local_only(data_directory(data_dir).path, "--data-dir"))
    if as_json:
        show_json(found)
        return
    for name, size in found.items():
        say(f"{bytes_text(size):>10}  {name}")
    say(f"{bytes_text(sum(found.values())):>10}  in all")


def builders_in(path: Path) -> list[Component]:
    """Return the datasets that a Python file defines."""
    from headrace.catalogue.builder import DatasetBuilder

    spec = util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileNotFoundError(f"there is no Python file {path}")
    module = util.module_from_spec(spec)
    sys.modules[path.stem] = module  # so that processes find what it defines
    spec.loader.exec_module(module)
    found = [value for value in vars(module).values() if isinstance(value, DatasetBuilder)]
    kinds = [v for v in vars(module).values() if isinstance(v, type) and issubclass(v, DatasetBuilder)]
    found += [kind() for kind in kinds if kind.__module__ == path.stem and not kind.__abstractmethods__]
    if not found:
        raise ValueError(f"{path} defines no dataset: decorate a generator with @hr.dataset(…)")
    return found


@dataset.command()
def info(name: Name, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Describe a dataset: features, splits, sizes, versions. A public dataset need not be downloaded for this."""
    from headrace.catalogue.load import is_of_a_hub

    try:
        found = find(name, data_dir).info
    except FileNotFoundError:
        if is_of_a_hub(name):
            raise
        found = public(name).info
    if as_json:
        show_json(info_for_scripts(found))
    else:
        _say_info(found)


def info_for_scripts(found: DatasetInfo) -> JsonObject:
    """Return information about a dataset for scripts."""
    from headrace.tfds.feature_json import write_feature

    splits = {n: {"rows": s.num_examples, "files": s.num_shards, "bytes": s.num_bytes} for n, s in found.splits.items()}
    return {
        "name": found.name, "config": found.config_name, "version": str(found.version),
        "description": found.description,
        "splits": splits, "features": write_feature(found.features), "supervised_keys": found.supervised_keys,
        "file_format": found.file_format, "release_notes": dict(found.release_notes), "directory": found.data_dir,
    }  # fmt: skip


def _say_info(found: DatasetInfo) -> None:
    say(f"{found.full_name}  {found.data_dir}")
    if not found.data_dir and found.download_size:
        say(f"  not here yet: {_sizes(found)}, `headrace dataset build {found.full_name.rsplit('/', 1)[0]}`")
    for what, text in (("homepage", found.homepage), ("licence", found.license)):
        if text:
            say(f"  {what}: {text}")
    if found.description:
        say(f"  {short(found.description.splitlines()[0])}")
    for name, split in found.splits.items():
        size = f", {bytes_text(split.num_bytes)}" if split.num_bytes else ""
        files = f" in {split.num_shards} files{size}" if found.data_dir else ""
        say(f"  {name}: {split.num_examples:,} rows{files}")
    for name, feature in sorted(found.features.children().items()):
        say(f"  {name}: {feature!r}")
    for version, note in sorted(found.release_notes.items()):
        say(f"  {version}: {short(note)}")


def _sizes(found: DatasetInfo) -> str:
    from headrace.catalogue.prepare import find_public, sizes_text
    from headrace.tfds.versions import DatasetName

    known = find_public(DatasetName(found.name, found.config_name, str(found.version)))
    return bytes_text(found.download_size) if known is None else sizes_text(known)


@dataset.command("list")
def list_all(
    data_dir: DataDir = None,
    as_json: Json = False,
    words: Annotated[str, typer.Option("--search", help="Words to look for in names and descriptions.")] = "",
) -> None:
    """List the datasets that can be loaded by name, with their versions, public ones with their size."""
    from headrace.catalogue.load import list_datasets, search
    from headrace.catalogue.prepare import full_name, public_datasets

    wanted = set(search(words, data_dir=data_dir))
    found = {name: versions for name, versions in list_datasets(data_dir=data_dir).items() if name in wanted}
    if as_json:
        show_json(found)
        return
    sizes = {full_name(each): bytes_text(each.download_bytes) for each in public_datasets()}
    for name, versions in found.items():
        download_size = f"  (public, {sizes[name]} to download)" if name in sizes else ""
        say(f"{name}  {', '.join(versions)}{download_size}")


@dataset.command("verify")
def verify_dataset(
    name: Name,
    data_dir: DataDir = None,
    against: Annotated[str | None, typer.Option("--against", help="An earlier version to compare with.")] = None,
) -> None:
    """Read all rows and check lengths, checksums and the lock file; exits with 1 if anything is wrong."""
    from headrace.catalogue.lock import check_locked, read_lock
    from headrace.catalogue.verify import problems_in
    from headrace.ops.progress import progress_bar
    from headrace.plan.cardinality import Cardinality

    found = find(name, data_dir)
    with progress_bar("verifying", Cardinality(found.info.splits.total_num_examples), None) as advance:
        problems = list(problems_in(found, advance))
    entry = read_lock().get("/".join(filter(None, (found.info.name, found.info.config_name))))
    if entry is not None and entry["version"] == str(found.info.version):
        check_locked(found, entry, all_bytes=True)
    for problem in problems:
        say(problem)
    bad = bool(problems)
    if against is not None:
        bad |= _say_changes(found, against)
    if not problems:
        say(f"{found.info.full_name}: {found.info.splits.total_num_examples:,} rows, fine")
    if bad:
        raise typer.Exit(1)


def _say_changes(found: ReadOnlyBuilder, against: str) -> bool:
    """Return whether the version number says less than what has changed since another version."""
    from headrace.catalogue.evolution import changes_between, demanded_kind, next_version, row_changes
    from headrace.tfds.builder import builder_from_directory

    before = builder_from_directory(str(Path(found.info.data_dir).parent / against))
    changes = changes_between(
        before.info.features, found.info.features, list(before.info.splits), list(found.info.splits)
    )
    changes += row_changes(before, found)
    for change in changes:
        say(str(change))
    kind = demanded_kind(changes)
    wanted = next_version(before.info.version, kind)
    short_of = bool(changes) and found.info.version < wanted
    verdict = f"but the version is {found.info.version}" if short_of else f"as {found.info.version} says"
    demand = f"a {kind} change, which demands {wanted} or higher, {verdict}" if changes else "nothing has changed"
    say(f"since {against}: {demand}")
    return short_of


@dataset.command("lock")
def pin_version(name: Name, data_dir: DataDir = None) -> None:
    """Pin the version of a dataset and the checksums of its files in headrace.lock."""
    from headrace.catalogue.load import lock_dataset
    from headrace.catalogue.lock import lock_path

    say(f"{lock_dataset(name, data_dir=data_dir)} is locked in {lock_path()}")


@dataset.command("index")
def index_folder(folder: Annotated[str, typer.Argument(help="A folder of datasets.", show_default=False)]) -> None:
    """Write the index of a folder of datasets, so that a copy of the folder in a store can be used as a catalogue."""
    from headrace.catalogue.folders import write_index

    say(write_index(folder))


@dataset.command()
def card(
    name: Name,
    data_dir: DataDir = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="File to write. Default: NAME.html.")] = None,
) -> None:
    """Write a page of HTML that shows a dataset: rows, pictures, numbers, splits and features."""
    from headrace.catalogue.card import card_page
    from headrace.storage.files import whole_file

    found = find(name, data_dir)
    path = local_only(output or f"{found.info.name}.html", "--output")
    with whole_file(path) as file:
        file.write(card_page(found).encode())
    say(str(path))


@dataset.command()
def export(
    name: Name,
    target: Annotated[str, typer.Argument(help="Folder or file to write.", show_default=False)],
    to: Annotated[str, typer.Option("--to", help="huggingface, croissant or webdataset.", show_default=False)],
    data_dir: DataDir = None,
) -> None:
    """Write a dataset for another library: Hugging Face datasets, Croissant metadata, or WebDataset's tar files."""
    from headrace.catalogue.export import EXPORTS

    if to not in EXPORTS:
        raise ValueError(f"--to is one of {', '.join(EXPORTS)}, not {to!r}")
    EXPORTS[to](find(name, data_dir), local_only(target, "TARGET"))
    say(target)
