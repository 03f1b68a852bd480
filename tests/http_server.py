"""HTTP servers that tests talk to, each in a thread of the test's own process."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class HttpServer(ThreadingHTTPServer):
    """Serves until `stop`, which wakes it: `serve_forever` would look at its flag again after a while only."""

    daemon_threads = True
    is_over = False

    def serve(self) -> None:
        while not self.is_over:
            self.handle_request()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        return not self.is_over

    def stop(self) -> None:
        self.is_over = True
        socket.create_connection((str(self.server_address[0]), self.server_port)).close()


@contextmanager
def serve_http(
    handler: type[BaseHTTPRequestHandler], *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> Iterator[HttpServer]:
    """A server at a free port, or at `port`; whom it still answers when the block ends is let go."""
    with HttpServer((host, port), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join()
