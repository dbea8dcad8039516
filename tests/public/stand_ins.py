"""Small stand-ins for the files of public datasets, in their real formats."""

import gzip
import hashlib
import io
import json
import struct
import tarfile
import zipfile
import zlib
from copy import copy

import numpy as np
from PIL import Image

from headrace.catalogue.sources import SourceFile
from headrace.datasets.declare import label_names
from headrace.datasets.public import public_configs, public_names

ROWS = {"train": 13, "test": 7}


def rng(seed):
    return np.random.default_rng(seed)


def idx(array):
    kind = {"uint8": 8}[array.dtype.name]
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, kind, array.ndim, *array.shape)
    return gzip.compress(head + array.tobytes(), mtime=0)


def idx_files(seed, classes=10):
    found = {}
    for number, (split, count) in enumerate(ROWS.items()):
        made = rng(seed + number)
        found[f"{split}_images"] = idx(made.integers(0, 256, (count, 28, 28), np.uint8))
        found[f"{split}_labels"] = idx(made.integers(0, classes, count).astype(np.uint8))
    return found


def tar(files, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            if data is None:
                entry.type = tarfile.DIRTYPE
                archive.addfile(entry)
            else:
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def jpeg(seed, size=(21, 17), mode="RGB"):
    made = rng(seed)
    channels = 3 if mode == "RGB" else 1
    coarse = made.integers(0, 255, (4, 4, channels), np.uint8).squeeze()
    out = io.BytesIO()
    Image.fromarray(coarse).resize(size).save(out, "JPEG", quality=80)
    return out.getvalue()


def cifar(labels, count, seed):
    made = rng(seed)
    rows = [made.integers(0, n, (count, 1), np.uint8) for n in labels]
    return np.hstack([*rows, made.integers(0, 256, (count, 3072), np.uint8)]).tobytes()


def mat(compressed=True, **arrays):
    """A MAT-file of version 5."""
    classes = {"uint8": (9, 2), "float64": (6, 9), "uint16": (11, 4)}

    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    out = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x100, b"IM")
    for name, array in arrays.items():
        kind, stored = classes[array.dtype.name]
        text = name.encode()
        named = struct.pack("<HH", 1, len(text)) + text.ljust(4, b"\0") if len(text) <= 4 else element(1, text)
        inside = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{array.ndim}i", *array.shape))
        whole = element(14, inside + named + element(stored, array.tobytes(order="F")))
        packed = zlib.compress(whole)
        out += struct.pack("<II", 15, len(packed)) + packed if compressed else whole
    return out


def csv_file(header, *rows):
    return ("\n".join([header, *rows]) + "\n").encode()


def emnist(config):
    files = idx_files(20)
    names = {"images": "images-idx3", "labels": "labels-idx1"}
    return {
        "archive": zipped(
            {
                f"gzip/emnist-{config}-{key.split('_')[0]}-{names[key.split('_')[1]]}-ubyte.gz": data
                for key, data in files.items()
            }
        )
    }


def cifar10(config):
    names = "airplane automobile bird cat deer dog frog horse ship truck"
    files = {f"data_batch_{n}.bin": cifar([10], 5, n) for n in (2, 1, 3, 5, 4)}  # not in their order
    files = {
        "test_batch.bin": cifar([10], 7, 9),
        **files,
        "batches.meta.txt": names.replace(" ", "\n").encode() + b"\n\n",
    }
    return {"archive": tar({f"cifar-10-batches-bin/{name}": data for name, data in files.items()})}


def cifar100(config):
    names = {"coarse_label_names.txt": "cifar100_coarse", "fine_label_names.txt": "cifar100"}
    files = {file: ("\n".join(label_names(name)) + "\n").encode() for file, name in names.items()}
    files |= {"train.bin": cifar([20, 100], 13, 1), "test.bin": cifar([20, 100], 7, 2)}
    return {"archive": tar({f"cifar-100-binary/{name}": data for name, data in files.items()})}


def svhn_cropped(config):
    def one(seed, count):
        made = rng(seed)
        return mat(
            X=made.integers(0, 256, (32, 32, 3, count), np.uint8), y=made.integers(1, 11, (count, 1)).astype(np.uint8)
        )

    return {"train": one(1, 13), "test": one(2, 7), "extra": one(3, 9)}


def stl10(config):
    made = rng(4)
    files = {"class_names.txt": b"airplane\nbird\ncar\ncat\ndeer\ndog\nhorse\nmonkey\nship\ntruck\n"}
    for name, count in (("train", 3), ("test", 2), ("unlabeled", 4)):
        files[f"{name}_X.bin"] = made.integers(0, 256, (count, 3 * 96 * 96), np.uint8).tobytes()
        if name != "unlabeled":
            files[f"{name}_y.bin"] = made.integers(1, 11, count).astype(np.uint8).tobytes()
    return {"archive": tar({f"stl10_binary/{name}": data for name, data in files.items()})}


def cats_vs_dogs(config):
    files = {
        "PetImages/Cat/": b"",
        "readme.txt": b"pets",
        "PetImages/Dog/Thumbs.db": b"x",
        "PetImages/Dog/7.jpg": b"no",
    }
    for number in range(6):
        files[f"PetImages/{'Cat' if number % 2 else 'Dog'}/{number}.jpg"] = jpeg(
            number, mode="L" if number == 3 else "RGB"
        )
    files["PetImages/Cat/6.jpg"] = jpeg(6).replace(b"JFIF\0\x01\x01", b"JFIF\0\0\0")  # as some of the archive are
    files["PetImages/Dog/9.jpg"] = jpeg(9)[:-2] + bytes(200) + b"\xff\xd9"
    return {"archive": zipped(files)}


def tf_flowers(config):
    kinds = ["dandelion", "daisy", "tulips", "sunflowers", "roses"]
    files = {"flower_photos": None, "flower_photos/LICENSE.txt": b"CC", "flower_photos/._x.jpg": b"mac"}
    files |= {f"flower_photos/{kinds[n % 5]}/{n}_n.jpg": jpeg(n) for n in range(11)}
    return {"archive": tar(files)}


def oxford_flowers102(config):
    labels = rng(5).integers(1, 103, (1, 12)).astype(np.uint8)
    numbers = rng(6).permutation(12) + 1
    sets = {"trnid": numbers[:5], "valid": numbers[5:8], "tstid": numbers[8:]}
    splits = mat(False, **{name: part[None].astype(np.uint16) for name, part in sets.items()})
    images = tar({f"jpg/image_{n:05d}.jpg": jpeg(n) for n in range(1, 13)})
    return {"images": images, "labels": mat(labels=labels), "splits": splits}


def food101(config):
    names = {"train": [f"pizza/{n}" for n in range(4)] + ["sushi/9"], "test": ["pizza/77", "ramen/5"]}
    files = {f"food-101/images/{name}.jpg": jpeg(n) for n, name in enumerate([*names["train"], *names["test"]])}
    for split, listed in names.items():
        grouped = {}
        for name in listed:
            grouped.setdefault(name.split("/")[0], []).append(name)
        files[f"food-101/meta/{split}.json"] = json.dumps(grouped).encode()
    return {"archive": tar(files)}


def caltech101(config):
    folders = {"BACKGROUND_Google": ["tmp", *(f"image_{n:04d}.jpg" for n in range(1, 33))]}
    folders |= {name: [f"image_{n:04d}.jpg" for n in range(1, 32)] for name in ("accordion", "Faces", "yin_yang")}
    picture = jpeg(0, (5, 4))
    files = {f"101_ObjectCategories/{name}/{file}": picture for name, files in folders.items() for file in files}
    inner = tar({"101_ObjectCategories": None, **dict(reversed(files.items()))})
    return {"archive": zipped({"caltech-101/show_annotation.m": "x", "caltech-101/101_ObjectCategories.tar.gz": inner})}


def eurosat(config):
    return {"rgb": zipped({f"2750/{k}/{k}_{n}.jpg": jpeg(n, (64, 64)) for k in ("River", "Forest") for n in range(4)})}


def beans(config):
    kinds = ["angular_leaf_spot", "bean_rust", "healthy"]
    return {
        split: zipped({f"{split}/{kinds[n % 3]}/{split}.{n}.jpg": jpeg(n, (500, 500)) for n in range(3 + count)})
        for count, split in enumerate(("train", "validation", "test"))
    }


def imdb_reviews(config):
    files = {"aclImdb/README": b"read", "aclImdb/train/urls_pos.txt": b"http"}
    for number, folder in enumerate(("train/pos", "train/neg", "train/unsup", "test/pos", "test/neg")):
        for n in range(3):
            files[f"aclImdb/{folder}/{n}_{number}.txt"] = f"  A film é {number} <br /> {n}\n".encode()
    return {"archive": tar(files)}


def ag_news_subset(config):
    rows = [
        '"3","Oil, ""black""","Prices rise \\\\b"',
        '"1","Peace","A long\nstory"',
        '"4","Café","#36;x"',
        '"2","Goal",""',
    ]
    return {
        "archive": tar(
            {f"ag_news_csv/{s}.csv": ("\n".join(rows[k:]) + "\n").encode() for s, k in (("train", 0), ("test", 2))}
        )
    }


def tiny_shakespeare(config):
    return {"text": ("First Citizen:\nBefore we proceed any further, hear mé speak.\n\n" * 7).encode()}


def lm1b(config):
    home = "1-billion-word-language-modeling-benchmark-r13output"
    files = {
        f"{home}/training-monolingual.tokenized.shuffled/news.en-00001-of-00100": b"The U.S. \n caf\xc3\xa9 .\n\nend",
        f"{home}/training-monolingual.tokenized.shuffled/news.en-00002-of-00100": b"Another one .\n",
        f"{home}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050": b"Held out .\nTwice .\n",
        f"{home}/README": b"read me\n",
    }
    return {"archive": tar(files)}


def yelp_polarity_reviews(config):
    rows = ['"1","Bad, ""very"" bad.\\nNever"', '"2"," Good é "', '"1",""']
    data = ("\n".join(rows) + "\n").encode()
    return {"archive": tar({f"yelp_review_polarity_csv/{split}.csv": data for split in ("train", "test")})}


def glue(config):
    files = {
        "SST-2/train.tsv": 'sentence\tlabel\na "fine" film \t1\ndull \t0\n',
        "SST-2/dev.tsv": "sentence\tlabel\nit 's charming \t1\n",
        "SST-2/test.tsv": "index\tsentence\n0\tuneasy mishmash\n1\tmore\n",
    }
    return {"sst2": zipped(files)}


def iris(config):
    kinds = ["Iris-setosa", "Iris-versicolor", "Iris-virginica"]
    lines = [f"{5.1 + n / 10:.1f},3.{n},1.4,0.{n},{kinds[n % 3]}" for n in range(9)]
    return {"archive": zipped({"Index": "x", "iris.data": "\n".join([*lines, "", ""])})}


def titanic(config):
    header = "pclass,survived,name,sex,age,sibsp,parch,ticket,fare,cabin,embarked,boat,body,home.dest"
    return {
        "table": csv_file(
            header,
            '1,1,"Allen, Miss. Elisabeth",female,29,0,0,24160,211.3375,B5,S,2,?,"St Louis, MO"',
            '3,0,"Allison, Mr. H",male,0.9167,1,2,113781,7.2292,?,C,?,135,?',
            '2,0,"Zabour, Miss. ""T""",female,?,1,0,2665,?,?,?,?,?,?',
        )
    }


def penguins(config):
    measured = ["39.1,18.7,181,3750", "NA,NA,NA,NA", "46.5,17.9,192,3500"]
    simple = ["Adelie,Torgersen,{},MALE", "Gentoo,Biscoe,{},NA", "Chinstrap,Dream,{},."]
    columns = "culmen_length_mm,culmen_depth_mm,flipper_length_mm,body_mass_g"
    header = (
        "studyName,Sample Number,Species,Region,Island,Stage,Individual ID,Clutch Completion,Date Egg,Culmen Length (mm),"
        "Culmen Depth (mm),Flipper Length (mm),Body Mass (g),Sex,Delta 15 N (o/oo),Delta 13 C (o/oo),Comments"
    )
    return {
        "processed": csv_file(f"species,{columns}", "0,0.254,0.66,0.15,0.29", "2,0.5,0.1,0.9,0.333333"),
        "simple": csv_file(
            f"species,island,{columns},sex", *(s.format(m) for s, m in zip(simple, measured, strict=True))
        ),
        "raw": csv_file(
            header,
            *(
                f"PAL{n},{n},Adelie,Anvers,Dream,Adult,N{n},Yes,11/11/07,{m},MALE,NA,8.{n},Not enough"
                for n, m in enumerate(measured)
            ),
        ),
    }


def wine_quality(config):
    columns = (
        "fixed acidity", "volatile acidity", "citric acid", "residual sugar", "chlorides", "free sulfur dioxide",
        "total sulfur dioxide", "density", "pH", "sulphates", "alcohol", "quality",
    )  # fmt: skip
    header = ";".join(f'"{name}"' for name in columns)
    rows = ["7;0.27;0.36;20.7;0.045;45;170;1.001;3;0.45;8.8;6", "6.3;0.3;0.34;1.6;0.049;14;132;0.994;3.3;0.49;9.5;5"]
    return {"white": csv_file(header, *rows), "red": csv_file(header, rows[1])}


def diamonds(config):
    header = "carat,cut,color,clarity,depth,table,price,x,y,z"
    return {
        "table": csv_file(
            header, "0.23,Ideal,E,SI2,61.5,55,326,3.95,3.98,2.43", "0.31,Very Good,J,SI1,63.3,58,335,4.34,4.35,2.75"
        )
    }


def movielens(config):
    flags = "|".join("1" if n in (3, 4, 5) else "0" for n in range(19))
    files = {
        "ml-100k/u.item": f"1|Toy Story (1995)|01-Jan-1995||http://x|{flags}\n2|Café (1994)|||u|{'|'.join(['1'] + ['0'] * 18)}\n",
        "ml-100k/u.user": "1|24|M|technician|85711\n2|17|F|other|94043\n3|56|F|student|T8H1N\n",
        "ml-100k/u.data": "1\t2\t3\t881250949\n3\t1\t5\t891717742\n2\t1\t1\t878887116\n",
        "ml-1m/movies.dat": "1::Toy Story (1995)::Animation|Children's|Comedy\n2::Café (1994)::Drama\n",
        "ml-1m/users.dat": "1::F::1::10::48067\n2::M::56::16::70072\n3::M::25::4::55117\n",
        "ml-1m/ratings.dat": "1::2::5::978300760\n3::1::3::978302109\n2::1::4::978301968\n",
        "movies.csv": 'movieId,title,genres\n1,Toy Story (1995),Adventure|Animation\n2,"Café, The (1994)",(no genres listed)\n',
        "ratings.csv": "userId,movieId,rating,timestamp\n1,1,4.0,964982703\n1,2,0.5,964981247\n7,1,3.5,964982224\n",
    }  # fmt: skip
    found = {}
    for size in ("100k", "1m", "25m", "20m", "latest-small"):
        latin = {n: t.encode("iso-8859-1") for n, t in files.items() if n.startswith(f"ml-{size}/")}
        found[size] = zipped(latin or {f"ml-{size}/{n}": t.encode() for n, t in files.items() if n.endswith(".csv")})
    return found


MAKERS = {
    "mnist": lambda config: idx_files(0), "fashion_mnist": lambda config: idx_files(5),
    "kmnist": lambda config: idx_files(9), "emnist": emnist, "cifar10": cifar10, "cifar100": cifar100,
    "svhn_cropped": svhn_cropped, "stl10": stl10, "cats_vs_dogs": cats_vs_dogs, "tf_flowers": tf_flowers,
    "oxford_flowers102": oxford_flowers102, "food101": food101, "caltech101": caltech101, "eurosat": eurosat, "beans": beans,
    "imdb_reviews": imdb_reviews, "ag_news_subset": ag_news_subset, "yelp_polarity_reviews": yelp_polarity_reviews,
    "glue": glue, "iris": iris, "titanic": titanic, "penguins": penguins, "wine_quality": wine_quality,
    "diamonds": diamonds, "movielens": movielens, "tiny_shakespeare": tiny_shakespeare, "lm1b": lm1b,
}  # fmt: skip

ALL = [(name, config) for name in public_names() for config in public_configs(name)]
SAME_FORMAT = {("emnist", c) for c in ("bymerge", "balanced", "digits", "mnist")} | {
    ("movielens", f"{size}-{table}") for size in ("20m", "latest-small") for table in ("ratings", "movies")
}
EACH_FORMAT = [each for each in ALL if each not in SAME_FORMAT]


def write_files(name, config, folder):
    """The files of a dataset by key."""
    dataset = public_configs(name)[config]
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for key, data in MAKERS[name](config).items():
        if key in dataset.sources:
            found[key] = folder / dataset.sources[key].name
            found[key].write_bytes(data)
    assert set(found) == set(dataset.sources)
    return found


def with_sources(name, config, urls, **changes):
    """A dataset that is made of other files, by key: paths or URLs; `changes` may have their bytes."""
    dataset = copy(public_configs(name)[config])
    data = changes.get("data", {})
    dataset.sources = {
        key: SourceFile(
            str(url),
            hashlib.sha256(data[key]).hexdigest() if key in data else None,
            size=len(data[key]) if key in data else None,
            filename=dataset.sources[key].name,
        )
        for key, url in urls.items()
    }
    return dataset
