"""Partitions of Spark."""

import shutil
import sys

import numpy as np
import pytest

import headrace as hr

D = hr.Dataset


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    how = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    builder = sql.SparkSession.builder.master("local[1]")
    for name, value in how.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr("warnings.showwarning", lambda *a, **k: None)
        quiet.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.getOrCreate()
        yield session
        session.stop()


def frame(spark, parts=2):
    return spark.range(0, 30, 1, parts).selectExpr(
        "id AS x",
        "concat('n', id) AS s",
        "transform(sequence(0, cast(id % 3 AS int)), i -> i * 2) AS a",
        "if(id = 4, NULL, id / 2) AS f",
        "if(id = 5, NULL, cast(id AS int)) AS missing",
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_spark_frame_is_read_by_partitions(spark):
    ds = D.from_spark(frame(spark), nulls={"missing": -1})
    rows = list(ds)
    assert [int(row["x"]) for row in rows] == list(range(30))
    assert rows[7]["s"] == "n7" and rows[7]["a"].tolist() == [0, 2] and rows[7]["f"] == 3.5
    assert np.isnan(rows[4]["f"]) and rows[5]["missing"] == -1
    with ds.iterator() as it:
        for _ in range(20):
            next(it)
        state = it.state()
    assert [int(row["x"]) for row in ds.iterator(state)] == list(range(20, 30))
    with pytest.raises(hr.StateError):
        list(D.from_spark(frame(spark, 4), nulls={"missing": -1}).iterator(state))
    with pytest.raises(hr.ElementError, match="nulls="):
        list(D.from_spark(frame(spark).where("x = 5")))
    with pytest.raises(TypeError, match=r"pyspark\.sql\.DataFrame"):
        D.from_spark([1])
