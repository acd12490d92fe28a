"""Signatures of others under a checkpoint, on every store: kept, undone with their work, never for another."""

import pytest
from heads import witness_key

from governance.errors import InvalidInputError
from governance.ids import Micros, SubjectId
from governance.ledger.checkpoint import note_text, open_note
from governance.ledger.cosignature import cosign, cosigner
from governance.ledger.entry import Draft, Kind

WITNESS = witness_key()
KEY = cosigner(WITNESS.verifier_key)


def test_a_line_is_kept_under_its_checkpoint_alone(store, draft) -> None:
    store.write(lambda tx: tx.append(draft(), Micros(1)))
    size, note = store.checkpoint()
    line = cosign(note_text(note), WITNESS, 7)
    store.write(lambda tx: tx.cosign(size, line))
    notes = dict(store.read(lambda reader: reader.checkpoints()))
    assert note_text(notes[size]) == note_text(note)
    assert open_note(notes[size], [KEY]) == (KEY.name,)
    assert [at for at, text in notes.items() if KEY.name in text] == [size]
    assert store.checkpoint() == (size, notes[size])
    # Again, later: one line of a witness, the newest.
    store.write(lambda tx: tx.cosign(size, cosign(note_text(note), WITNESS, 9)))
    (again,) = (text for at, text in store.read(lambda r: r.checkpoints()) if at == size)
    assert again.count(KEY.name) == 1


def test_what_is_under_no_checkpoint_is_refused(store, draft) -> None:
    size, note = store.checkpoint()
    line = cosign(note_text(note), WITNESS, 7)
    for at, given in ((size + 1, line), (size, "no signature\n"), (size, line.rstrip("\n"))):
        with pytest.raises(InvalidInputError):
            store.write(lambda tx, at=at, given=given: tx.cosign(at, given))
    assert dict(store.read(lambda reader: reader.checkpoints()))[size] == note


def test_a_work_that_raises_leaves_no_line(store) -> None:
    size, note = store.checkpoint()

    def work(tx):
        tx.cosign(size, cosign(note_text(note), WITNESS, 7))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.write(work)
    assert dict(store.read(lambda reader: reader.checkpoints()))[size] == note


def test_the_newest_anchor_of_a_sink_is_found_by_its_name(store, draft) -> None:
    def anchored(sink: str, size: int) -> Draft:
        return Draft(Kind.ANCHOR_RECORDED, SubjectId("system:t"), {"sink": sink, "size": size})

    for sink, size in (("a", 1), ("b", 2), ("a", 3)):
        drafted = anchored(sink, size)
        store.write(lambda tx, d=drafted: tx.append(d, Micros(1)))
    found = {
        sink: store.read(lambda r, sink=sink: r.latest((Kind.ANCHOR_RECORDED,), sink=sink))
        for sink in ("a", "b", "c")
    }
    assert found["a"].entry.body["size"] == 3
    assert found["b"].entry.body["size"] == 2
    assert found["c"] is None
