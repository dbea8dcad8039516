"""The results of pipelines as datasets of TFDS's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.cluster.ranges import PlanRanges
from headrace.core.paths import local_only
from headrace.core.types import Argument, JsonValue, Nested, StrPath
from headrace.ops.with_options import for_pass
from headrace.plan.capabilities import require_end
from headrace.plan.spec import TensorSpec
from headrace.storage.plans import Maker
from headrace.tfds.feature import FeatureConnector, FeatureLike, FeaturesDict, Tensor, Text, as_feature
from headrace.tfds.on_workers import RangeRows
from headrace.tfds.staging import Key, RowSource
from headrace.tfds.versions import Version
from headrace.tfds.writing import DatasetPlan, write_dataset

if TYPE_CHECKING:
    from headrace.cluster.members import Cluster
    from headrace.dataset import Dataset
    from headrace.tfds.feature import FeatureLike


class PipelineRows:
    """The elements of a dataset; if possible, those that are written already are not made again."""

    def __init__(self, ds: Dataset) -> None:
        self._ds = ds

    def identity(self) -> JsonValue:
        """See RowSource; one that draws without a seed is another one in each process."""
        return Maker(self._ds._node).page

    def rows(self, skip: int) -> tuple[int, Iterator[tuple[Key, Nested]]]:
        """See RowSource."""
        return skip, ((skip + number, element) for number, element in enumerate(self._ds.skip(skip)))


def write_pipelines(
    splits: Mapping[str, Dataset],
    data_dir: StrPath,
    name: str,
    version: str,
    *,
    features: FeatureLike,
    overwrite: bool,
    progress: bool | None,
    cluster: Cluster | None = None,
    **said: Argument,
) -> str:
    """Write datasets as the splits of one."""
    for split, ds in splits.items():
        require_end(ds._node, f"split {split!r}")
    first = next(iter(splits.values()))
    described = features_of_spec(first.element_spec) if features is None else as_feature(features)
    plan = DatasetPlan(name=name, version=Version.of(version), features=described, **said)
    counts = {split: int(ds._node.cardinality) if ds._node.cardinality.known else None for split, ds in splits.items()}
    folder = write_dataset(
        plan, local_folder(data_dir), {split: row_sources(ds, cluster) for split, ds in splits.items()},
        overwrite=overwrite, progress=progress, counts=counts, cluster=cluster,
    )  # fmt: skip
    return str(folder)


def row_sources(ds: Dataset, cluster: Cluster | None) -> Sequence[RowSource]:
    """Return the sources of a split's rows: local, or in ranges from the workers of a cluster."""
    if cluster is None:
        return [PipelineRows(ds)]
    plan = for_pass(ds._node)
    return [RangeRows(plan, part, number) for number, part in enumerate(PlanRanges(plan).parts())]


def local_folder(path: StrPath) -> Path:
    """Return a folder on this machine, in which alone datasets are built."""
    return local_only(path, "data_dir of a dataset to build", "build it on this machine and copy it there").expanduser()


def features_of_spec(spec: object, path: str = "") -> FeatureConnector:
    """Features for elements of which the spec alone is known."""
    if isinstance(spec, Mapping):
        return FeaturesDict({str(k): features_of_spec(v, f"{path}/{k}".strip("/")) for k, v in spec.items()})
    if not path:
        raise TypeError(f"rows of a dataset are dicts, not {spec}: give components names in map")
    if not isinstance(spec, TensorSpec) or spec.shape is None or spec.dtype is None or spec.dtype.kind not in "biufSU":
        raise TypeError(f"component {path!r}, {spec}, says too little of itself: features= must say what it is")
    if spec.dtype.kind in "SU" and spec.shape == ():
        return Text()
    exact = spec.shape.count(None) > 1 or spec.dtype.name == "float64"  # which Examples do not hold by themselves
    return Tensor(
        shape=spec.shape, dtype=spec.dtype, encoding="bytes" if exact and spec.dtype.kind in "biuf" else "none"
    )
