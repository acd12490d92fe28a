"""Where is the log anchored, and how often? A YAML file, read strictly.

    every: 1m            how often new entries are anchored
    overdue: 15m         an entry that waits longer for any of the sinks is a fault
    beat: 1h             a log in which nothing happens says so this often
    sinks:
      - {name: vault, file: /mnt/vault/anchors.jsonl}
      - {name: clock, stamp: "https://tsa.example/tsr", authority: tsa-root.pem}
      - {name: bank, witness: "https://witness.bank.example/", key: bank.example/w1+…}

Paths are taken from the folder that the file is in.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from governance.anchors.file import FileSink
from governance.anchors.sink import Sink
from governance.anchors.stamp import StampSink
from governance.anchors.witness import WitnessSink
from governance.config import read_text
from governance.errors import InvalidInputError, UnavailableError
from governance.ledger.authorities import read_authorities
from governance.ledger.cosignature import cosigner
from governance.policy.document import read_duration
from governance.policy.yaml_source import Node, need, read_yaml

__all__ = ["Settings", "read_settings"]

SINKS_MAX: Final = 32
EVERY_S: Final = 60
OVERDUE_S: Final = 900
BEAT_S: Final = 3600

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_URL: Final = re.compile(r"https?://[\x21-\x7e]{1,500}")
_KINDS: Final = ("file", "stamp", "witness")


@dataclass(frozen=True, slots=True)
class Settings:
    sinks: tuple[Sink, ...]
    every_s: int = EVERY_S
    overdue_s: int = OVERDUE_S
    beat_s: int = BEAT_S


def read_settings(path: Path, draw: Callable[[int], bytes]) -> Settings:
    """Read the file that says where the log is anchored.

    Raises InvalidInputError naming file and line, UnavailableError for a file that cannot be read.
    """
    node = read_yaml(read_text(path), str(path))
    fields = node.fields("anchors", ("every", "overdue", "beat", "sinks"))
    items = need(fields, "sinks", node, "anchors").items("`sinks`")
    if len(items) > SINKS_MAX:
        raise node.wrong(f"more than {SINKS_MAX} sinks")
    sinks = dict[str, Sink]()
    for item in items:
        sink = _sink(item, path.parent, draw)
        if sink.name in sinks:
            raise item.wrong(f"a second sink `{sink.name}`")
        sinks[sink.name] = sink
    times = {
        f"{name}_s": read_duration(fields[name])
        for name in ("every", "overdue", "beat")
        if name in fields
    }
    return Settings(tuple(sinks.values()), **times)


def _sink(node: Node, folder: Path, draw: Callable[[int], bytes]) -> Sink:
    fields = node.fields("sink", ("name", *_KINDS, "authority", "key"))
    name = need(fields, "name", node, "sink").text("name", _NAME, "use a-z, 0-9 and `-`")
    match sorted(fields.keys() - {"name"}):
        case ["file"]:
            return FileSink(name, folder / fields["file"].text("`file`"))
        case ["authority", "stamp"]:
            url, pem = _url(fields["stamp"]), _read(fields["authority"], folder)
            try:
                return StampSink(name, url, read_authorities(pem), draw)
            except InvalidInputError as exc:
                raise fields["authority"].wrong(exc.message, exc.hint) from exc
        case ["key", "witness"]:
            url, text = _url(fields["witness"]), fields["key"].text("`key`")
            try:
                return WitnessSink(name, url, cosigner(text))
            except InvalidInputError as exc:
                raise fields["key"].wrong(exc.message, exc.hint) from exc
        case _:
            raise node.wrong(
                f"sink `{name}` is of no kind",
                "give `file`, or `stamp` and `authority`, or `witness` and `key`",
            )


def _url(node: Node) -> str:
    return node.text("address", _URL, "write `https://…`")


def _read(node: Node, folder: Path) -> bytes:
    path = folder / node.text("`authority`")
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        raise node.wrong(f"no file `{path}`", "check the path") from exc
    except OSError as exc:
        raise UnavailableError(f"file `{path}` cannot be read ({exc.strerror})") from exc
