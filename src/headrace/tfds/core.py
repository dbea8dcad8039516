"""`hr.tfds.core`: the names of tfds.core that are needed to read datasets."""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.tfds.builder import SplitBuilder as DatasetBuilder
from headrace.tfds.info import DatasetInfo, SplitInfo
from headrace.tfds.splits import ReadInstruction
from headrace.tfds.versions import Version

__all__ = ["DatasetBuilder", "DatasetInfo", "ReadInstruction", "SplitInfo", "Version"]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.tfds.core", name)
