"""Forwards TCP connections on the container's loopback to a unix socket, for clients that speak TCP only.

Each direction is closed for itself, so that a client that ends its request early still gets its answer.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading

HOST = "127.0.0.1"
_READ = 64 * 1024


def listen(port: int) -> socket.socket:
    """A listening loopback socket; port 0 takes a free one."""
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((HOST, port))
    server.listen(128)
    return server


def serve(server: socket.socket, target: str) -> None:
    """Accept for ever; each connection gets one to the unix socket at `target`.

    Where the cell has no process left to give (its pids limit), a client sees its connection closed.
    """
    while True:
        client, _ = server.accept()
        try:
            threading.Thread(target=_join, args=(client, target), daemon=True).start()
        except RuntimeError:
            client.close()


def _join(client: socket.socket, target: str) -> None:
    upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with client, upstream:
        try:
            upstream.connect(target)
        except OSError:
            return  # the client sees a closed connection, as from any server that is gone
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_pump, args=(upstream, client), daemon=True)
        back.start()
        _pump(client, upstream)
        back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while content := source.recv(_READ):
            sink.sendall(content)
    except OSError:
        # One side broke: neither direction can go on.
        with contextlib.suppress(OSError):
            source.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


if __name__ == "__main__":  # forward.py PORT SOCKET
    serve(listen(int(sys.argv[1])), sys.argv[2])
