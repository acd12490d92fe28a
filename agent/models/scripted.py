"""How a scripted model is started and stopped: beside a test, or until somebody interrupts it."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from agent.models.script import Script, load_script
from governance.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from agent.models.scripted_app import Server

__all__ = ["ScriptedModelServer", "serve_script"]

LOOPBACK: Final = "127.0.0.1"
START_S_MAX: Final = 30
STOP_S_MAX: Final = 10
PORT_MAX: Final = 65_535


class ScriptedModelServer:
    """A scripted model on a free port of this machine, for as long as a `with` block lasts.

    `requests` holds every request received, parsed, in order.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[Any] = []
        self._script = script
        self._base_url = ""
        self._server: Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def base_url(self) -> str:
        """Where it listens: `http://127.0.0.1:<port>/v1`."""
        return self._base_url

    def __enter__(self) -> Self:
        from agent.models.scripted_app import Server, create_app

        listener = _listen(LOOPBACK, 0)
        self._base_url = _url_of(listener)
        started = threading.Event()
        self._server = Server(create_app(self._script, self.requests), started.set)
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="scripted-model", daemon=True
        )
        self._thread.start()
        if not started.wait(START_S_MAX):
            listener.close()
            raise UnavailableError(f"scripted model at `{self._base_url}` did not start")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_S_MAX)


def serve_script(
    path: Path, *, host: str = LOOPBACK, port: int = 0, ready: Callable[[str], None]
) -> None:
    """Play the script at `path` until interrupted. `ready` is told the address once it is open.

    Raises InvalidInputError for a script that cannot be read, UnavailableError where the host and port
    are not to be had.
    """
    from agent.models.scripted_app import Server, create_app

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidInputError(
            f"script `{path}` cannot be read", hint="give the path of a YAML file in UTF-8"
        ) from exc
    script = load_script(text)
    listener = _listen(host, port)
    url = _url_of(listener)
    server = Server(create_app(script, []), lambda: ready(url))
    with contextlib.suppress(KeyboardInterrupt):  # uvicorn has closed everything by then
        server.run([listener])


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= PORT_MAX:
        raise InvalidInputError(f"`{port}` is no port", hint=f"give one from 0 to {PORT_MAX}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as exc:
        raise UnavailableError(
            f"cannot listen at `{host}` port `{port}`", hint="choose another host or port"
        ) from exc


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
