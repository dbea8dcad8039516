"""`hr.tfds.download`: names of TFDS without effect, because nothing is downloaded here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.types import Attribute, StrPath


class GenerateMode:
    """When TFDS would make a dataset again: names only."""

    REUSE_DATASET_IF_EXISTS = "reuse_dataset_if_exists"
    REUSE_CACHE_IF_EXISTS = "reuse_cache_if_exists"
    UPDATE_DATASET_INFO = "update_dataset_info"
    FORCE_REDOWNLOAD = "force_redownload"


@dataclass
class DownloadConfig:
    """How TFDS would download a dataset: taken and ignored."""

    extract_dir: StrPath | None = None
    manual_dir: StrPath | None = None
    download_mode: str = GenerateMode.REUSE_DATASET_IF_EXISTS
    max_examples_per_split: int | None = None
    register_checksums: bool = False
    verify_ssl: bool = True
    try_download_gcs: bool = True


__all__ = ["DownloadConfig", "GenerateMode"]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.tfds.download", name)
