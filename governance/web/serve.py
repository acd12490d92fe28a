"""How is the queue put on a socket? uvicorn, quiet, and on this machine only unless told otherwise."""

import socket
from collections.abc import Callable
from typing import Final

import uvicorn
from fastapi import FastAPI

from governance.errors import UnavailableError

__all__ = ["quiet_server", "serve"]

CONNECTIONS_MAX: Final = 256
GRACE_S: Final = 10


def serve(app: FastAPI, host: str, port: int, ready: Callable[[str, int], None]) -> None:
    """Serve `app` until SIGINT or SIGTERM. `ready` gets the address once connections are taken: with
    port 0 nobody knows it before.

    Raises UnavailableError when the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family)
    except OSError as exc:
        raise UnavailableError(
            f"cannot listen on `{host}:{port}`: {exc.strerror or exc}",
            hint="choose another port, or 0 for any free one",
        ) from exc
    with listener:
        ready(*listener.getsockname()[:2])
        quiet_server(app).run(sockets=[listener])


def quiet_server(app: FastAPI) -> uvicorn.Server:
    """Make a server that names no version and believes no proxy header: who asks, the socket says."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            limit_concurrency=CONNECTIONS_MAX,
            timeout_graceful_shutdown=GRACE_S,
        )
    )
