"""Databases with real servers on loopback; skipped where they are not installed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import servers


@dataclass
class Database:
    """A database of whatever kind; `run` changes it, past headrace."""

    kind: str
    uri: str
    run: Callable[..., None]
    server: servers.Server | None = None

    def mark(self, number: int) -> str:
        """The placeholder of a parameter."""
        return {"postgresql": f"${number}", "mysql": "%s"}.get(self.kind, "?")

    def numbers(self, table: str, rows: int, key: str = "id") -> None:
        """A table of rows with a key, a number with a fraction and a text."""
        many = {
            "postgresql": f"generate_series(1, {rows}) AS g(i)",
            "mysql": f"(SELECT seq AS i FROM seq_1_to_{rows}) AS g",
            "duckdb": f"range(1, {rows + 1}) AS g(i)",
            "sqlite": f"(WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT {rows}) SELECT i FROM c)",
        }[self.kind]
        text = "concat('n', i)" if self.kind == "mysql" else "'n' || i"
        float64 = "double precision" if self.kind == "postgresql" else "double"
        half = "i * 0.5e0" if self.kind in ("mysql", "sqlite") else f"i * 0.5::{float64}"
        whole = "bigint" if self.kind != "sqlite" else "integer"
        kind = "varchar(20) UNIQUE" if self.kind == "mysql" else "text"
        self.run(f"DROP TABLE IF EXISTS {table}")
        self.run(f"CREATE TABLE {table} ({key} {whole} PRIMARY KEY, x {float64}, s {kind})")
        self.run(f"INSERT INTO {table} SELECT i, {half}, {text} FROM {many}")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[servers.Server]:
    pytest.importorskip("adbc_driver_postgresql", reason="adbc-driver-postgresql is not installed")
    if servers.program("initdb") is None:
        pytest.skip("PostgreSQL is not installed")
    with servers.postgres() as made:
        yield made


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[servers.Server]:
    pytest.importorskip("connectorx", reason="connectorx is not installed")
    pytest.importorskip("pymysql", reason="PyMySQL is not installed")
    if servers.program("mariadbd") is None or servers.program("mariadb-install-db") is None:
        pytest.skip("MariaDB is not installed")
    with servers.mariadb() as made:
        yield made


@pytest.fixture
def postgresql(postgres_server: servers.Server) -> Database:
    from adbc_driver_postgresql import dbapi

    def run(statement: str, params: Any = None) -> None:
        with dbapi.connect(postgres_server.uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(statement, params)

    return Database("postgresql", postgres_server.uri, run, postgres_server)


@pytest.fixture
def mysql(mariadb_server: servers.Server) -> Database:
    import pymysql

    def run(statement: str, params: Any = None) -> None:
        how = {"user": "hr", "password": "sesame", "database": "test", "autocommit": True}
        with pymysql.connect(host="127.0.0.1", port=mariadb_server.port, **how) as connection:
            connection.cursor().execute(statement, params)

    return Database("mysql", mariadb_server.uri, run, mariadb_server)


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    def run(statement: str, params: Any = ()) -> None:
        connection = sqlite3.connect(tmp_path / "data.db", timeout=0.2)
        with connection:
            connection.execute(statement, params)
        connection.close()

    return Database("sqlite", f"sqlite:///{tmp_path}/data.db", run)


@pytest.fixture
def duckdb(tmp_path: Path) -> Database:
    module = pytest.importorskip("duckdb", reason="duckdb is not installed")

    def run(statement: str, params: Any = None) -> None:
        with module.connect(str(tmp_path / "data.duckdb")) as connection:
            connection.execute(statement, params)

    return Database("duckdb", f"duckdb:///{tmp_path}/data.duckdb", run)


@pytest.fixture(params=["sqlite", "duckdb", "postgresql", "mysql"])
def database(request: pytest.FixtureRequest) -> Database:
    """Each kind of database in turn."""
    made: Database = request.getfixturevalue(request.param)
    return made
