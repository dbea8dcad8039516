"""The process of a worker: listen until a stop request, or until the parent is gone."""

from __future__ import annotations

import os
import signal
import sys
import threading
from importlib import import_module

from headrace import _native
from headrace.cluster.requests import PackedFragment, Poll, Release, Setting, SplitOpening, SplitWant
from headrace.cluster.server import WorkerService, start_server
from headrace.cluster.splits import Cut, Fragment
from headrace.core.keys import ROOT
from headrace.core.types import LibraryObject
from headrace.indexed.range import Range
from headrace.options import Options
from headrace.plan.marks import START

SHUTDOWN_SECONDS = 5.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Addresses that only this machine can reach."""
SWITCH_SECONDS = 0.01
"""The GIL switch interval of a worker.

The shorter, the sooner rows go out; but each switch costs some fifty microseconds if CPUs are idle, and every split has
a thread.
"""
RULES = "headrace.optimize.rules"
"""The module whose `prepare` trainers mostly request; rules and clusters do not import each other."""


def serve_child(said: int, lifeline: int, cpus: int) -> None:
    """Run a process of a local cluster: report its port, and end with its parent."""
    _native.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that the user started
    sys.setswitchinterval(SWITCH_SECONDS)
    token = os.environ.pop("HEADRACE_TOKEN")
    server = start_server(token=token, cpus=cpus)
    warm_up(server.work)
    os.write(said, str(server.port).encode())
    os.read(lifeline, 1)  # which gives nothing until its other end is closed
    stop_server(server)
    os._exit(0)


def warm_up(work: WorkerService) -> None:
    """Run something small: the first pass need not wait for what is imported when it is first used."""
    fragment = PackedFragment.of(Fragment(Range(0, 1), Cut(Range(0, 1), "whole"), 1))
    prepare = import_module(RULES).prepare
    setting = Setting(fragment.digest, fragment.key, "distributed_epoch", ROOT, 0, False, Options(), prepare, None)
    work.add_fragment(fragment.digest, fragment.data)
    list(work.poll(Poll("warm", [SplitWant(0, 0, 1, SplitOpening(START, 0, {}))], setting, wait=1.0)))
    work.release(Release("warm"))


def stop_server(server: LibraryObject) -> None:
    """End it, whatever it is at."""
    server.work.close()
    ending = threading.Thread(target=server.shutdown, daemon=True)
    ending.start()
    ending.join(SHUTDOWN_SECONDS)  # an answer in progress would meet the end of the interpreter
