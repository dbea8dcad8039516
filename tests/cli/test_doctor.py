"""`headrace doctor` for bug reports, and the self-test that is shipped with the package."""

import io
import json

import pytest
from typer.testing import CliRunner

import headrace as hr
from headrace import selftest
from headrace.cli.main import app


def doctor(*options):
    result = CliRunner().invoke(app, ["doctor", *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_doctor_reports_versions_extras_and_the_cpu():
    found = json.loads(doctor("--json"))
    assert found["headrace"]["version"] == hr.__version__
    assert set(found["requirements"]) == {"cloudpickle", "fsspec", "numpy", "pyarrow", "rich", "typer"}
    assert all(found["requirements"].values())
    assert "simplejpeg" in found["extras"]["image"]
    assert not {"wheels", "demo", "test"} & set(found["extras"]), "extras of developers"
    assert found["cpu"]["usable CPUs"] >= 1
    assert found["cache"]["writable"] in (True, False)


def test_doctor_names_the_extra_to_install(monkeypatch):
    from headrace.cli import doctor as module

    version = module._version
    monkeypatch.setattr(module, "_version", lambda name: None if name == "s3fs" else version(name))
    assert "s3: missing s3fs: pip install 'headrace[s3]'" in doctor()


def test_doctor_says_where_credentials_are_and_prints_none(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIASECRET")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    text = doctor()
    assert "s3: AWS_ACCESS_KEY_ID" in text
    assert "AKIASECRET" not in text
    assert "AKIASECRET" not in doctor("--json")


def test_the_self_test_passes():
    out = io.StringIO()
    assert selftest.run(out=out) == 0, out.getvalue()
    assert f"all {len(selftest.CHECKS)} checks passed" in out.getvalue()


def test_a_failed_check_is_reported_and_the_others_still_run():
    def broken(_folder):
        """Broken."""
        raise selftest.SelfTestError("wrong result")

    out = io.StringIO()
    assert selftest.run((broken, selftest.errors), out) == 1
    assert "FAILED  Broken" in out.getvalue()
    assert "wrong result" in out.getvalue()
    assert "ok      An error names its element" in out.getvalue()
    assert "1 of 2 checks failed" in out.getvalue()


@pytest.mark.parametrize("kernel", ["checksums", "records"])
def test_the_self_test_notices_a_wrong_checksum(monkeypatch, kernel):
    monkeypatch.setattr(selftest._native, "crc32c", lambda *_args, **_options: 1)
    monkeypatch.setattr(hr, "TFRecordDataset", lambda path: hr.Dataset.range(100).map(lambda _: b""))
    assert selftest.run((getattr(selftest, kernel),), io.StringIO()) == 1
