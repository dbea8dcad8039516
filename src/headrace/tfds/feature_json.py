"""`features.json`, as TFDS writes it today and as it did before."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.core.types import JsonObject, JsonValue
from headrace.errors import StorageError, what_there_is
from headrace.remote.redact import show_path
from headrace.tfds import feature as kinds
from headrace.tfds.feature import FeatureConnector, Shape, dtype_text
from headrace.tfds.files import damage_named

if TYPE_CHECKING:
    from headrace.tfds.feature import FeatureLike

CLASSES: dict[str, type[FeatureConnector]] = {
    "Audio": kinds.Audio,
    "BBox": kinds.BBoxFeature,
    "BBoxFeature": kinds.BBoxFeature,
    "ClassLabel": kinds.ClassLabel,
    "Dataset": kinds.DatasetFeature,
    "FeaturesDict": kinds.FeaturesDict,
    "Image": kinds.Image,
    "LabeledImage": kinds.LabeledImage,
    "Scalar": kinds.Scalar,
    "Sequence": kinds.SequenceFeature,
    "Tensor": kinds.Tensor,
    "Text": kinds.Text,
    "Translation": kinds.Translation,
    "TranslationVariableLanguages": kinds.TranslationVariableLanguages,
    "Video": kinds.Video,
}
FIELDS = {
    "audio",
    "boundingBox",
    "classLabel",
    "featuresDict",
    "image",
    "jsonFeature",
    "sequence",
    "tensor",
    "text",
    "translation",
    "video",
}


def read_feature(said: JsonValue, where: str) -> FeatureConnector:
    """The feature that a page of JSON describes."""
    with damage_named(where):
        return _read(said, show_path(where))


def _read(said: Mapping[str, Any], where: str) -> FeatureConnector:
    if "type" in said:
        content = said["content"]
        return _make(said["type"], json.loads(content) if isinstance(content, str) else content, where)
    named = {_camel(key): value for key, value in said.items()}
    field = next((name for name in named if name in FIELDS), None)
    if field is None:
        raise StorageError(f"{where}: a feature that is none of {', '.join(sorted(FIELDS))}: {said}")
    content = named[field]
    if field == "jsonFeature":
        content = json.loads(content.get("json") or "{}")
    made = _make(named["pythonClassName"], content, where)
    made.description = named.get("description", "")
    return made


def _make(class_name: str, content: JsonObject, where: str) -> FeatureConnector:
    short = class_name.rsplit(".", 1)[-1]
    kind = CLASSES.get(short)
    if kind is None:
        raise StorageError(
            f"{where}: features of class {class_name!r} cannot be read: {what_there_is(short, sorted(CLASSES))}"
        )
    if issubclass(kind, kinds.FeaturesDict) and kind is not kinds.Translation:
        inside = content.get("features", {}) if set(content) <= {"features"} and "type" not in content else content
        if "features" in content and "type" in content["features"]:  # a feature of that name, as it was written before
            inside = content
        return kinds.FeaturesDict({name: _read(value, where) for name, value in inside.items()})
    said = {_camel(key): value for key, value in content.items()}
    if kind in (kinds.SequenceFeature, kinds.DatasetFeature):
        return kind(_read(said["feature"], where), _length(said.get("length")))
    return _LEAVES[kind](said)


def _camel(key: str) -> str:
    first, *rest = key.split("_")
    return first + "".join(part.capitalize() for part in rest)


MAX_SIZE = 1 << 48
"""No array, class label or sequence of a dataset is longer."""


def _length(said: JsonValue) -> int | None:
    return None if said is None or int(said) == -1 else _size(said)


def _size(said: JsonValue) -> int:
    """Return a size that can be one."""
    size = int(said)
    if not 0 <= size <= MAX_SIZE:
        raise ValueError(f"{size} is no size")
    return size


MAX_CLASSES = 1 << 24


def _count(said: JsonValue) -> int | None:
    """Return a number of classes, each of which gets a name."""
    if said is None:
        return None
    if _size(said) > MAX_CLASSES:
        raise ValueError(f"{said} classes are more than {MAX_CLASSES}")
    return int(said)


def _names(said: object) -> list[str] | None:
    """Return a list of texts, None if there is none."""
    if said is not None and not (isinstance(said, list) and all(isinstance(each, str) for each in said)):
        raise TypeError(f"a list of names is needed, not {said!r:.80}")
    return said


def _shape(said: JsonValue) -> Shape:
    """`{}`, `{"dimensions": ["28", "-1"]}`, or the list of before."""
    sizes = said.get("dimensions", []) if isinstance(said, Mapping) else said or []
    return tuple(_length(size) for size in sizes)


def _tensor(said: JsonObject) -> FeatureConnector:
    return kinds.Tensor(
        shape=_shape(said.get("shape")),
        dtype=said["dtype"],
        encoding=said.get("encoding") or "none",
        optional=bool(said.get("optional", False)),
        minimum=said.get("minimum"),
        maximum=said.get("maximum"),
    )


def _text(said: JsonObject) -> FeatureConnector:
    if said.get("useEncoder") or said.get("encoder"):
        raise StorageError("text that was encoded as integers by TFDS's encoders cannot be read as text")
    return kinds.Text(optional=bool(said.get("optional", False)))


def _class_label(said: JsonObject) -> FeatureConnector:
    return kinds.ClassLabel(num_classes=_count(said.get("numClasses")))


def _image(said: JsonObject) -> FeatureConnector:
    return kinds.Image(
        shape=_shape(said.get("shape")) or None,
        dtype=said.get("dtype") or "uint8",
        encoding_format=said.get("encodingFormat") or None,
        use_colormap=bool(said.get("useColormap", False)),
    )


def _labeled_image(said: JsonObject) -> FeatureConnector:
    label = said.get("label") or {}
    count = label.get("numClasses", label.get("num_classes"))
    return kinds.LabeledImage(
        labels=_count(count),
        shape=_shape(said.get("shape")) or None,
        dtype=said.get("dtype") or "uint8",
        encoding_format=said.get("encodingFormat") or None,
    )


def _video(said: JsonObject) -> FeatureConnector:
    return kinds.Video(
        _shape(said.get("shape")) or None,
        said.get("encodingFormat") or None,
        dtype=said.get("dtype") or "uint8",
        use_colormap=bool(said.get("useColormap", False)),
        ffmpeg_extra_args=_names(said.get("ffmpegExtraArgs")) or (),
    )


def _audio(said: JsonObject) -> FeatureConnector:
    rate = said.get("sampleRate")
    return kinds.Audio(
        file_format=said.get("fileFormat") or None,
        shape=_shape(said.get("shape")) or (None,),
        dtype=said.get("dtype") or "int64",
        sample_rate=None if rate is None else _size(rate),
        encoding=said.get("encoding") or "none",
        lazy_decode=bool(said.get("lazyDecode", False)),
    )


_LEAVES = {
    kinds.Audio: _audio,
    kinds.BBoxFeature: lambda said: kinds.BBoxFeature(bbox_format=said.get("bboxFormat") or None),
    kinds.ClassLabel: _class_label,
    kinds.Image: _image,
    kinds.LabeledImage: _labeled_image,
    kinds.Scalar: lambda said: kinds.Scalar(said["dtype"], optional=bool(said.get("optional", False))),
    kinds.Tensor: _tensor,
    kinds.Text: _text,
    kinds.Translation: lambda said: kinds.Translation(_names(said["languages"]) or []),
    kinds.TranslationVariableLanguages: lambda said: kinds.TranslationVariableLanguages(_names(said.get("languages"))),
    kinds.Video: _video,
}


def write_feature(feature: FeatureConnector) -> JsonObject:
    """Return the page of JSON that describes a feature, as TFDS reads it."""
    name = type(feature).__name__
    if type(feature) in (kinds.SequenceFeature, kinds.DatasetFeature):
        name = name.removesuffix("Feature")
    made = {"pythonClassName": f"tensorflow_datasets.core.features.{feature.module}.{name}", **_content(feature)}
    return made | ({"description": feature.description} if feature.description else {})


def _content(feature: FeatureConnector) -> JsonObject:
    match feature:
        case kinds.Translation():
            return {"translation": {"languages": feature.languages}}
        case kinds.TranslationVariableLanguages():
            languages = {"languages": feature.languages} if feature.languages else {}
            return {"translation": languages | {"variableLanguagesPerExample": True}}
        case kinds.FeaturesDict():
            return {"featuresDict": {"features": {k: write_feature(f) for k, f in sorted(feature.items())}}}
        case kinds.Video():
            frame: FeatureLike = feature.feature
            extra = {"ffmpegExtraArgs": list(feature.ffmpeg_extra_args)} if feature.ffmpeg_extra_args else {}
            return {"video": _picture(feature.shape, frame) | extra}
        case kinds.SequenceFeature():
            length = -1 if feature.length is None else feature.length
            return {"sequence": {"feature": write_feature(feature.feature), "length": str(length)}}
        case kinds.LabeledImage():
            return {"image": _picture(feature.shape, feature) | {"label": _classes(feature.label)}}
        case kinds.Image():
            return {"image": _picture(feature.shape, feature)}
        case kinds.ClassLabel():
            return {"classLabel": _classes(feature)}
        case kinds.Text():
            return {"text": {}}
        case kinds.BBoxFeature():
            box = {"shape": _dimensions(feature.shape), "dtype": "float32"}
            return {"boundingBox": box | ({"bboxFormat": feature.bbox_format} if feature.bbox_format else {})}
        case kinds.Audio():
            return {"audio": _sound(feature)}
        case kinds.Tensor():
            return {"tensor": _array(feature)}
    raise TypeError(f"a feature of {type(feature).__name__} cannot be written down")


def _dimensions(shape: Shape) -> JsonObject:
    return {"dimensions": [str(-1 if size is None else size) for size in shape]} if shape else {}


def _classes(label: kinds.ClassLabel) -> JsonObject:
    return {"numClasses": str(label.num_classes)} if label.num_classes else {}


def _picture(shape: Shape, image: kinds.Image) -> JsonObject:
    made = {"shape": _dimensions(shape), "dtype": dtype_text(image.dtype)}
    made |= {"encodingFormat": image.encoding_format} if image.encoding_format else {}
    return made | ({"useColormap": True} if image.use_colormap else {})


def _sound(audio: kinds.Audio) -> JsonObject:
    made = {"shape": _dimensions(audio.shape), "dtype": dtype_text(audio.dtype), "encoding": audio.encoding}
    made |= {"fileFormat": audio.file_format} if audio.file_format else {}
    made |= {"sampleRate": str(audio.sample_rate)} if audio.sample_rate else {}
    return made | ({"lazyDecode": True} if audio.lazy_decode else {})


def _array(tensor: kinds.Tensor) -> JsonObject:
    made: JsonObject = {
        "shape": _dimensions(tensor.shape),
        "dtype": dtype_text(tensor.dtype),
        "encoding": tensor.encoding,
    }
    made |= {"minimum": str(int(tensor.minimum))} if tensor.minimum is not None else {}
    made |= {"maximum": str(int(tensor.maximum))} if tensor.maximum is not None else {}
    return made | ({"optional": True} if tensor.optional else {})
