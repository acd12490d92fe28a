"""A throw-away time-stamping authority, made with openssl: a root, a signer, and answers to requests."""

import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

CONFIG = """
[req]
distinguished_name = dn
[dn]
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign
[tsa]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[web]
basicConstraints = CA:FALSE
extendedKeyUsage = critical,serverAuth
[soft]
basicConstraints = CA:FALSE
extendedKeyUsage = timeStamping
[odd]
basicConstraints = CA:FALSE
extendedKeyUsage = critical,timeStamping
1.2.3.4 = critical,ASN1:NULL
[tsa_config]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/{signer}.pem
signer_key = {folder}/{signer}.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_alg = {ess}
"""


SIGNERS = ("tsa", "web", "soft", "odd", "nested")


def openssl(*words: object, stdin: bytes = b"") -> bytes:
    done = subprocess.run(
        ["openssl", *map(str, words)], input=stdin, capture_output=True, check=False
    )
    if done.returncode:
        raise AssertionError(done.stderr.decode() + done.stdout.decode())
    return done.stdout


@dataclass(frozen=True)
class Tsa:
    """The authority in `folder`: `root.pem`, and one certificate for each way of being wrong."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, key: str = "ec", signers: tuple[str, ...] = SIGNERS) -> "Tsa":
        made = cls(folder)
        (folder / "serial").write_text("01\n")
        made.configure("tsa")
        made._key("root", key)
        made._sign("root", "ca", "root")
        for name in signers:
            made._key(name, key)
            if name == "nested":
                made._sign(name, "tsa", "tsa")  # signed by one that may not sign certificates
            else:
                made._sign(name, name, "root")
        return made

    @property
    def root(self) -> Path:
        return self.folder / "root.pem"

    def configure(self, signer: str, ess: str = "sha256") -> Path:
        path = self.folder / f"{signer}-{ess}.cnf"
        path.write_text(CONFIG.format(folder=self.folder, signer=signer, ess=ess))
        return path

    def reply(self, request: bytes, signer: str = "tsa", ess: str = "sha256") -> bytes:
        asked, answered = self.folder / f"{signer}.tsq", self.folder / f"{signer}.tsr"
        asked.write_bytes(request)
        openssl(
            "ts", "-reply", "-config", self.configure(signer, ess), "-section", "tsa_config",
            "-queryfile", asked, "-out", answered,
        )  # fmt: skip
        return answered.read_bytes()

    def verifies(self, stamp: bytes, data: bytes) -> bool:
        """What openssl says."""
        (self.folder / "stamp.tsr").write_bytes(stamp)
        (self.folder / "data").write_bytes(data)
        done = subprocess.run(
            ["openssl", "ts", "-verify", "-in", self.folder / "stamp.tsr", "-data",
             self.folder / "data", "-CAfile", self.root],
            capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode == 0

    @staticmethod
    def verifies_for(stamp: bytes, data: bytes, tsa: "Tsa") -> bool:
        return tsa.verifies(stamp, data)

    def _key(self, name: str, key: str) -> None:
        how = {
            "ec": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
            "rsa": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
        }[key]
        openssl("genpkey", *how, "-out", self.folder / f"{name}.key")

    def _sign(self, name: str, section: str, issuer: str) -> None:
        config = self.configure("tsa")
        request = openssl(
            "req", "-new", "-key", self.folder / f"{name}.key", "-subj", f"/CN={name}",
            "-config", config,
        )  # fmt: skip
        by = (
            ("-signkey", self.folder / f"{name}.key")
            if issuer == name
            else ("-CA", self.folder / f"{issuer}.pem", "-CAkey", self.folder / f"{issuer}.key",
                  "-CAcreateserial")
        )  # fmt: skip
        openssl(
            "x509", "-req", *by, "-days", "30", "-sha256", "-extfile", config,
            "-extensions", section, "-out", self.folder / f"{name}.pem", stdin=request,
        )  # fmt: skip

    @contextmanager
    def served(self, answer=None):
        """Serve it over HTTP; `answer` may put something else in place of its replies."""
        reply = answer or self.reply

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.headers["content-type"] == "application/timestamp-query"
                given = reply(body)
                self.send_response(200)
                self.send_header("content-type", "application/timestamp-reply")
                self.send_header("content-length", str(len(given)))
                self.end_headers()
                self.wfile.write(given)

            def log_message(self, *_args):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
