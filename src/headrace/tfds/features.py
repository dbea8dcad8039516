"""The features that a dataset may have, under TFDS's names."""

from typing import TYPE_CHECKING

from headrace.core.types import Attribute
from headrace.tfds.feature import (
    Audio,
    BBoxFeature,
    ClassLabel,
    FeatureConnector,
    FeaturesDict,
    Image,
    LabeledImage,
    Scalar,
    Tensor,
    Text,
    Translation,
    TranslationVariableLanguages,
    Video,
)
from headrace.tfds.feature import DatasetFeature as Dataset
from headrace.tfds.feature import SequenceFeature as Sequence

__all__ = [
    "Audio",
    "BBoxFeature",
    "ClassLabel",
    "Dataset",
    "FeatureConnector",
    "FeaturesDict",
    "Image",
    "LabeledImage",
    "Scalar",
    "Sequence",
    "Tensor",
    "Text",
    "Translation",
    "TranslationVariableLanguages",
    "Video",
]


if not TYPE_CHECKING:  # a type checker should still know which names there are

    def __getattr__(name: str) -> Attribute:
        from headrace.names import found

        return found("hr.tfds.features", name)
