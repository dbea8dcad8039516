"""Folders and buckets in the place of files: what is said."""

import pytest

import headrace as hr


def test_a_folder_says_how_its_files_are_found(s3):
    s3.put("folder/a.txt", b"x\n")
    for url in (s3.url("folder"), s3.url("folder/")):
        with pytest.raises(hr.ElementError, match=r"Is a directory: hr\.Dataset\.list_files\('s3://.*/folder/\*'\)"):
            list(hr.TextLineDataset(url).with_options(s3.patient()))
    names = hr.Dataset.list_files(s3.url("folder/*"), storage_options={"s3": s3.options})
    assert list(hr.TextLineDataset(names).with_options(s3.patient())) == ["x"]


def test_a_missing_bucket_is_not_a_missing_file(s3):
    missing = s3.prefix.replace("bucket", "nobucket")
    with pytest.raises(hr.ElementError, match="No such bucket as 'nobucket-"):
        list(hr.TextLineDataset(f"{missing}/a.txt").with_options(s3.patient()))
    with pytest.raises(hr.ElementError, match="No such file or directory"):
        list(hr.TextLineDataset(s3.url("absent.txt")).with_options(s3.patient()))


@pytest.mark.parametrize("pattern", ["*.parquet", "a.parquet"])
def test_a_missing_bucket_is_named_where_files_are_looked_up(s3, pattern):
    missing = s3.prefix.replace("bucket", "nobucket")
    for read in (hr.ParquetDataset, hr.Dataset.list_files):
        with pytest.raises(FileNotFoundError, match=r"no files match .*: No such bucket as 'nobucket-"):
            read(f"{missing}/{pattern}", storage_options=s3.options)
        with pytest.raises(FileNotFoundError, match=r"no files match '.*parquet'$"):
            read(s3.url(pattern), storage_options=s3.options)
