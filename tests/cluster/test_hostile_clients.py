"""A worker among clients that have no token, send nonsense, send nothing, or come with wrong certificates."""

import os
import pickle
import socket
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from pyarrow import flight

import headrace as hr
from headrace.cluster.requests import Poll, Release
from headrace.cluster.serve import stop_server
from headrace.cluster.server import start_server

D = hr.Dataset
TOKEN = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer right")])
WRONG = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer wrong")])
MESSAGE_BYTES = 64 << 20
IDLE, SLOW = 200, 40


@pytest.fixture
def server():
    made = start_server(token="right")
    yield made
    stop_server(made)


@pytest.fixture
def client(server):
    with flight.connect(f"grpc://127.0.0.1:{server.port}") as made:
        yield made


def serves(server):
    """Whether a trainer with the token is still served."""
    with hr.cluster.addresses([f"127.0.0.1:{server.port}"], token="right") as cluster:
        return list(D.range(20).map(lambda x: x + 1).distribute_over(cluster, splits=2)) == list(range(1, 21))


class Opened:
    """What makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def put(client, command, data, how=None):
    table = pa.record_batch([pa.array([data], pa.large_binary())], names=["data"])
    writer, _ = client.do_put(flight.FlightDescriptor.for_command(command), table.schema, how)
    with writer:
        writer.write_batch(table)


def exchange(client, command, how=None):
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command), how)
    with writer:
        writer.done_writing()
        return list(reader)


CALLS = {
    "put": lambda client, data, how: put(client, b"digest", data, how),
    "exchange": lambda client, data, how: exchange(client, data, how),
    "release": lambda client, data, how: list(client.do_action(flight.Action("release", data), how)),
    "status": lambda client, data, how: list(client.do_action(flight.Action("status", data), how)),
    "flights": lambda client, data, how: list(client.list_flights(data, how)),
    "actions": lambda client, data, how: list(client.list_actions(how)),
    "get": lambda client, data, how: client.do_get(flight.Ticket(data), how).read_all(),
}


@pytest.mark.parametrize("how", [None, WRONG], ids=["no token", "a wrong token"])
@pytest.mark.parametrize("kind", CALLS)
def test_without_the_token_nothing_is_read(kind, how, server, client, tmp_path):
    evil = pickle.dumps(Opened(tmp_path / "made"))
    with pytest.raises(flight.FlightUnauthenticatedError, match="token"):
        CALLS[kind](client, evil, how)
    assert not (tmp_path / "made").exists()
    assert server.work.status()["fragments"] == 0 and not server.work.status()["sessions"]


def test_a_large_message_without_the_token_is_refused(server, client):
    for kind in ("release", "exchange", "put"):
        with pytest.raises(flight.FlightUnauthenticatedError):
            CALLS[kind](client, b"\0" * MESSAGE_BYTES, None)
    assert server.work.status()["fragments"] == 0
    assert serves(server)


def requests():
    poll = pickle.dumps(Poll("session", [], None))
    return [b"", b"nonsense", poll[:-3], pickle.dumps("text"), pickle.dumps(Release("session"))[:10]]


@pytest.mark.parametrize("data", requests())
def test_messages_that_did_not_come_whole(data, server, client):
    with pytest.raises(pa.ArrowException, match="request"):
        exchange(client, data, TOKEN)
    with pytest.raises(pa.ArrowException, match="request"):
        list(client.do_action(flight.Action("release", data), TOKEN))
    put(client, b"of something else", data, TOKEN)
    put(client, b"\xff\xfe", data, TOKEN)
    assert server.work.status()["fragments"] == 0 and not server.work.status()["sessions"]
    assert serves(server)


def test_messages_that_come_again(server, client):
    for _ in range(3):
        assert not list(client.do_action(flight.Action("release", pickle.dumps(Release("unknown"))), TOKEN))
        assert exchange(client, pickle.dumps(Poll("unknown", [], None)), TOKEN) == []
    assert not server.work.status()["sessions"]
    with pytest.raises(pa.ArrowException, match="no action"):
        list(client.do_action(flight.Action("other", b""), TOKEN))
    assert serves(server)


GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
BEGINNINGS = [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", GREETING, GREETING + b"\xff" * 9, b"\0" * 100]


def test_idle_and_slow_connections_hold_up_no_trainer(server):
    with ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(IDLE)]
        for number, each in enumerate(idle):
            each.sendall(BEGINNINGS[number % len(BEGINNINGS)])
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(SLOW)]
        for byte in GREETING[:6]:
            for each in slow:
                each.sendall(bytes([byte]))
            assert serves(server)
    assert serves(server)


def certificate(folder, name, first_day, days):
    """A certificate for this machine that signs itself, valid from `first_day`, counted from today."""
    key, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    begin = datetime.now(UTC) + timedelta(days=first_day)
    made = (
        x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number(), begin, begin + timedelta(days=days)
        )
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    cert, secret = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(made.public_bytes(pem))
    secret.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return cert, secret


@pytest.mark.parametrize("kind", ["another", "expired"])
def test_a_certificate_that_does_not_hold(kind, tmp_path):
    good, _ = certificate(tmp_path, "good", -1, 3)
    cert, key = certificate(tmp_path, kind, *((-30, 1) if kind == "expired" else (-1, 3)))
    server = start_server(token="right", tls=(cert.read_bytes(), key.read_bytes()))
    try:
        trusted = cert if kind == "expired" else good
        with (
            hr.cluster.addresses(
                [f"localhost:{server.port}"], token="right", tls_root_cert=trusted, patience=1, timeout=1
            ) as cluster,
            pytest.raises(hr.WorkerError, match="no worker"),
        ):
            list(D.range(4).distribute_over(cluster, splits=2))
        assert not server.work.status()["fragments"]  # nor was the token sent
    finally:
        stop_server(server)
