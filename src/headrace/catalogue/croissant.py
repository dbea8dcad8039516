"""The Croissant metadata (MLCommons) of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.catalogue.download import sha256_of
from headrace.core.types import JsonObject
from headrace.tfds.builder import ReadOnlyBuilder
from headrace.tfds.feature import FeatureConnector, FeaturesDict, Image, SequenceFeature, Tensor


def croissant_page(builder: ReadOnlyBuilder) -> JsonObject:
    """Return the description of a dataset in Croissant: its files, and the fields of its rows."""
    info = builder.info
    format_name = f"application/x-{info.file_format}"
    shards = {"@id": "shards", "name": "shards", "encodingFormat": format_name}
    distribution: list[JsonObject] = [
        {"@type": "cr:FileSet", **shards, "includes": f"{info.name}-*.{info.file_format}-*"}
    ]
    for split in info.splits.values():
        for name in split.filenames(info.name, info.file_format):
            path = Path(info.data_dir, name)
            sums = {"sha256": sha256_of(path), "contentSize": f"{path.stat().st_size} B"} if path.exists() else {}
            described = {"@id": name, "name": name, "contentUrl": name, "encodingFormat": format_name}
            distribution.append({"@type": "cr:FileObject", **described, **sums})
    said = {
        "description": info.description, "url": info.homepage, "license": info.license, "citeAs": info.citation,
    }  # fmt: skip
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": info.name,
        "version": str(info.version),
        **{name: value for name, value in said.items() if value},
        "distribution": distribution,
        "recordSet": [
            {"@type": "cr:RecordSet", "@id": "default", "name": "default", "field": list(_fields(info.features))}
        ],
    }


OWN_WORDS = [
    "citeAs",
    "column",
    "equivalentProperty",
    "extract",
    "field",
    "fileObject",
    "fileProperty",
    "fileSet",
    "format",
    "includes",
    "isLiveDataset",
    "jsonPath",
    "key",
    "md5",
    "parentField",
    "path",
    "recordSet",
    "references",
    "regex",
    "repeated",
    "replace",
    "samplingRate",
    "separator",
    "source",
    "subField",
    "transform",
]
CONTEXT: JsonObject = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{word: f"cr:{word}" for word in OWN_WORDS},
}


def _fields(feature: FeatureConnector, path: str = "", *, repeated: bool = False) -> Iterator[JsonObject]:
    if isinstance(feature, FeaturesDict):
        for name, child in sorted(feature.items()):
            yield from _fields(child, f"{path}/{name}".strip("/"), repeated=repeated)
    elif isinstance(feature, SequenceFeature):
        yield from _fields(feature.feature, path, repeated=True)
    else:
        described = {"name": path, "description": feature.description or repr(feature), "dataType": _data_type(feature)}
        source = {"fileSet": {"@id": "shards"}, "extract": {"column": path}}
        often = {"repeated": True} if repeated else {}
        yield {"@type": "cr:Field", "@id": f"default/{path}", **described, **often, "source": source}


def _data_type(feature: FeatureConnector) -> str:
    if isinstance(feature, Image):
        return "sc:ImageObject"
    if isinstance(feature, Tensor) and feature.dtype.kind != "S":
        return {"b": "sc:Boolean", "f": "sc:Float"}.get(feature.dtype.kind, "sc:Integer")
    return "sc:Text"
