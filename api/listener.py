"""The socket that the service listens on, opened before its processes are spawned."""

from __future__ import annotations

import socket

from gangfit.api.files import RefusedError


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 picks a free one. Raises RefusedError, for example for a port in use."""
    try:
        family, _, _, _, bound = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(bound[:2], family=family, backlog=2048)
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # create_server repeats the address there
        raise RefusedError(f"can't listen on {host} port {port}: {reason}") from None


def address(listener: socket.socket) -> str:
    """The socket's address as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if listener.family == socket.AF_INET6 else f"http://{host}:{port}"
