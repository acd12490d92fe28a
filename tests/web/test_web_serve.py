"""The queue on a socket: says where it listens, names no server, stops when asked."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI

from governance.errors import UnavailableError
from governance.web import serve

PROGRAM = """
from fastapi import FastAPI
from governance.web.serve import serve
app = FastAPI()
app.add_api_route("/", lambda: "hello")
serve(app, "127.0.0.1", 0, lambda host, port: print(host, port, flush=True))
"""


def test_it_tells_its_address_and_names_no_server() -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=root
    ) as process:
        try:
            assert process.stdout
            host, port = process.stdout.readline().split()
            answer = httpx2.get(f"http://{host.decode()}:{port.decode()}/")
            assert (answer.status_code, answer.text) == (200, '"hello"')
            assert "server" not in answer.headers
        finally:
            os.kill(process.pid, signal.SIGTERM)
        rest, said = process.communicate(timeout=10)
        assert (rest, said) == (b"", b"")


def test_a_taken_port_is_an_error_with_a_next_step() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UnavailableError, match="choose another port"):
            serve(FastAPI(), "127.0.0.1", port, print)
