"""`headrace port` on whole programs: what they compute afterwards is what they computed with TensorFlow."""

import textwrap

import numpy as np
import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace.cli.main import app
from headrace.cli.porting.rewrite import port_source
from tests.interop.ported_scripts import SCRIPTS

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

STAYS_TENSORFLOW = {"write and read": "tf.train."}
"""Programs that still use TensorFlow afterwards, and for what."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Files that the programs read."""
    home = tmp_path_factory.mktemp("home")
    (home / "rows.csv").write_text("size,count,name\n1.0,3,ann\n4.0,1,bob\n9.0,5,cem\n16.0,7,dan\n")
    (home / "poem.txt").write_text("To be or not\n\nto be THAT is\n")
    rows = hr.Dataset.range(6).map(lambda i: {"label": i % 3, "pixels": bytes([i, 2, 3, 4])}, mode="eager")
    rows.write_tfrecord(home / "rows", shards=2)
    rng = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (home / "images" / kind).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (5 + i, 7, 3), np.uint8)
            (home / "images" / kind / f"{i}.png").write_bytes(hr.image.encode_png(pixels))
    hr.Dataset.range(8).map(lambda i: {"x": i}).write_tfds(home / "tfds", "counted_rows", "1.0.0")
    return home


def program(name):
    return textwrap.dedent(SCRIPTS[name]).lstrip()


def run(code, home):
    names = {"home": str(home), "__name__": "__main__"}
    exec(compile(code, "<program>", "exec"), names)
    return plain(names["results"])


def plain(value):
    """Results as plain Python: text is bytes, numbers are rounded to what both libraries compute."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, str):
        return value.encode()
    return round(value, 5) if isinstance(value, float) else value


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_ported_program_computes_the_same(name, home):
    ported = port_source(program(name))
    assert ported.changed
    assert ported.marks == []
    assert run(ported.code, home) == run(program(name), home)
    assert port_source(ported.code).code == ported.code
    allowed = STAYS_TENSORFLOW.get(name)
    left = [line for line in ported.code.splitlines() if "tf." in line or "import tensorflow" in line]
    assert all(allowed and (allowed in line or "import tensorflow" in line) for line in left), left


def test_there_are_fifteen_programs():
    assert len(SCRIPTS) == 15


def test_what_has_no_equivalent_is_marked_once():
    source = "import tensorflow as tf\n\npolicy = tf.data.experimental.AutoShardPolicy.DATA\n"
    once = port_source(source)
    assert "# headrace port: hr.experimental has no AutoShardPolicy" in once.code
    assert "tf.data.experimental.AutoShardPolicy.DATA" in once.code
    assert port_source(once.code).code == once.code
    assert len(once.marks) == 1


def test_models_keep_tensorflow_and_get_datasets_by_adapter():
    source = (
        "import tensorflow as tf\n\n"
        "ds = tf.data.Dataset.range(4).batch(2)\n"
        "loss = tf.reduce_mean([1.0])\n"
        "model = tf.keras.Sequential()\n"
        "model.fit(ds, validation_data=ds.take(1), epochs=2)\n"
    )
    code = port_source(source).code
    assert "loss = tf.reduce_mean([1.0])" in code
    assert "model.fit(ds.to_keras(), validation_data=ds.take(1).to_keras(), epochs=2)" in code
    assert "import tensorflow as tf" in code


def test_a_program_without_tensorflow_stays_as_it_is():
    source = "import numpy as np\n\nx = np.array([1]).reshape(1)  # numpy()\n"
    assert port_source(source).code == source
    assert not port_source(source).changed


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("import tensorflow as tf\n\nds = tf.data.Dataset.range(3)\n")
    return path


def command(*arguments):
    return CliRunner().invoke(app, ["port", *map(str, arguments)])


def test_check_and_diff_write_nothing(script):
    before = script.read_text()
    shown = command("--diff", script)
    assert shown.exit_code == 0
    assert "+ds = hr.Dataset.range(3)" in shown.stdout
    assert command("--check", script).exit_code == 1
    assert script.read_text() == before


def test_the_command_rewrites_a_file_and_then_finds_nothing_more(script):
    assert command(script).exit_code == 0
    assert script.read_text() == "import headrace as hr\n\nds = hr.Dataset.range(3)\n"
    assert command("--check", script).exit_code == 0


def test_a_file_that_is_no_python_is_named(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("def (:\n")
    done = command(path)
    assert done.exit_code == 2
    assert "broken.py: not valid Python" in done.stderr
