"""The verifier never raises, the fast screen never says yes where `read_entry` says no, lines are whole."""

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.canonical import entry_bytes, payload_bytes
from governance.errors import InvalidInputError
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.ledger.chain import Chain
from governance.ledger.checkpoint import note_text, parse_checkpoint, parse_verifier_key
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    RunLink,
    genesis,
    leaf_hash,
    read_entry,
    seal,
)
from governance.ledger.lines import cut_lines
from governance.ledger.merkle import (
    Edge,
    consistency_proof,
    inclusion_proof,
    over_leaves,
    proves_consistency,
    proves_inclusion,
    root_of,
)
from governance.ledger.payloads import read_payload_line
from governance.ledger.screen import Screen, is_plain_json
from governance.ledger.verify import verify

ORIGIN = Origin("acme.example/agents")
GOOD = settings(derandomize=True, max_examples=150, deadline=None)


def first_entries() -> list[bytes]:
    created = seal(
        Draft(Kind.LOG_CREATED, SubjectId("system:log"), {"keys": []}),
        ORIGIN,
        Link(0, genesis(ORIGIN), Micros(10)),
        None,
        {},
    )
    started = seal(
        Draft(
            Kind.RUN_STARTED,
            SubjectId("agent:a"),
            {"limits": {"parallel": True, "list": [1, None]}},
            run=RunId("run-1"),
            on_behalf_of=SubjectId("user:b"),
        ),
        ORIGIN,
        Link(1, created.hash, Micros(10)),
        RunLink(0, RUN_START),
        {"input": leaf_hash(b"x")},
    )
    return [created.raw, started.raw]


CREATED, STARTED = first_entries()
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["0" * 64, "user:b", "run-1", ORIGIN, "run.started", "log.created"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)
NAMES = st.sampled_from([*orjson.loads(STARTED), "extra"]) | st.text(max_size=4)


def after_created() -> Chain:
    chain = Chain()
    chain.follow(orjson.loads(CREATED), leaf_hash(CREATED))
    return chain


def accepted_fast(raw: bytes) -> bool:
    fields = Screen()(raw)
    return fields is not None and after_created().fits(fields, leaf_hash(raw))


def accepted_fully(raw: bytes) -> bool:
    try:
        read_entry(raw)
    except InvalidInputError:
        return False
    return not after_created().follow(orjson.loads(raw), leaf_hash(raw))


def test_the_fast_way_takes_an_ordinary_entry():
    assert accepted_fast(STARTED)


@GOOD
@given(changes=st.dictionaries(NAMES, VALUES, max_size=2), dropped=st.sets(NAMES, max_size=1))
def test_what_the_fast_way_takes_the_full_reading_takes(changes, dropped):
    fields = {k: v for k, v in (orjson.loads(STARTED) | changes).items() if k not in dropped}
    raw = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    if accepted_fast(raw):
        assert accepted_fully(raw)


@GOOD
@given(body=st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_the_fast_way_knows_every_body_the_full_reading_knows(body):
    fields = orjson.loads(STARTED) | {"body": body}
    raw = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
    if raw.isascii():
        assert accepted_fast(raw) is accepted_fully(raw)


def test_the_fast_way_takes_no_flipped_bit_that_the_full_reading_refuses():
    for at in range(len(STARTED)):
        for bit in range(8):
            raw = STARTED[:at] + bytes([STARTED[at] ^ (1 << bit)]) + STARTED[at + 1 :]
            assert not accepted_fast(raw) or accepted_fully(raw), (at, bit)


@GOOD
@given(depth=st.integers(58, 68), leaf=st.sampled_from([1, [], {}, 1.5]), flat=st.booleans())
def test_depth_has_one_limit(depth, leaf, flat):
    value = leaf
    for _ in range(depth):
        value = [value] if flat else {"a": value}
    raw = orjson.dumps(
        orjson.loads(STARTED) | {"body": {"deep": value}}, option=orjson.OPT_SORT_KEYS
    )
    assert accepted_fast(raw) is accepted_fully(raw)


@GOOD
@given(value=VALUES, cut=st.integers(0, 3))
def test_plain_json_is_what_the_payload_form_writes(value, cut):
    raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    raw = raw[: len(raw) - cut] if cut else raw
    if is_plain_json(raw):
        assert payload_bytes(orjson.loads(raw)) == raw


SNIPPETS = st.sampled_from(
    [CREATED, STARTED, b"\n", b"{}", b"[[", b'"', b"\xff", b"null", b"1e999", b'{"seq":1}', b"\0"]
)
CHUNKS = st.lists(SNIPPETS | st.binary(max_size=40), max_size=8).map(b"".join)


@GOOD
@given(entries=CHUNKS, payloads=CHUNKS, note=CHUNKS | st.text(max_size=80).map(str.encode))
def test_no_input_makes_the_verifier_raise(entries, payloads, note):
    report = verify(
        [("entries", cut_lines([entries], 1_000))],
        [("payloads", cut_lines([payloads], 1_000))],
        [("checkpoint", note)],
        None,
    )
    assert not report.ok


@GOOD
@given(raw=CHUNKS)
def test_no_input_makes_a_parser_raise_anything_else(raw):
    text = raw.decode(errors="replace")
    for parse, given_ in (
        (read_payload_line, raw),
        (Edge.from_bytes, raw),
        (note_text, text),
        (parse_checkpoint, text),
        (parse_verifier_key, text),
    ):
        try:
            parse(given_)
        except InvalidInputError:
            continue


@GOOD
@given(parts=st.lists(st.binary(max_size=12) | st.just(b"\n"), max_size=12))
def test_lines_hold_every_byte_however_it_arrives(parts):
    whole = b"".join(parts)
    assert list(cut_lines(parts, 1_000)) == whole.splitlines(keepends=True) or b"\r" in whole
    assert b"".join(cut_lines(parts, 1_000)) == whole


@GOOD
@given(parts=st.lists(st.binary(max_size=9) | st.just(b"\n"), max_size=12), limit=st.integers(1, 8))
def test_lines_are_bounded_and_none_is_lost(parts, limit):
    lines = list(cut_lines(parts, limit))
    expected = b"".join(parts).split(b"\n")
    expected = expected if expected[-1] else expected[:-1]
    assert [line.removesuffix(b"\n") for line in lines] == [line[:limit] for line in expected]


@GOOD
@given(data=st.data(), size=st.integers(1, 300))
def test_proofs_over_random_trees(data, size):
    leaves = [leaf_hash(b"%d" % number) for number in range(size)]
    read, root = over_leaves(leaves), root_of(leaves)
    index, old = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size))
    assert proves_inclusion(leaves[index], index, size, inclusion_proof(index, size, read), root)
    proof = consistency_proof(old, size, read)
    assert proves_consistency(old, size, proof, root_of(leaves[:old]), root)
    cut = data.draw(st.integers(0, size))
    assert Edge().extend(leaves[:cut]).extend(leaves[cut:]).root() == root


@GOOD
@given(body=st.dictionaries(st.text(st.characters(codec="ascii"), max_size=5), VALUES, max_size=4))
def test_what_is_sealed_is_read_back(body):
    draft = Draft(Kind.LOG_BEAT, SubjectId("system:log"), body)
    try:
        entry = seal(draft, ORIGIN, Link(3, Digest(bytes(32)), Micros(5)), None, {})
    except InvalidInputError:
        return
    again = read_entry(entry.raw)
    assert again == entry
    assert entry_bytes(orjson.loads(entry.raw)) == entry.raw
