"""Witnesses on real sockets, for the length of a test."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

from governance.assemble import KeySigner, now
from governance.ids import Origin
from governance.ledger.checkpoint import KeyType, VerifierKey, parse_verifier_key
from governance.ledger.cosignature import cosigner
from governance.web.serve import quiet_server
from governance.witness.app import Witness, create_witness_app
from governance.witness.book import Book


@contextmanager
def on_socket(app):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = quiet_server(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


@dataclass(frozen=True)
class Running:
    url: str
    book: Book
    signer: KeySigner

    @property
    def key(self) -> VerifierKey:
        return cosigner(self.signer.verifier_key)


@contextmanager
def running(folder, name, *logs: str, clock=now, seed=7):
    """A witness called `name` of the logs with these verifier keys."""
    folder.mkdir(parents=True, exist_ok=True)
    book = Book.create(folder / "book.db")
    for key in logs:
        book.add_log(parse_verifier_key(key))
    signer = KeySigner.from_seed(Origin(name), bytes([seed]) * 32, KeyType.COSIGNATURE)
    with on_socket(create_witness_app(Witness(book, signer, clock))) as url:
        yield Running(url, book, signer)
