"""How a log leaves the house and is read back: a folder that anybody can verify offline.

    checkpoint                       the covering checkpoint, a signed note
    checkpoints/<size>               every checkpoint that can be confirmed here, by its size in 16 digits
    entries/<first seq>.jsonl        up to 65,536 envelopes each, one raw envelope a line
    payloads/<first seq>.jsonl       the payloads of the same entries (`ledger.payloads`)
    tile/<level>/<number>            of a whole log: the hashes that proofs are made of (`ledger.tiles`)
    hashes                           of a part: 32 bytes each, for the entries left out (`ledger.parts`)
    keys                             the log's verifier key: information, never a pin
    manifest.json                    canonical JSON (`ledger.manifest`): the part, what was withheld, and
                                     size and SHA-256 of each file above but for the tiles
    manifest.sig                     a note over the manifest's SHA-256, signed by the log's key

The same part gives the same bytes. `python -m governance.bundle BUNDLE --key VKEY` verifies one with
nothing but the standard library and `cryptography`.
"""

from governance.bundle.choosing import (
    Choice,
    Withholding,
    choose_range,
    choose_rest,
    choose_run,
    choose_whole,
    newest_archive,
    parse_withholding,
)
from governance.bundle.joining import Joined, records_together, verify_together
from governance.bundle.reading import Bundle, read_bundle, read_kept, records, verify_bundle
from governance.bundle.writing import export, export_part
from governance.ledger.manifest import Manifest

__all__ = [
    "Bundle",
    "Choice",
    "Joined",
    "Manifest",
    "Withholding",
    "choose_range",
    "choose_rest",
    "choose_run",
    "choose_whole",
    "export",
    "export_part",
    "newest_archive",
    "parse_withholding",
    "read_bundle",
    "read_kept",
    "records",
    "records_together",
    "verify_bundle",
    "verify_together",
]
