"""The verifier never raises, the fast screen never says yes where `read_entry` says no, lines are whole."""

from unittest import mock

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.assemble import KeySigner
from governance.canonical import entry_bytes, payload_bytes
from governance.errors import InvalidInputError
from governance.ids import Digest, Micros, Origin, RunId, SubjectId
from governance.ledger import walk
from governance.ledger.chain import Chain
from governance.ledger.checkpoint import (
    Checkpoint,
    note_text,
    parse_checkpoint,
    parse_verifier_key,
    sign_checkpoint,
)
from governance.ledger.entry import (
    RUN_START,
    Draft,
    Kind,
    Link,
    Payload,
    RunLink,
    genesis,
    leaf_hash,
    read_entry,
    seal,
)
from governance.ledger.evidence import Evidence
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
from governance.ledger.parts import OneRun, Part, Span, WholeLog
from governance.ledger.payloads import payload_line, read_payload_line
from governance.ledger.report import Report
from governance.ledger.screen import Screen, is_plain_json
from governance.ledger.verify import judge, verify
from governance.ledger.walk import Walk

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


SIGNER = KeySigner.from_seed(ORIGIN, b"\1" * 32)


def history() -> tuple[list[bytes], list[bytes]]:
    """Lines of three runs that take turns, some with content, some about others; and the payload lines."""
    link, runs = Link(0, genesis(ORIGIN), Micros(10)), dict[str, RunLink]()
    lines, contents = list[bytes](), list[bytes]()
    drafts = [Draft(Kind.LOG_CREATED, SubjectId("system:log"), {"keys": [SIGNER.verifier_key]})]
    for turn in range(4):
        for name in ("r1", "r2", "r3"):
            kind = (Kind.RUN_STARTED, Kind.MODEL_RESPONDED, Kind.CALL_STARTED, Kind.RUN_COMPLETED)
            body = {"turn": turn, "calls": [{"uid": name}], "ok": turn > 1}
            behalf = SubjectId("user:b") if name == "r2" else None
            agent = SubjectId(f"agent:{name}")
            drafts.append(Draft(kind[turn], agent, body, {"m": turn}, RunId(name), behalf))
        drafts.append(Draft(Kind.LOG_BEAT, SubjectId("system:log"), {"every_s": turn}))
    for draft in drafts:
        run = draft.run and runs.get(draft.run, RunLink(0, RUN_START))
        held = [Payload(name, bytes(32), b"%d" % draft.body["turn"]) for name in draft.payloads]
        committed = {payload.name: payload.commitment for payload in held}
        entry = seal(draft, ORIGIN, link, run, committed)
        link = Link(entry.seq + 1, entry.hash, Micros(entry.ts + entry.seq % 2))
        if run:
            runs[draft.run] = RunLink(run.rseq + 1, entry.hash)
        lines.append(entry.raw + b"\n")
        contents += [payload_line(entry.seq, payload) for payload in held]
    return lines, contents


PIN = parse_verifier_key(SIGNER.verifier_key)
LINES, CONTENTS = history()
NOTES = [
    (f"checkpoints/{size}", sign_checkpoint(Checkpoint(ORIGIN, size, root), SIGNER).encode())
    for size in (1, 5, 6, 11, len(LINES))
    for root in (root_of([leaf_hash(line[:-1]) for line in LINES[:size]]),)
]
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
    block = Screen()([raw])
    return block is not None and after_created().fit(block, [leaf_hash(raw)])


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


EDITS = st.tuples(
    st.sampled_from(["drop", "repeat", "swap", "flip", "cut", "put", "glue"]),
    st.integers(0, len(LINES) - 1),
    st.integers(0, 600),
)


def edited(lines: list[bytes], edits: list[tuple[str, int, int]]) -> list[bytes]:
    lines = list(lines)
    for how, spot_in_log, where in edits:
        at = spot_in_log % len(lines)
        line = lines[at] or b"?"
        match how:
            case "drop" if len(lines) > 1:
                del lines[at]
            case "repeat":
                lines.insert(where % len(lines), line)
            case "swap":
                lines[at], lines[where % len(lines)] = lines[where % len(lines)], line
            case "flip":
                spot = where % len(line)
                lines[at] = line[:spot] + bytes([line[spot] ^ 1 << where % 7]) + line[spot + 1 :]
            case "cut":
                lines[at] = line[: where % len(line)]
            case "put":
                lines[at] = [b"\n", b"", b"{}\n", b"null\n", b"\xff\n", STARTED + b"\n"][where % 6]
            case _ if at + 1 < len(lines):
                lines[at : at + 2] = [line[:-1] + b"," + lines[at + 1]]
    return lines


def judged(lines: list[bytes], block: int, part: Part) -> tuple[Report, list[int]]:
    progress = list[int]()
    with mock.patch.object(walk, "BLOCK_LINES", block):
        streams = [("a", lines[:7]), ("b", lines[7:])], [("p", CONTENTS)]
        evidence = Evidence(*streams, NOTES, part=part, hashes=iter([Digest(b"h" * 32)] * 9))
        return judge(evidence, [PIN], progress.append), progress[-1:]


def test_of_a_faultless_log_only_the_first_line_is_read_in_full():
    with mock.patch.object(Walk, "_follow", autospec=True, side_effect=Walk._follow) as full:
        report, _ = judged(LINES, 128, WholeLog(len(LINES)))
    assert full.call_count == 1
    assert report.ok, report.findings


@settings(derandomize=True, max_examples=400, deadline=None)
@given(edits=st.lists(EDITS, max_size=3), block=st.sampled_from([2, 3, 128]), data=st.data())
def test_lines_taken_together_are_judged_as_one_by_one(edits, block, data):
    part = data.draw(
        st.sampled_from(
            [WholeLog(len(LINES)), Span(4, len(LINES), len(LINES)), OneRun("r2", len(LINES))]
        )
    )
    lines = edited(LINES, edits)
    if isinstance(part, OneRun):
        lines = [line for line in lines if b'"run":"r2"' in line] or lines
    assert judged(lines, block, part) == judged(lines, 1, part)


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
