"""MovieLens: ratings of films by people."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from headrace.core.types import JsonObject, Nested
from headrace.datasets.declare import public_dataset
from headrace.datasets.formats.archives import archive_file, archive_files
from headrace.datasets.formats.tables import table_rows, text_lines
from headrace.tfds.features import ClassLabel, Sequence, Tensor

GENRES = [
    "Action", "Adventure", "Animation", "Children", "Comedy", "Crime", "Documentary", "Drama", "Fantasy", "Film-Noir",
    "Horror", "IMAX", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "Unknown", "War", "Western",
    "(no genres listed)",
]  # fmt: skip
GENRES_100K = ["Unknown", *(name for name in GENRES if name not in ("IMAX", "Unknown", "(no genres listed)"))]
OCCUPATIONS = [
    "academic/educator", "artist", "clerical/admin", "customer service", "doctor/health care", "entertainment",
    "executive/managerial", "farmer", "homemaker", "lawyer", "librarian", "other/not specified", "programmer",
    "retired", "sales/marketing", "scientist", "self-employed", "student", "technician/engineer",
    "tradesman/craftsman", "unemployed", "writer",
]  # fmt: skip
OCCUPATIONS_1M = [
    "other/not specified", "academic/educator", "artist", "clerical/admin", "college/grad student", "customer service",
    "doctor/health care", "executive/managerial", "farmer", "homemaker", "K-12 student", "lawyer", "programmer",
    "retired", "sales/marketing", "scientist", "self-employed", "technician/engineer", "tradesman/craftsman",
    "unemployed", "writer",
]  # fmt: skip
OCCUPATIONS_100K = {
    "administrator": "clerical/admin", "doctor": "doctor/health care", "educator": "academic/educator",
    "engineer": "technician/engineer", "executive": "executive/managerial", "healthcare": "doctor/health care",
    "marketing": "sales/marketing", "none": "other/not specified", "other": "other/not specified",
    "salesman": "sales/marketing", "technician": "technician/engineer",
}  # fmt: skip
AGES = (56, 50, 45, 35, 25, 18, 1)
"""The youngest of each group."""
LATIN = "iso-8859-1"

TEXT = Tensor(shape=(), dtype=bytes)
MOVIE = {"movie_id": TEXT, "movie_title": TEXT, "movie_genres": Sequence(ClassLabel(names=GENRES))}
RATING = {"user_id": TEXT, "user_rating": np.float32, "timestamp": np.int64}
USER = {
    "user_gender": np.bool_,
    "bucketized_user_age": np.float32,
    "user_occupation_label": ClassLabel(names=OCCUPATIONS),
    "user_occupation_text": TEXT,
    "user_zip_code": TEXT,
}
SIZES = {  # ratings and films
    "25m": (25_000_095, 62_423),
    "latest-small": (100_836, 9_742),
    "100k": (100_000, 1_682),
    "1m": (1_000_209, 3_883),
    "20m": (20_000_263, 27_278),
}


def _lines(archive: Path, name: str, separator: str) -> Iterator[list[str]]:
    for _, file in archive_files(archive, lambda found: found == name):
        for line in text_lines(file, LATIN):
            yield line.split(separator)


def movies(archive: Path, size: str) -> Iterator[JsonObject]:
    """The films, in the format of each size."""
    if size == "100k":
        for number, title, _, _, _, *flags in _lines(archive, "ml-100k/u.item", "|"):
            genres = [name for name, flag in zip(GENRES_100K, flags, strict=True) if flag == "1"]
            yield {"movie_id": number, "movie_title": title, "movie_genres": genres}
    elif size == "1m":
        for number, title, names in _lines(archive, "ml-1m/movies.dat", "::"):
            genres = ["Children" if name == "Children's" else name for name in names.split("|")]
            yield {"movie_id": number, "movie_title": title, "movie_genres": genres}
    else:
        for row in table_rows(io.BytesIO(archive_file(archive, f"ml-{size}/movies.csv"))):
            yield {"movie_id": row["movieId"], "movie_title": row["title"], "movie_genres": row["genres"].split("|")}


def users(archive: Path, size: str) -> Iterator[tuple[str, JsonObject]]:
    """The people who rated films, as far as they are known."""
    if size == "100k":
        for number, age, gender, work, code in _lines(archive, "ml-100k/u.user", "|"):
            group = next((first for first in AGES if int(age) >= first), 1)
            yield (
                number,
                _user(gender, group, OCCUPATIONS_100K.get(work, work), work, code) | {"raw_user_age": int(age)},
            )
    elif size == "1m":
        for number, gender, age, work, code in _lines(archive, "ml-1m/users.dat", "::"):
            text = OCCUPATIONS_1M[int(work)]
            label = "student" if text in ("K-12 student", "college/grad student") else text
            yield number, _user(gender, int(age), label, text, code)


def _user(gender: str, age: int, label: str, text: str, code: str) -> JsonObject:
    return {
        "user_gender": gender == "M", "bucketized_user_age": age, "user_occupation_label": label,
        "user_occupation_text": text, "user_zip_code": code,
    }  # fmt: skip


def ratings(archive: Path, size: str) -> Iterator[list[str]]:
    """User, film, rating and time of each rating."""
    if size in ("100k", "1m"):
        name, separator = ("ml-100k/u.data", "\t") if size == "100k" else ("ml-1m/ratings.dat", "::")
        yield from _lines(archive, name, separator)
        return
    for _, file in archive_files(archive, lambda found: found == f"ml-{size}/ratings.csv"):
        for row in table_rows(file):
            yield [row["userId"], row["movieId"], row["rating"], row["timestamp"]]


def _movies_of(size: str) -> Callable[..., Iterator[Nested]]:
    def generate(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
        """Films with their genres, of the web site MovieLens."""
        yield from enumerate(movies(sources[size], size))

    return generate


def _ratings_of(size: str) -> Callable[..., Iterator[Nested]]:
    def generate(split: str, sources: Mapping[str, Path]) -> Iterator[Nested]:
        """Ratings of films by users of the web site MovieLens, each with the film and what is known of the user."""
        archive = sources[size]
        films = {movie["movie_id"]: movie for movie in movies(archive, size)}
        people = dict(users(archive, size))
        for number, (user, movie, rating, time) in enumerate(ratings(archive, size)):
            said = {"user_id": user, "user_rating": float(rating), "timestamp": int(time)}
            yield number, {**said, **films[movie], **people.get(user, {})}

    return generate


for _size, (_ratings, _movies) in SIZES.items():
    _user_features: JsonObject = USER if _size in ("100k", "1m") else {}
    _age: JsonObject = {"raw_user_age": np.float32} if _size == "100k" else {}
    for _table, _count, _features, _generate in (
        ("ratings", _ratings, {**MOVIE, **RATING, **_user_features, **_age}, _ratings_of(_size)),
        ("movies", _movies, MOVIE, _movies_of(_size)),
    ):
        public_dataset(
            "movielens",
            config=f"{_size}-{_table}",
            version="0.1.1",
            features=_features,
            rows={"train": _count},
            files=[_size],
            homepage="https://grouplens.org/datasets/movielens/",
            license="for research; see the README in the archive",
            citation="@article{harper2015movielens, author={Harper, F. Maxwell and Konstan, Joseph A.}, "
            "title={The MovieLens Datasets: History and Context}, year={2015}, doi={10.1145/2827872}}",
        )(_generate)
