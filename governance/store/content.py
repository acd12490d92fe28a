"""How does content lie in the database? As one value, salt before content, encrypted if it is somebody's.

Nothing is compared here: `Record.content` compares a payload with its commitment.
"""

from collections.abc import Callable, Iterable
from typing import Final

from governance.canonical import SALT_BYTES
from governance.ledger.entry import Payload, Record
from governance.store.keyring import NOISE_BYTES, Keyring, SubjectKey
from governance.store.projection import PAYLOADS_MAX
from governance.store.rows import Row

__all__ = ["payload_rows", "to_payloads"]

_UNREADABLE: Final = bytes(SALT_BYTES) + b"null"
"""Stands for content that does not decrypt: altered, and so it fits no commitment."""


def payload_rows(record: Record, key: SubjectKey | None, draw: Callable[[int], bytes]) -> list[Row]:
    """Write the payloads of `record` as (place, name, key, content)."""
    rows: list[Row] = []
    for rank, name in enumerate(sorted(record.payloads)):
        place = record.entry.seq * PAYLOADS_MAX + rank
        plain = record.payloads[name].salt + record.payloads[name].content
        if key is None:
            rows.append((place, name, None, plain))
        else:
            rows.append((place, name, key.no, key.encrypt(place, name, plain, draw(NOISE_BYTES))))
    return rows


def to_payloads(rows: Iterable[Row], keyring: Keyring) -> dict[int, dict[str, Payload]]:
    """Read what `payload_rows` wrote, by the seq of its entry and by name.

    What lies under a key that is gone is not at hand.
    """
    found: dict[int, dict[str, Payload]] = {}
    for place, name, number, stored in rows:
        plain = stored
        if number is not None:
            key = keyring.key(number)
            if key is None:
                continue
            plain = key.decrypt(place, name, stored) or _UNREADABLE
        payload = Payload(name, plain[:SALT_BYTES], plain[SALT_BYTES:])
        found.setdefault(place // PAYLOADS_MAX, {})[name] = payload
    return found
