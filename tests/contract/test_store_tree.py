"""The tree over the log, on every store: any node of it, and proofs that are checked before they leave."""

import hashlib
import os
import sqlite3

import pytest

from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest, Micros
from governance.ledger.checkpoint import format_checkpoint, note_text, parse_checkpoint
from governance.ledger.merkle import (
    Node,
    consistency_proof,
    inclusion_proof,
    over_leaves,
    proves_consistency,
    proves_inclusion,
    root_of,
)
from governance.proofs import consistency, inclusion, signed_head
from governance.store.sqlite import SqliteStore

T0 = Micros(1_764_000_000_000_000)


def fill(store, draft, count: int) -> None:
    store.write(lambda tx: [tx.append(draft(run=None, n=n), T0) for n in range(count)])


def leaves_of(store) -> list[Digest]:
    return [record.entry.hash for record in store.read(lambda reader: reader.records())]


def nodes_within(size: int) -> list[Node]:
    return [
        Node(level, place)
        for level in range(size.bit_length())
        for place in range(size >> level)
        if level or place % 97 == 0 or place > size - 3
    ]


def test_every_node_is_what_its_leaves_make_it(store, draft) -> None:
    fill(store, draft, 600)
    wanted = nodes_within(601)
    assert Node(9, 0) in wanted
    expected = over_leaves(leaves_of(store))(wanted)
    assert list(store.read(lambda reader: reader.tree.nodes(wanted))) == list(expected)


@pytest.mark.parametrize("node", [Node(0, 3), Node(1, 1), Node(8, 0), Node(0, -1), Node(-1, 0)])
def test_no_node_reaches_past_the_head(store, draft, node) -> None:
    fill(store, draft, 2)
    with pytest.raises(InvalidInputError, match="no node"):
        store.read(lambda reader: reader.tree.nodes([node]))


def test_a_transaction_sees_the_tree_it_is_making(store, draft) -> None:
    """Tiles that were read back in the middle of a work are written once."""

    def work(tx):
        for n in range(600):
            tx.append(draft(run=None, n=n), T0)
            if n % 100 == 0:
                tx.tree.nodes([Node(0, n)])
        return list(tx.tree.nodes([Node(8, 0), Node(8, 1), Node(6, 8)]))

    found = store.write(work)
    assert found == list(over_leaves(leaves_of(store))([Node(8, 0), Node(8, 1), Node(6, 8)]))


def test_a_work_that_raises_leaves_no_tile(store, draft) -> None:
    fill(store, draft, 200)

    def half(tx) -> None:
        for n in range(100):
            tx.append(draft(run=None, n=-n), T0)
        tx.tree.nodes([Node(8, 0)])
        raise KeyError("mine")

    with pytest.raises(KeyError):
        store.write(half)
    fill(store, draft, 100)
    expected = root_of(leaves_of(store)[:256])
    assert list(store.read(lambda reader: reader.tree.nodes([Node(8, 0)]))) == [expected]


def test_two_writers_of_one_file_keep_one_tree(create, draft, tmp_path, signer) -> None:
    first = create(path=tmp_path / "shared.db")
    second = SqliteStore.open(
        tmp_path / "shared.db", origin=first.origin, signer=signer, salts=os.urandom
    )
    try:
        for turn in range(60):
            fill((first, second)[turn % 2], draft, 10)
        wanted = [Node(8, 0), Node(8, 1), Node(9, 0), Node(6, 8)]
        expected = list(over_leaves(leaves_of(first))(wanted))
        for store in (first, second):
            assert list(store.read(lambda reader: reader.tree.nodes(wanted))) == expected
    finally:
        second.close()


def test_proofs_are_for_what_was_signed(store, draft) -> None:
    sizes = [1]
    for count in (6, 249, 1, 300):
        fill(store, draft, count)
        sizes.append(store.checkpoint()[0])
    assert sizes == [1, 7, 256, 257, 557]
    leaves = leaves_of(store)
    for new in sizes:
        root = store.read(lambda reader, new=new: signed_head(reader, new)).root
        assert root == root_of(leaves[:new])
        for old in [0, *(size for size in sizes if size <= new)]:
            proof = store.read(lambda reader, old=old, new=new: consistency(reader, old, new))
            assert proof == consistency_proof(old, new, over_leaves(leaves[:new]))
            assert proves_consistency(old, new, proof, root_of(leaves[:old]), root)
        for seq in {0, 1, new // 2, new - 2, new - 1} & set(range(new)):
            proof = store.read(lambda reader, seq=seq, new=new: inclusion(reader, seq, new))
            assert proof == inclusion_proof(seq, new, over_leaves(leaves[:new]))
            assert proves_inclusion(leaves[seq], seq, new, proof, root)


def test_no_proof_for_a_size_that_nobody_signed(store, draft) -> None:
    fill(store, draft, 5)
    store.checkpoint()
    with pytest.raises(InvalidInputError, match="no checkpoint covers exactly `5` entries"):
        store.read(lambda reader: inclusion(reader, 0, 5))
    with pytest.raises(InvalidInputError, match="no checkpoint covers exactly `3` entries"):
        store.read(lambda reader: consistency(reader, 3, 6))
    with pytest.raises(InvalidInputError, match="no entry `6`"):
        store.read(lambda reader: inclusion(reader, 6, 6))
    with pytest.raises(InvalidInputError, match="does not contain one of `6`"):
        store.read(lambda reader: consistency(reader, 6, 1))


@pytest.fixture
def altered(create, draft, tmp_path):
    """A log of 700 entries signed at 301 and 700, after somebody wrote into its database."""

    def alter(statement: str, *values: object) -> SqliteStore:
        path = tmp_path / "altered.db"
        store = create(path=path)
        for count in (300, 399):
            fill(store, draft, count)
            store.checkpoint()
        with sqlite3.connect(path) as raw:
            assert raw.execute(statement, values).rowcount > 0
        raw.close()
        return store

    return alter


@pytest.mark.attack
@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        ("UPDATE entry SET raw = cast(raw || ' ' AS BLOB) WHERE seq = 600", 600),
        ("UPDATE entry SET raw = cast(raw || ' ' AS BLOB) WHERE seq = 601", 600),
        ("UPDATE entry SET raw = (SELECT raw FROM entry WHERE seq = 3) WHERE seq = 600", 600),
        ("DELETE FROM entry WHERE seq = 699", 600),
        ("DELETE FROM entry WHERE seq = 601", 600),
        ("UPDATE node SET hash = zeroblob(32) WHERE place = 1", 3),
        ("UPDATE node SET hash = zeroblob(31) WHERE place = 1", 3),
        ("UPDATE node SET place = 7 WHERE place = 1", 3),
        ("DELETE FROM node", 3),
        ("UPDATE checkpoint SET note = 'garbage' WHERE size = 700", 3),
        ("UPDATE checkpoint SET size = 699 WHERE size = 700", 3),
        ("UPDATE head SET size = 500", 3),
    ],
)
def test_an_altered_database_gives_no_proof(altered, statement, seq) -> None:
    store = altered(statement)
    size = 699 if "size = 699" in statement else 700
    with pytest.raises(TamperedError):
        store.read(lambda reader: inclusion(reader, seq, size))


@pytest.mark.attack
def test_a_forged_root_in_the_database_gives_no_proof(create, draft, tmp_path) -> None:
    store = create(path=tmp_path / "forged.db")
    fill(store, draft, 300)
    size, note = store.checkpoint()
    text = note_text(note)
    head = parse_checkpoint(text)
    other = format_checkpoint(
        type(head)(head.origin, head.size, Digest(hashlib.sha256(b"").digest()))
    )
    with sqlite3.connect(tmp_path / "forged.db") as raw:
        raw.execute(
            "UPDATE checkpoint SET note = ? WHERE size = ?", (note.replace(text, other), size)
        )
    raw.close()
    for prove in (lambda r: inclusion(r, 5, size), lambda r: consistency(r, 1, size)):
        with pytest.raises(TamperedError, match="do not have the root that was signed at 301"):
            store.read(prove)
