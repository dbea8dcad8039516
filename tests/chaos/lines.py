"""Lines to a server that are cut, or on which nothing moves for a while."""

import contextlib
import socket
import struct
import threading


class Line:
    """Passes bytes on between clients and a server, each way on a thread, until it is cut or halted."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._ends = set()
        self._lock = threading.Lock()
        self._moving = threading.Event()
        self._moving.set()
        self._threads = [threading.Thread(target=self._accept, name="line", daemon=True)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                here = self._listener.accept()[0]
            except OSError:
                return
            try:
                there = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # there is no server
                drop(here)
                continue
            with self._lock:
                self._ends |= {here, there}
            for ends in ((here, there), (there, here)):
                thread = threading.Thread(target=self._pass_on, args=ends, name="line", daemon=True)
                thread.start()
                self._threads.append(thread)

    def _pass_on(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 15):
                self._moving.wait()
                target.sendall(data)
        with self._lock:
            self._ends -= {source, target}
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def cut(self):
        """Have all connections break off, with what is on the way; how many there were."""
        with self._lock:
            ends, self._ends = list(self._ends), set()
        for end in ends:
            drop(end)
        self._moving.set()
        return len(ends) // 2

    def halt(self):
        """Have nothing move until `go_on`, or a cut."""
        self._moving.clear()

    def go_on(self):
        self._moving.set()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()


def drop(end):
    """End a connection such that the other side's next read fails."""
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.shutdown(socket.SHUT_RDWR)
    end.close()
