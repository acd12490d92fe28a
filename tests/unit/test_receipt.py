"""A receipt shows what the log says about one call, to somebody who has nothing but a key; and no more."""

import os

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.assemble import KeySigner
from governance.canonical import parse_json, payload_bytes
from governance.errors import InvalidInputError, TamperedError
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    parse_verifier_key,
    sign_checkpoint,
)
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    RunLink,
    genesis,
    leaf_hash,
    seal,
)
from governance.ledger.merkle import EMPTY_ROOT, inclusion_proof, over_leaves, root_of
from governance.ledger.receipt import ENTRIES_MAX, RECEIPT_BYTES_MAX, Proven, Receipt
from governance.ledger.receipt_check import verify_receipt
from governance.ledger.report import Flaw, Status
from governance.receipts import Disclosure, make_receipt
from governance.store.memory import MemoryStore

T0 = Micros(1_764_000_000_000_000)
ORIGIN = Origin("acme.example/agents")
RUN = RunId("run-1")
CALL = "run-1/1.0"
AGENT, ANN = SubjectId("agent:desk"), SubjectId("user:ann")
SIGNER = KeySigner.from_seed(ORIGIN, bytes(32))
KEY = parse_verifier_key(SIGNER.verifier_key)


def steps() -> list[Draft]:
    """A call that two people allowed, with another call around it."""

    def of_run(kind, actor=AGENT, payloads=None, **body):
        return Draft(kind, actor, body, payloads or {}, run=RUN)

    return [
        of_run(Kind.RUN_STARTED, agent=AGENT, payloads={"input": {"messages": ["secret"]}}),
        of_run(
            Kind.CALL_DECIDED,
            uid=CALL,
            effect="require_approval",
            payloads={"args": {"amount": 4000}, "input": {"now": 1}},
        ),
        of_run(Kind.CALL_DECIDED, uid="run-1/1.1", effect="allow", payloads={"args": {"n": 1}}),
        of_run(Kind.APPROVAL_REQUESTED, uid=CALL, request="apr-1", decision=2),
        of_run(Kind.APPROVAL_REQUESTED, uid="run-1/1.1", request="apr-2", decision=3),
        of_run(Kind.APPROVAL_VOTED, ANN, request="apr-1", payloads={"note": "fine by me"}),
        of_run(Kind.APPROVAL_VOTED, SubjectId("user:bob"), request="apr-1"),
        of_run(Kind.APPROVAL_GRANTED, request="apr-1", votes=[6, 7]),
        of_run(Kind.APPROVAL_USED, request="apr-1", uid=CALL),
        of_run(Kind.CALL_STARTED, uid=CALL, decision=2, request="apr-1"),
        of_run(Kind.CALL_FINISHED, uid=CALL, payloads={"result": {"content": "paid"}}),
    ]


MINE = (2, 4, 6, 7, 8, 9, 10, 11)


def filled(signer=SIGNER, more=3) -> MemoryStore:
    store = MemoryStore(signer.origin, signer, lambda: T0, os.urandom)
    for draft in steps():
        store.write(lambda tx, draft=draft: tx.append(draft, T0))
    for n in range(more):
        store.write(lambda tx, n=n: tx.append(Draft(Kind.LOG_BEAT, AGENT, {"n": n}), T0))
    store.checkpoint()
    return store


STORE = filled()


def make(about=CALL, store=STORE, key=KEY, **given) -> Receipt:
    return store.read(lambda reader: make_receipt(reader, about, key, Disclosure(**given)))


def flaws(raw: bytes, pins=(KEY,)) -> set[str]:
    return {found.kind for found in verify_receipt(raw, pins).report.findings if found.is_failure}


def holds(raw: bytes, pins=(KEY,)) -> bool:
    return verify_receipt(raw, pins).ok


GOOD = make().to_bytes()


def changed(change) -> bytes:
    """The good receipt after `change` to its JSON."""
    value = parse_json(GOOD)
    change(value)
    return payload_bytes(value) + b"\n"


def test_a_receipt_of_a_call_holds_all_about_it_and_nothing_else():
    checked = verify_receipt(GOOD, [KEY])
    assert checked.ok
    assert tuple(entry.seq for entry in checked.entries) == MINE
    assert checked.report.integrity is checked.report.trust is Status.OK
    assert checked.report.completeness is Status.NOT_CHECKED
    summary = checked.report.summary
    assert (summary.log, summary.checkpoint, summary.signers) == (ORIGIN, 15, (ORIGIN,))
    assert b"secret" not in GOOD
    assert b"paid" not in GOOD
    assert b"run-1/1.1" not in GOOD


def test_reading_and_writing_are_inverse():
    receipt = Receipt.from_bytes(GOOD)
    assert receipt == make()
    assert receipt.to_bytes() == GOOD


def test_a_receipt_of_one_entry_holds_it_alone():
    for seq in (0, 6, 14):
        raw = make(seq).to_bytes()
        checked = verify_receipt(raw, [KEY])
        assert checked.ok
        assert [entry.seq for entry in checked.entries] == [seq]
    assert make(6).payloads[0].payload.content == b'"fine by me"'


def test_a_receipt_of_the_only_entry_has_an_empty_path():
    store = MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom)
    receipt = make(0, store)
    assert receipt.entries[0].path == ()
    assert holds(receipt.to_bytes())


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["args", "input", "note"]),
        ({"only": frozenset({"args"})}, ["args"]),
        ({"only": frozenset({"result", "note"})}, ["note", "result"]),
        ({"never": frozenset({"args"})}, ["input", "note", "result"]),
    ],
)
def test_what_is_disclosed_is_chosen_by_name(given, names):
    receipt = make(**given)
    assert [item.payload.name for item in receipt.payloads] == names
    checked = verify_receipt(receipt.to_bytes(), [KEY])
    assert checked.ok
    withheld = [found for found in checked.report.findings if found.kind == Flaw.PAYLOAD_WITHHELD]
    assert len(withheld) == 4 - len(names)


def test_an_entry_s_receipt_discloses_its_result():
    assert [item.payload.name for item in make(11).payloads] == ["result"]


@pytest.mark.parametrize("given", [{"only": frozenset({"arg"})}, {"never": frozenset({"arg"})}])
def test_a_misspelt_name_withholds_nothing_in_silence(given):
    with pytest.raises(InvalidInputError, match="no entry here commits to payload `arg`") as caught:
        make(**given)
    assert caught.value.hint == "choose among: args, input, note, result"


def test_disclosing_and_withholding_at_once_is_refused():
    with pytest.raises(InvalidInputError, match="both named"):
        Disclosure(frozenset({"a"}), frozenset({"b"}))


@pytest.mark.parametrize(
    "about", [-1, 15, 10**17, "run-1/9.0", "run-9/1.0", "run-1", "", "/", "x" * 300]
)
def test_nothing_is_made_about_what_is_not_there(about):
    with pytest.raises(InvalidInputError, match=r"there is no entry|nothing is recorded"):
        make(about)


def test_an_entry_that_nothing_covers_has_no_receipt():
    store = filled()
    store.write(lambda tx: tx.append(Draft(Kind.LOG_BEAT, AGENT, {}), T0))
    with pytest.raises(InvalidInputError, match="no checkpoint covers entry `15` yet"):
        make(15, store)


def test_a_key_that_did_not_sign_makes_no_receipt():
    other = parse_verifier_key(KeySigner.from_seed(ORIGIN, b"\1" * 32).verifier_key)
    with pytest.raises(TamperedError, match="receipt would not hold"):
        make(key=other)


def test_without_a_pin_nobody_vouches():
    for pins, flaw in ((None, Flaw.UNPINNED), ([], Flaw.PINS_EMPTY)):
        checked = verify_receipt(GOOD, pins)
        assert not checked.ok
        assert checked.report.integrity is Status.OK
        assert flaw in checked.report.counts
    assert verify_receipt(GOOD, None).report.trust is Status.NOT_CHECKED


def test_another_log_s_key_does_not_vouch_for_it():
    other = parse_verifier_key(KeySigner.from_seed(Origin("other"), bytes(32)).verifier_key)
    assert not holds(GOOD, [other])
    assert holds(GOOD, [other, KEY])


def test_a_witness_alone_is_not_the_log_and_its_line_is_carried_along():
    private = Ed25519PrivateKey.from_private_bytes(b"\2" * 32)
    witness = VerifierKey(
        "witness.example", private.public_key().public_bytes_raw(), KeyType.COSIGNATURE
    )
    cosigned = changed(
        lambda value: value.update(checkpoint=cosign(value["checkpoint"], private, witness))
    )
    checked = verify_receipt(cosigned, [KEY, witness])
    assert checked.ok
    assert checked.report.summary.signers == (ORIGIN, "witness.example")
    assert holds(cosigned)
    assert not holds(cosigned, [witness])
    wrong = changed(
        lambda value: value.update(checkpoint=cosign(value["checkpoint"], private, witness, b"?"))
    )
    assert flaws(wrong, [KEY, witness]) == {Flaw.SIGNATURE_WRONG}


def cosign(note: str, private, key: VerifierKey, garble: bytes = b"") -> str:
    import base64

    text = note[: note.rfind("\n\n") + 1]
    stamp = (1_764_000_000).to_bytes(8, "big")
    signed = private.sign(b"cosignature/v1\ntime 1764000000\n" + text.encode() + garble)
    line = base64.b64encode(key.id + stamp + signed).decode()
    return f"{note}\N{EM DASH} {key.name} {line}\n"


def drop(name, at):
    return lambda value: value[name].pop(at)


@pytest.mark.parametrize("at", range(len(MINE)))
def test_a_dropped_entry_is_missed_where_another_names_it(at):
    def change(value):
        gone = MINE[at]
        del value["entries"][at]
        value["payloads"] = [item for item in value["payloads"] if item["seq"] != gone]
        renumber(value)

    checked = verify_receipt(changed(change), [KEY])
    named = MINE[at] in {2, 4, 6, 7}  # the decision, the request, two votes
    assert checked.ok is not named
    if MINE[at] in {2, 6, 7}:
        assert checked.report.completeness is Status.FAILED
        assert Flaw.ENTRY_MISSING in checked.report.counts
    elif named:  # whose request the votes answer is nowhere said
        assert Flaw.ENTRY_UNRELATED in checked.report.counts


def renumber(value) -> None:
    """Bring `hashes` into the order that the paths use them in."""
    old, order = value["hashes"], {}
    for item in value["entries"]:
        item["path"] = [order.setdefault(old[place], len(order)) for place in item["path"]]
    value["hashes"] = list(order)


def test_every_hash_and_every_step_of_a_path_counts():
    count = len(parse_json(GOOD)["hashes"])
    for at in range(count):
        for digit in (0, 31, 63):

            def flip(value, at=at, digit=digit):
                text = value["hashes"][at]
                other = "0" if text[digit] != "0" else "1"
                value["hashes"][at] = text[:digit] + other + text[digit + 1 :]

            assert flaws(changed(flip)) == {Flaw.PROOF_WRONG}
    for entry in range(len(MINE)):
        for mutate in path_mutations(count):

            def change(value, entry=entry, mutate=mutate):
                mutate(value["entries"][entry]["path"])
                renumber(value)

            assert flaws(changed(change)) == {Flaw.PROOF_WRONG}, entry


def path_mutations(count):
    yield lambda path: path.pop()
    yield lambda path: path.pop(0)
    yield lambda path: path.append(0)
    yield lambda path: path.insert(0, count - 1)
    yield lambda path: path.reverse()

    def swap(path):
        path[0], path[1] = path[1], path[0]

    yield swap


def test_entries_swapped_or_repeated_are_refused():
    def swap(value):
        value["entries"][0], value["entries"][1] = value["entries"][1], value["entries"][0]
        renumber(value)

    assert Flaw.ENTRY_MOVED in flaws(changed(swap))
    assert Flaw.ENTRY_MOVED in flaws(
        changed(lambda value: value["entries"].append(value["entries"][-1]))
    )

    def exchange(value):
        first, second = value["entries"][:2]
        first["path"], second["path"] = second["path"], first["path"]
        renumber(value)

    assert Flaw.PROOF_WRONG in flaws(changed(exchange))


def test_an_entry_about_another_call_has_no_place_in_it():
    stranger = parse_json(make(3).to_bytes())

    def smuggle(value):
        places = len(value["hashes"])
        item = stranger["entries"][0]
        value["hashes"] += stranger["hashes"]
        item = {"entry": item["entry"], "path": [places + place for place in item["path"]]}
        value["entries"].insert(1, item)
        renumber(value)

    assert flaws(changed(smuggle)) == {Flaw.ENTRY_UNRELATED}
    other = changed(lambda value: value.update(call="run-1/1.1"))
    assert Flaw.ENTRY_UNRELATED in flaws(other)
    assert Flaw.ENTRY_UNRELATED in flaws(changed(lambda value: value.update(call="")))


def test_only_the_rules_that_decided_belong_to_a_call():
    store = MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom)
    for name in ("a", "b"):
        text = {"text": {f"{name}.yaml": "rules"}}
        draft = Draft(Kind.POLICY_ACTIVATED, AGENT, {"policy": name}, text)
        store.write(lambda tx, draft=draft: tx.append(draft, T0))
    decided = Draft(Kind.CALL_DECIDED, AGENT, {"uid": CALL, "policy": "a"}, run=RUN)
    store.write(lambda tx: tx.append(decided, T0))
    store.checkpoint()
    good = store.read(lambda reader: make_receipt(reader, CALL, KEY, rules=True))
    assert [entry.seq for entry in verify_receipt(good.to_bytes(), [KEY]).entries] == [1, 3]
    assert [item.payload.name for item in good.payloads] == ["text"]
    assert holds(good.to_bytes())
    stranger = make(2, store).entries
    bad = Receipt(CALL, good.checkpoint, (good.entries[0], *stranger, good.entries[1]))
    assert flaws(bad.to_bytes()) == {Flaw.ENTRY_UNRELATED}
    assert [e.seq for e in verify_receipt(make(CALL, store).to_bytes(), [KEY]).entries] == [3]


def test_rules_are_found_however_far_back_they_were_put_in_force(monkeypatch):
    monkeypatch.setattr("governance.receipts._BATCH", 3)
    store = MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom)
    for body in ({"policy": "a"}, {"policy": "b"}, {"policy": "a"}):
        store.write(lambda tx, body=body: tx.append(Draft(Kind.POLICY_ACTIVATED, AGENT, body), T0))
    for _ in range(8):
        store.write(lambda tx: tx.append(Draft(Kind.LOG_BEAT, AGENT, {}), T0))
    for uid, policy in ((CALL, "b"), ("run-1/1.1", "a"), ("run-1/1.2", "none")):
        body = {"uid": uid, "policy": policy}
        draft = Draft(Kind.CALL_DECIDED, AGENT, body, run=RUN)
        store.write(lambda tx, draft=draft: tx.append(draft, T0))
    store.write(lambda tx: tx.append(Draft(Kind.POLICY_ACTIVATED, AGENT, {"policy": "a"}), T0))
    store.checkpoint()

    def seqs(uid):
        made = store.read(lambda reader: make_receipt(reader, uid, KEY, rules=True))
        return [entry.seq for entry in verify_receipt(made.to_bytes(), [KEY]).entries]

    assert seqs(CALL) == [2, 12]
    assert seqs("run-1/1.1") == [3, 13]
    with pytest.raises(TamperedError, match="no entry before decision 14 activates its rules"):
        seqs("run-1/1.2")


def test_content_is_what_was_committed_to():
    for at in range(3):
        for field, value in (("content", '"other"'), ("salt", "0" * 64)):
            bad = changed(
                lambda v, at=at, field=field, value=value: v["payloads"][at].update({field: value})
            )
            assert flaws(bad) == {Flaw.PAYLOAD_ALTERED}
        bad = changed(lambda v, at=at: v["payloads"][at].update(name="zz"))
        assert Flaw.PAYLOAD_UNEXPECTED in flaws(bad) or Flaw.RECEIPT_MALFORMED in flaws(bad)
        bad = changed(lambda v, at=at: v["payloads"][at].update(seq=at))
        assert flaws(bad) & {Flaw.PAYLOAD_UNEXPECTED, Flaw.RECEIPT_MALFORMED}


def test_a_checkpoint_of_another_tree_or_log_proves_nothing():
    small = sign_checkpoint(Checkpoint(ORIGIN, 14, EMPTY_ROOT), SIGNER)
    assert flaws(changed(lambda v: v.update(checkpoint=small))) == {Flaw.PROOF_WRONG}
    head = STORE.read(lambda reader: reader.head())
    for size in (0, 9, 17, 2**62):  # of another depth, or without some of the entries
        note = sign_checkpoint(Checkpoint(ORIGIN, size, head.root), SIGNER)
        assert Flaw.PROOF_WRONG in flaws(changed(lambda v, note=note: v.update(checkpoint=note))), (
            size
        )
    other = KeySigner.from_seed(Origin("other"), bytes(32))
    note = sign_checkpoint(Checkpoint(Origin("other"), head.size, head.root), other)
    pins = [parse_verifier_key(other.verifier_key)]
    assert flaws(changed(lambda v: v.update(checkpoint=note)), pins) == {Flaw.LOG_MIXED}
    assert Flaw.CHECKPOINT_MALFORMED in flaws(changed(lambda v: v.update(checkpoint="x")))


@pytest.mark.attack
def test_no_byte_of_a_receipt_can_be_another():
    raw = make(6).to_bytes()
    assert holds(raw)
    for at in range(len(raw)):
        for bit in (1, 32):
            flipped = raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :]
            assert not holds(flipped), (at, flipped[max(0, at - 20) : at + 20])
    for cut in (0, 1, len(raw) // 2, len(raw) - 1):
        assert flaws(raw[:cut]) == {Flaw.RECEIPT_MALFORMED}
    for extra in (b"\n", b" ", b"{}", b"\0"):
        assert flaws(raw + extra) == {Flaw.RECEIPT_MALFORMED}


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.pop("call"),
        lambda v: v.update(more=1),
        lambda v: v.update(format="governance/receipt/v2"),
        lambda v: v.update(format=None),
        lambda v: v.update(call=7),
        lambda v: v.update(call=None),
        lambda v: v.update(checkpoint=None),
        lambda v: v.update(entries=[]),
        lambda v: v.update(entries={}),
        lambda v: v.update(entries=v["entries"] * (ENTRIES_MAX // 8 + 1)),
        lambda v: v["entries"].append(None),
        lambda v: v["entries"][0].update(more=1),
        lambda v: v["entries"][0].update(entry=1),
        lambda v: v["entries"][0].update(path=[0, True]),
        lambda v: v["entries"][0].update(path=[-1]),
        lambda v: v["entries"][0].update(path=[10**6]),
        lambda v: v["entries"][0].update(path=[0.5]),
        lambda v: v["entries"][0].update(path=[0] * 65),
        lambda v: v["hashes"].append("0" * 64),
        lambda v: v["hashes"].append(v["hashes"][0]),
        lambda v: v.update(hashes=[h.upper() for h in v["hashes"]]),
        lambda v: v.update(hashes=[]),
        lambda v: v.update(payloads=v["payloads"][::-1]),
        lambda v: v.update(payloads=v["payloads"] * 2),
        lambda v: v["payloads"][0].update(seq="2"),
        lambda v: v["payloads"][0].update(salt="00"),
        lambda v: v["payloads"][0].pop("salt"),
    ],
)
def test_only_one_spelling_is_a_receipt(change):
    assert Flaw.RECEIPT_MALFORMED in flaws(changed(change))


def test_the_same_json_spelled_otherwise_is_no_receipt():
    for other in (
        GOOD.replace(b'{"call"', b'{ "call"', 1),
        GOOD.replace(b'"call"', b'"c\\u0061ll"', 1),
        GOOD.replace(b'{"call":"run-1/1.0"', b'{"call":"x","call":"run-1/1.0"', 1),
        GOOD.rstrip(),
        b"\xef\xbb\xbf" + GOOD,
    ):
        assert other != GOOD
        assert flaws(other) == {Flaw.RECEIPT_MALFORMED}


@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.binary(max_size=20))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_piece_of_a_receipt_can_be_another(at, length, other):
    raw = GOOD[:at] + other + GOOD[at + length :]
    assert holds(raw) is (raw == GOOD)


@pytest.mark.attack
@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 100_000,
        b'{"call":' * 10_000,
        b"1" * 100_000,
        b"NaN",
        b'"\\ud800"',
        b"\xff" * 10,
        b" " * (RECEIPT_BYTES_MAX + 1),
    ],
    ids=["brackets", "objects", "digits", "nan", "surrogate", "no utf-8", "huge"],
)
def test_hostile_json_is_a_finding(raw):
    assert flaws(raw) == {Flaw.RECEIPT_MALFORMED}


@pytest.mark.attack
def test_entries_that_a_log_should_never_have_signed_are_findings():
    """The log itself is hostile: what it signs may be anything that an entry can hold."""
    store = MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom)
    bodies = (
        {"uid": CALL, "request": ["a", {}], "votes": {"a": 1}, "decision": "2", "first": True},
        {"uid": ["x"]},
        {"uid": CALL, "request": None, "votes": [[], None, -4, "a"]},
        {"request": {"a": []}},
    )
    for body in bodies:
        store.write(
            lambda tx, body=body: tx.append(Draft(Kind.APPROVAL_VOTED, AGENT, body, run=RUN), T0)
        )
    store.checkpoint()
    parts = [make(seq, store) for seq in range(1, 5)]
    receipt = Receipt(CALL, parts[0].checkpoint, tuple(part.entries[0] for part in parts))
    assert flaws(receipt.to_bytes()) == {Flaw.ENTRY_UNRELATED, Flaw.ENTRY_MISSING}


def side_by_side(first, second) -> set[str]:
    """What a receipt of two entries, 1 and 2 of one signed tree, gives away."""
    leaves = [leaf_hash(b"0"), first.hash, second.hash]
    note = sign_checkpoint(Checkpoint(ORIGIN, 3, root_of(leaves)), SIGNER)
    entries = tuple(
        Proven(entry.raw, inclusion_proof(entry.seq, 3, over_leaves(leaves)))
        for entry in (first, second)
    )
    return flaws(Receipt(CALL, note, entries).to_bytes())


@pytest.mark.attack
def test_a_log_that_does_not_link_gives_itself_away():
    """The second entry does not follow from the first, and the log signed both."""
    first = filled().read(lambda r: r.records())[1].entry
    second = filled().read(lambda r: r.records())[2].entry
    assert {Flaw.LINK_BROKEN, Flaw.RUN_LINK_BROKEN} <= side_by_side(first, second)


def decided(seq, ts=5, rseq=None):
    draft = Draft(Kind.CALL_DECIDED, AGENT, {"uid": CALL}, run=RUN)
    link = Link(seq, genesis(ORIGIN), Micros(ts))
    return seal(draft, ORIGIN, link, RunLink(seq if rseq is None else rseq, RUN_START), {})


@pytest.mark.attack
def test_a_run_that_goes_back_gives_itself_away():
    for rseq in (0, 1):
        assert Flaw.RUN_LINK_BROKEN in side_by_side(decided(1), decided(2, rseq=rseq))
    assert Flaw.RUN_LINK_BROKEN not in side_by_side(decided(1), decided(2, rseq=3))


@pytest.mark.attack
def test_time_that_goes_back_gives_itself_away():
    assert Flaw.TIME_REVERSED in side_by_side(decided(1), decided(2, ts=4))
    assert Flaw.TIME_REVERSED not in side_by_side(decided(1), decided(2))


@pytest.mark.attack
def test_an_entry_of_another_run_that_names_the_call_is_not_about_it():
    store = MemoryStore(ORIGIN, SIGNER, lambda: T0, os.urandom)
    for run in ("run-1", "run-2"):
        draft = Draft(Kind.CALL_DECIDED, AGENT, {"uid": CALL}, run=RunId(run))
        store.write(lambda tx, draft=draft: tx.append(draft, T0))
    store.checkpoint()
    assert [entry.seq for entry in verify_receipt(make(CALL, store).to_bytes(), [KEY]).entries] == [
        1
    ]
    parts = [make(seq, store) for seq in (1, 2)]
    both = Receipt(CALL, parts[0].checkpoint, tuple(part.entries[0] for part in parts))
    assert flaws(both.to_bytes()) == {Flaw.ENTRY_UNRELATED}


@pytest.mark.attack
def test_an_inner_node_cannot_pass_for_an_entry():
    value = parse_json(GOOD)
    left, right = (bytes.fromhex(value["hashes"][place]) for place in (0, 1))
    assert leaf_hash(left + right) != Digest(left)
    bad = changed(lambda v: v["entries"][0].update(entry=(left + right).hex()))
    assert Flaw.ENTRY_MALFORMED in flaws(bad)


def test_a_receipt_is_a_small_file():
    store = filled(more=3_000)
    raw = make(store=store, never=frozenset({"result"})).to_bytes()
    assert len(raw) < 8_000
    assert holds(raw)
