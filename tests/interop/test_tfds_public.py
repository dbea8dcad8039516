"""Public datasets, prepared here and by TFDS from the same files: equal rows in the same order, equal features."""

import gzip
import json
import os
import tarfile
import zipfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

from headrace.datasets.public import public_configs
from tests.interop.test_tfds import assert_equal
from tests.public.stand_ins import EACH_FORMAT, with_sources, write_files

tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow-datasets has no wheel for this Python")
pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore")]


class LocalFiles:
    """In place of TFDS's download manager: gives local files for URLs."""

    downloaded_size = 0

    def __init__(self, paths, folder):
        self._paths, self._folder, self._count = paths, folder, 0

    def _each(self, work, given):
        import tree

        return tree.map_structure(work, given)

    def download(self, urls):
        from etils import epath

        return self._each(lambda url: epath.Path(self._paths[url]), urls)

    def extract(self, paths):
        return self._each(self._extract, paths)

    def download_and_extract(self, urls):
        return self.extract(self.download(urls))

    def iter_archive(self, path):
        from tensorflow_datasets.core.download import extractor

        return (extractor.iter_zip if zipfile.is_zipfile(path) else extractor.iter_tar_stream)(path)

    def _extract(self, path):
        from etils import epath

        self._count += 1
        target = self._folder / f"extracted{self._count}"
        path = Path(path)
        if zipfile.is_zipfile(path):
            zipfile.ZipFile(path).extractall(target)
        elif tarfile.is_tarfile(path):
            with tarfile.open(path) as archive:
                archive.extractall(target, filter="data")
        elif path.suffix == ".gz":
            target.write_bytes(gzip.decompress(path.read_bytes()))
        else:
            return epath.Path(path)
        return epath.Path(target)


def sorted_walk(path):
    for folder, names, files in os.walk(path):
        yield folder, sorted(names), sorted(files)


def prepare_theirs(name, config, paths, folder, monkeypatch):
    """Have TFDS prepare a dataset of the files."""
    from tensorflow_datasets.core.utils import gcs_utils
    from tensorflow_datasets.image_classification import cats_vs_dogs, mnist

    monkeypatch.setattr(gcs_utils, "_is_gcs_disabled", True)
    monkeypatch.setattr(mnist, "_TRAIN_EXAMPLES", 13)
    monkeypatch.setattr(mnist, "_TEST_EXAMPLES", 7)
    monkeypatch.setattr(cats_vs_dogs, "_NUM_CORRUPT_IMAGES", 1)
    if name == "caltech101":  # its split depends on the order in which files are listed
        monkeypatch.setattr("tensorflow.io.gfile.listdir", lambda path: sorted(p.name for p in Path(path).iterdir()))
        monkeypatch.setattr("tensorflow.io.gfile.walk", sorted_walk)
    builder = tfds.builder(name, config=config, data_dir=str(folder / "theirs"), try_gcs=False)
    if name == "emnist":
        builder.builder_config.train_examples, builder.builder_config.test_examples = 13, 7
    sources = public_configs(name)[config].source_files()
    urls = {sources[key].url: path for key, path in paths.items()}
    monkeypatch.setattr(builder, "_make_download_manager", lambda **_: LocalFiles(urls, folder))
    builder.download_and_prepare()
    return builder


@pytest.mark.parametrize(("name", "config"), EACH_FORMAT)
def test_equal_to_what_tfds_prepares(name, config, tmp_path, monkeypatch):
    paths = write_files(name, config, tmp_path / "files")
    theirs = prepare_theirs(name, config, paths, tmp_path, monkeypatch)
    ours = with_sources(name, config, paths).build(tmp_path / "ours", processes=1)
    assert ours.info.full_name == theirs.info.full_name
    assert list(ours.info.splits) == list(theirs.info.splits)
    assert json.loads(Path(ours.data_path, "features.json").read_text()) == json.loads(
        Path(theirs.data_dir, "features.json").read_text()
    )
    again = tfds.builder_from_directory(ours.data_path)
    assert again.info.supervised_keys == theirs.info.supervised_keys
    assert again.info.homepage == theirs.info.homepage
    for feature in ("label", "species", "coarse_label"):
        if feature in theirs.info.features and hasattr(theirs.info.features[feature], "names"):
            assert again.info.features[feature].names == theirs.info.features[feature].names
    supervised = ours.info.supervised_keys is not None
    for split in theirs.info.splits:
        for how in ({}, {"as_supervised": True}) if supervised else ({},):
            expected = list(tfds.as_numpy(theirs.as_dataset(split=split, **how)))
            got = list(ours.as_dataset(split, **how))
            assert len(got) == len(expected) > 0
            for a, b in zip(got, expected, strict=True):
                assert_equal(a, b)


def test_the_table_of_files_is_tfds_s_own():
    from headrace.datasets.declare import source_table

    root = Path(tfds.__file__).parent
    known = {}
    for path in [*root.glob("url_checksums/*.txt"), *root.glob("**/checksums.tsv")]:
        for line in path.read_text().splitlines():
            url, *said = line.split("\t")
            known[url] = said[:2]
    unlisted = {"wine_quality", "diamonds"}  # whose checksums the package does not bring
    for name, files in source_table().items():
        for source in files.values():
            if name not in unlisted:
                assert known[source.url] == [str(source.size), source.sha256], name
