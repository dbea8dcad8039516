"""No secret is shown: of generated URLs and options, in reprs, plans, states, errors, logs and names of files."""

import json
import logging
import re
import traceback

import fsspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import headrace as hr
from headrace.remote.redact import hide_secrets, show_name, show_path
from headrace.remote.transport import Transport
from headrace.sources.sql.uri import Uri

D = hr.Dataset
SECRET = "0pen5esame"
ODD = st.text("ab1@/?#:;&=%+._-~!$*,()[]| '\"\\<>ü", max_size=6)
PLAIN = st.text("abcdefg0123456789", min_size=1, max_size=6)
SCHEMES = ["http", "https", "s3", "gs", "abfs", "ftp", "hdfs", "postgresql", "mysql", "mysql+pymysql", "webhdfs"]
SECRET_NAMES = [
    "key", "secret", "token", "password", "passphrase", "account_key", "sas_token", "connection_string", "api-key",
    "Authorization", "headers", "credentials", "refresh_token", "client_secret", "cookie", "signature", "private_key",
]  # fmt: skip


@st.composite
def urls(draw):
    """A URL with the secret in its password, query, parameters or fragment, as people write them."""
    secret = draw(ODD) + SECRET + draw(ODD)
    quoted = re.sub(r"[&;#?\s]", "", secret)  # where these characters end the value
    url = f"{draw(st.sampled_from(SCHEMES))}://"
    where = draw(st.sampled_from(["password", "token as user", "query", "bare query", "parameter", "fragment"]))
    if where == "password":
        url += f"{draw(PLAIN)}:{secret}@"
    elif where == "token as user":
        url += f"{re.sub(r'[/?#;]', '', quoted)}@"
    url += draw(PLAIN) + draw(st.sampled_from(["", ".example.com"])) + "/" + draw(PLAIN)
    url += {
        "query": f"?{draw(PLAIN)}={draw(PLAIN)}&{draw(PLAIN)}={quoted}",
        "bare query": f"?{quoted.replace('=', '')}{draw(st.sampled_from(['', '=', '==']))}",
        "parameter": f";token={quoted.replace('/', '')}",
        "fragment": f"#access_token={secret}",
    }.get(where, "")
    return draw(st.sampled_from(["", "simplecache::", "zip://inner.csv::"])) + url


@given(urls())
@example(f"https://me:a@b/c?d{SECRET}@host/x")
@example(f"https://me:a::b://{SECRET}@host/x")
@example(f"https://me:1/{SECRET}@host/x")
@example(f"https://host/x?sig=a/b/{SECRET}")
@example(f"https://host/x?a=1;token={SECRET}")
def test_a_url(url):
    assert SECRET not in show_path(url)
    assert show_path(show_path(url)) == show_path(url)
    assert SECRET not in show_name(url) and "/" not in show_name(url)
    assert SECRET not in hide_secrets(f"cannot open {url}: 403", urls=[url])
    for part in {url, url.rpartition("@")[0], url.partition("?")[2], url.partition("#")[2]} - {""}:
        assert SECRET not in hide_secrets(f"the server said '{part}'", urls=[url])
    assert SECRET not in repr(hr.catalogue.SourceFile(url, mirrors=(url,), storage_options={"a": SECRET}))
    assert SECRET not in hr.catalogue.SourceFile(url).name
    assert SECRET not in str(Uri(url)) and SECRET not in repr(Uri(url))
    assert SECRET not in Uri(url).hide(f"cannot connect to {url}")


@given(urls())
def test_a_uri_that_python_cannot_split(url):
    with pytest.raises(Exception) as raised:
        D.from_sql(re.sub("^.*?://", "nonsense://", url), "SELECT 1")
    assert SECRET not in str(raised.value)
    try:
        _ = Uri(url).parts
    except ValueError as error:
        assert SECRET not in str(error) and error.__cause__ is None and error.__suppress_context__


nested = st.recursive(
    st.just(SECRET) | st.just(SECRET.encode()) | st.just(f"Bearer {SECRET}") | st.just(f"http://me:{SECRET}@proxy/"),
    lambda inner: st.lists(inner, min_size=1, max_size=2) | st.dictionaries(PLAIN, inner, min_size=1, max_size=2),
    max_leaves=3,
)


@given(st.sampled_from(SECRET_NAMES), nested, st.sampled_from(["", "s3", "https"]))
def test_options(name, value, protocol):
    options = {protocol: {name: value}} if protocol else {name: value}
    assert SECRET not in hide_secrets(f"SignatureDoesNotMatch: {SECRET} in {options}", options)
    assert SECRET not in repr(hr.Options(storage_options={"s3": options}))
    transport = Transport(hr.Options(storage_options={"s3": options}, retries=0))
    with pytest.raises(hr.TransportError) as raised:
        transport.attempt("s3://bucket/x", lambda: _raise(PermissionError(f"{SECRET} is not allowed")))
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(transport)


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Authorization: Basic bWU6c2VzYW1l", "Authorization: Basic …"),
        ("connect(password=sesame, user=me)", "connect(password=…, user=me)"),
        ("{'token': 'sesame', 'x': 1}", "{'token': '…', 'x': 1}"),
        ("unexpected token: , at 3", "unexpected token: , at 3"),
        ("Key (id)=(5) already exists", "Key (id)=(5) already exists"),
        ("no file /data/a?b#c;d", "no file /data/a?b#c;d"),
    ],
)
def test_what_libraries_say(said, shown):
    assert hide_secrets(said) == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a@b.txt", "s3://bucket/a@b.txt"),
        ("https://host:80/a/b.txt?versionId=3", "https://host:80/a/b.txt?versionId=3"),
        ("zip://a.csv::s3://bucket/b.zip", "zip://a.csv::s3://bucket/b.zip"),
        ("/data/me:you@x?y=z#1", "/data/me:you@x?y=z#1"),
        ("file:///data/a b", "file:///data/a b"),
    ],
)
def test_what_is_no_secret_stays(url, shown):
    assert show_path(url) == shown


URL = f"http://me:{SECRET}@127.0.0.1:9/data.csv;token={SECRET}?{SECRET}&sig={SECRET}#{SECRET}"
OPTIONS = {"client_kwargs": {"headers": {"Authorization": f"Bearer {SECRET}"}}}


@pytest.mark.parametrize(
    "make",
    [
        lambda: hr.TextLineDataset(URL, storage_options=OPTIONS),
        lambda: hr.TFRecordDataset([URL, URL], storage_options=OPTIONS, num_parallel_reads=2),
        lambda: hr.CsvDataset(URL, ["int64"], storage_options=OPTIONS),
        lambda: D.from_tensor_slices([1]).concatenate(hr.TextLineDataset(URL, storage_options=OPTIONS)),
    ],
    ids=["text", "in turn", "CSV", "after others"],
)
def test_a_pipeline(make, caplog):
    caplog.set_level(logging.DEBUG, "headrace")
    try:
        ds = make().with_options(hr.Options(retries=0, timeout=2, storage_options={"http": OPTIONS}))
    except (OSError, hr.HeadraceError) as error:
        assert SECRET not in str(error) + caplog.text
        return
    seen = [repr(ds), ds.explain(), repr(ds._node), str(ds._node)]
    it = iter(ds)
    seen.append(json.dumps(it.state(), default=repr))
    for _ in range(3):
        try:
            next(it)
        except StopIteration:
            break
        except Exception as error:
            seen += [str(error), repr(error), repr(error.__cause__), repr(error.__dict__)]
    seen += [repr(it.state()), ds.explain(), caplog.text]
    assert not [text for text in seen if SECRET in text]


@pytest.mark.parametrize("url", [f"zip://a.zip::https://u:{SECRET}@127.0.0.1:1/x", f"refused://k:{SECRET}@b/c"])
@pytest.mark.parametrize(
    "work",
    [
        lambda url: list(hr.TFRecordDataset([url])),
        lambda url: list(D.list_files(url)),
        lambda url: hr.io.read_file(url),
        lambda url: hr.io.gfile.GFile(url).read(),
        lambda url: hr.io.gfile.glob(url),
        lambda url: hr.io.gfile.copy(url, url + "2"),
        lambda url: hr.io.gfile.listdir(url),
        lambda url: hr.io.TFRecordWriter(url).close(),
        lambda url: hr.text.Vocabulary.from_file(url),
        lambda url: hr.image_dataset_from_directory(url),
        lambda url: D.range(2).map(lambda x: {"a": x}).write_tfrecord(url),
        lambda url: D.range(2).map(lambda x: {"a": x}).write_parquet(url),
        lambda url: hr.feature_column.categorical_column_with_vocabulary_file("a", url),
    ],
)
def test_errors_of_file_systems_and_their_causes(work, url):
    fsspec.register_implementation("refused", Refusing, clobber=True)
    with pytest.raises(Exception, match=r"127|refused|is no folder|no files match") as raised:
        work(url)
    assert SECRET not in "".join(traceback.format_exception(raised.value))


class Refusing(fsspec.AbstractFileSystem):
    """A file system whose errors show the whole path, as those of s3fs do."""

    protocol = "refused"
    cachable = False

    def _open(self, path, *_, **__):
        raise ValueError(f"refused: {path}") from KeyError(path)

    info = ls = glob = mv = exists = isdir = rm_file = cp_file = _open


def test_a_database_without_a_scheme():
    with pytest.raises(ValueError, match="begins with one of") as raised:
        D.from_sql(f"me:{SECRET}@host/db", "SELECT 1")
    assert SECRET not in str(raised.value)


def test_the_checksums_of_a_dataset_name_no_secret(tmp_path):
    class Points(hr.catalogue.DatasetBuilder):
        name, version = "points", "1.0.0"
        features = {"x": "int64"}  # noqa: RUF012
        sources = {  # noqa: RUF012
            "a": hr.catalogue.SourceFile(URL),
            "b": hr.catalogue.SourceFile(URL.replace("0pen", "1pen")),
        }

        def examples(self, part):
            yield {"x": 1}

    builder = Points()
    folder = builder.source_folder(tmp_path)
    folder.mkdir(parents=True)
    for source in builder.sources.values():
        (folder / source.name).write_bytes(b"x")
    sums, size = builder._fetch(tmp_path)
    assert len(sums) == 2 and size == 2 and SECRET not in str(sums)
