"""PostgreSQL and MariaDB on loopback, each in a folder of its own, as they are installed here."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

PATIENCE = 60.0


def free_port() -> int:
    """A port that is free just now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def program(*names: str) -> str | None:
    """Where one of these programs is, None if it is not installed."""
    folders = [*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/usr/local/sbin"]
    folders += [str(p) for p in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return next((p for name in names if (p := shutil.which(name, path=os.pathsep.join(folders)))), None)


def other_user() -> str | None:
    """The user for a server that does not run as root; None to keep the current one."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    return None


@dataclass
class Server:
    """A database server that can be killed and started again with what it holds."""

    folder: Path
    port: int
    uri: str
    command: list[str]
    user: str | None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _told: int = 0

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._told = log.tell()
            self.process = subprocess.Popen(
                self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, user=self.user, cwd=self.folder
            )
        wait(self._is_ready, self.folder / "log", self.process)

    def _is_ready(self) -> bool:
        said = (self.folder / "log").read_bytes()[self._told :]
        return b"ready to accept connections" in said or b"ready for connections" in said

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT if "postgres" in self.command[0] else signal.SIGKILL)
            self.process.wait(PATIENCE)
            self.process = None


def wait(ready: Callable[[], bool], log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        time.sleep(0.02)


def run(command: list[str], user: str | None, folder: Path) -> None:
    done = subprocess.run(command, user=user, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stdout[-1000:]}{done.stderr[-2000:]}")


@contextmanager
def place(user: str | None) -> Iterator[Path]:
    """A folder that belongs to the server's user, short enough for a socket's name."""
    folder = Path(tempfile.mkdtemp(prefix="hrdb"))
    if user is not None:
        shutil.chown(folder, user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[Server]:
    """PostgreSQL, to which the user `hr` comes with the password `sesame`."""
    initdb, postgres = program("initdb"), str(Path(program("initdb") or "").with_name("postgres"))
    assert initdb is not None, "PostgreSQL is not installed"
    user = other_user()
    with place(user) as folder:
        data, port = folder / "data", free_port()
        secret = folder / "secret"
        secret.write_text("sesame")
        secret.chmod(0o644)
        how = ["-A", "scram-sha-256", "-U", "hr", f"--pwfile={secret}", "--no-sync", "--locale=C", "--encoding=UTF8"]
        run([initdb, "-D", str(data), *how], user, folder)
        settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={folder}", "fsync=off"]
        command = [postgres, "-D", str(data), *(word for s in settings for word in ("-c", s))]
        yield from running(Server(folder, port, f"postgresql://hr:sesame@127.0.0.1:{port}/postgres", command, user))


@contextmanager
def mariadb() -> Iterator[Server]:
    """MariaDB, to which the user `hr` comes with the password `sesame`, with a database `test`."""
    install, server = program("mariadb-install-db"), program("mariadbd")
    assert install is not None and server is not None, "MariaDB is not installed"
    me = pwd.getpwuid(os.getuid()).pw_name
    with place(None) as folder:
        data, port = folder / "data", free_port()
        first = folder / "first.sql"
        first.write_text(
            "CREATE DATABASE IF NOT EXISTS test CHARACTER SET utf8mb4;\n"
            "CREATE USER IF NOT EXISTS hr@'127.0.0.1' IDENTIFIED BY 'sesame';\n"
            "GRANT ALL ON *.* TO hr@'127.0.0.1';\n"
        )
        how = ["--no-defaults", f"--datadir={data}", f"--user={me}"]
        run([install, *how, "--auth-root-authentication-method=normal", "--skip-test-db"], None, folder)
        here = [f"--socket={folder}/s", f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
        quick = ["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=128M", f"--init-file={first}"]
        command = [server, *how, *here, *quick]
        yield from running(Server(folder, port, f"mysql://hr:sesame@127.0.0.1:{port}/test", command, None))


def running(server: Server) -> Iterator[Server]:
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def halted(server: Server) -> Iterator[None]:
    """A server whose processes all stand still, as those of a machine do that is stuck."""
    assert server.process is not None
    head = psutil.Process(server.process.pid)
    processes = [head, *head.children(recursive=True)]
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a child of the server may end at any time
            process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
