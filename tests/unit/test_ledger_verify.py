"""The verifier over plain lines: what it says about links, runs, times, roots, payloads and its own limits."""

import base64
import copy

import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.canonical import entry_bytes
from governance.errors import InvalidInputError
from governance.ids import Origin
from governance.ledger.checkpoint import (
    Checkpoint,
    KeyType,
    VerifierKey,
    format_checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    verifier_key,
)
from governance.ledger.entry import Kind, Payload, genesis, leaf_hash
from governance.ledger.merkle import root_of
from governance.ledger.payloads import payload_line, read_payload_line
from governance.ledger.report import (
    FINDINGS_MAX,
    Flaw,
    Status,
    Verdict,
    Where,
    finding,
)
from governance.ledger.verify import verify

ORIGIN = Origin("acme.example/agents")
SECRET = Ed25519PrivateKey.from_private_bytes(b"\1" * 32)
ZEROS = "0" * 64


class Key:
    origin = ORIGIN
    verifier_key = verifier_key(ORIGIN, SECRET.public_key().public_bytes_raw())

    def sign(self, message):
        return SECRET.sign(message)


PINS = [parse_verifier_key(Key.verifier_key)]


def envelope(seq, kind, **more):
    fields = {
        "v": 1,
        "log": ORIGIN,
        "seq": seq,
        "prev": ZEROS,
        "ts": 1_700_000_000_000_000 + seq,
        "type": kind,
        "actor": "system:log",
        "body": {},
        "payloads": {},
    }
    return fields | more


def linked(envelopes):
    """Bytes of envelopes whose `prev` and `rprev` are made to fit, whatever else they say."""
    raws, prev, last = [], genesis(ORIGIN).hex(), {}
    for fields in copy.deepcopy(envelopes):
        fields["prev"] = prev
        if "run" in fields:
            fields["rprev"] = last.get(fields["run"], ZEROS)
        raw = entry_bytes(fields)
        prev = leaf_hash(raw).hex()
        if "run" in fields:
            last[fields["run"]] = prev
        raws.append(raw)
    return raws


def note(raws, size=None):
    size = len(raws) if size is None else size
    head = Checkpoint(ORIGIN, size, root_of([leaf_hash(raw) for raw in raws[:size]]))
    return f"checkpoints/{size}", sign_checkpoint(head, Key()).encode()


def judge(raws, notes=None, payloads=(), pins=PINS):
    lines = [raw + b"\n" for raw in raws]
    notes = [note(raws)] if notes is None else notes
    return verify([("entries", lines)], [("payloads", list(payloads))], notes, pins)


def failures(report):
    return [(item.kind, item.where.seq) for item in report.findings if item.is_failure]


def in_run(seq, kind, rseq, run="run-1", **more):
    return envelope(seq, kind, run=run, rseq=rseq, rprev=ZEROS, **more)


LOG = [
    envelope(0, "log.created", body={"keys": [Key.verifier_key]}),
    in_run(1, "run.started", 0, actor="agent:a", on_behalf_of="user:b"),
    in_run(2, "call.decided", 1, body={"rules": [{"deep": [1, [True, None]]}], "steps": -3}),
    envelope(3, "stop.engaged", actor="user:b", body={"tool": "größe"}),
    in_run(4, "run.completed", 2),
    envelope(5, "log.beat"),
]


def test_an_honest_log_is_ok():
    report = judge(linked(LOG))
    assert report.ok
    assert report.findings == ()
    assert (report.summary.entries, report.summary.runs, report.summary.log) == (6, 1, ORIGIN)


def paths(value, path=()):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from paths(item, (*path, key))
            yield (*path, key)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from paths(item, (*path, at))
    else:
        yield path


@pytest.mark.attack
def test_every_field_of_every_entry_changed_fails():
    raws = linked(LOG)
    notes, seen = [note(raws)], 0
    for seq, raw in enumerate(raws):
        for path in set(paths(orjson.loads(raw))):
            for value in ("other", 7, None, "REMOVED"):
                fields = orjson.loads(raw)
                *parents, last = path
                holder = fields
                for step in parents:
                    holder = holder[step]
                if value == "REMOVED":
                    holder.pop(last)
                elif holder[last] == value:
                    continue
                else:
                    holder[last] = value
                changed = entry_bytes(fields)
                report = judge([*raws[:seq], changed, *raws[seq + 1 :]], notes)
                assert report.integrity is Status.FAILED, (seq, path, value)
                seen += 1
    assert seen > 250


@pytest.mark.parametrize(
    ("at", "change", "expected"),
    [
        (0, {"type": "log.beat"}, ("genesis-wrong", 0)),
        (5, {"type": "log.created"}, ("genesis-wrong", 5)),
        (3, {"seq": 2}, ("entry-moved", 2)),
        (3, {"seq": 9}, ("entry-missing", 9)),
        (3, {"ts": 1_700_000_000_000_001}, ("time-reversed", 3)),
        (3, {"log": "other.example/log"}, ("log-mixed", 3)),
        (2, {"rseq": 2}, ("run-link-broken", 2)),
        (4, {"run": "run-2"}, ("run-link-broken", 4)),
        (2, {"rprev": "1" * 64}, ("run-link-broken", 2)),
        (3, {"v": 2}, ("entry-malformed", 3)),
        (3, {"v": True}, ("entry-malformed", 3)),
        (3, {"seq": True}, ("entry-malformed", 3)),
        (3, {"type": "call.imagined"}, ("entry-malformed", 3)),
        (3, {"actor": "two words"}, ("entry-malformed", 3)),
        (3, {"payloads": {"x": "short"}}, ("entry-malformed", 3)),
        (3, {"extra": 1}, ("entry-malformed", 3)),
    ],
)
def test_a_log_written_wrongly_by_its_own_writer_is_named(at, change, expected):
    """Links, root and signature all fit: only the entry itself is at fault."""
    entries = copy.deepcopy(LOG)
    entries[at] |= change
    raws = linked(entries)
    if "rprev" in change:
        fields = orjson.loads(raws[at]) | change
        raws = [*raws[:at], entry_bytes(fields)]
    assert expected in failures(judge(raws))


def test_a_wrong_genesis_is_named():
    raws = linked(LOG)
    first = orjson.loads(raws[0]) | {"prev": "1" * 64}
    assert ("genesis-wrong", 0) in failures(judge([entry_bytes(first), *raws[1:]]))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1.0}',
        b'{"a": 1}',
        b"[]",
        b"7",
        b"\xff",
        b'{"b":1,"a":2}',
        b'{"a":9007199254740993}',
        b"x" * 70_000,
    ],
)
def test_what_is_no_entry_is_named_and_the_rest_still_read(raw):
    raws = linked(LOG)
    report = judge([*raws[:2], raw, *raws[2:]])
    assert ("entry-malformed", 2) in failures(report)
    assert report.summary.entries == 7


def test_a_log_that_does_not_start_at_its_beginning_is_partial():
    report = judge(linked(LOG)[2:])
    assert report.completeness is Status.FAILED
    assert ("log-partial", 2) in failures(report)


def test_an_emptied_log_is_not_ok():
    report = judge([], [note(linked(LOG))])
    assert {"log-empty", "tail-cut"} == {kind for kind, _ in failures(report)}
    bare = judge([], [])
    assert {"log-empty", "nothing-signed"} == {kind for kind, _ in failures(bare)}


def test_a_log_without_checkpoints_is_neither_trusted_nor_complete():
    report = judge(linked(LOG), [])
    assert report.integrity is Status.OK
    assert failures(report) == [("nothing-signed", None), ("tail-uncovered", 0)]


def test_an_unsigned_checkpoint_covers_nothing_once_keys_are_pinned():
    raws = linked(LOG)
    head = note(raws)[1].decode()
    unsigned = ("checkpoints/6", head.replace(head.split(" ")[1], "someone-else").encode())
    report = judge(raws, [note(raws, 4), unsigned])
    assert ("key-unknown", None) in failures(report)
    assert ("tail-uncovered", 4) in failures(report)


def test_the_root_names_the_stretch_where_histories_part():
    raws = linked(LOG)
    other = linked([*LOG[:4], LOG[4] | {"actor": "user:c"}, LOG[5]])
    report = judge(other, [note(raws, 2), note(raws, 4), note(raws, 6)])
    assert [item.message for item in report.findings] == [
        "root over the first 6 entries differs; the fault lies in entries 4 to 5"
    ]


def test_a_garbled_checkpoint_is_named():
    raws = linked(LOG)
    report = judge(
        raws, [note(raws), ("checkpoints/3", b"\xff\xfe"), ("checkpoints/4", b"hello\n")]
    )
    assert [item.where.file for item in report.findings] == ["checkpoints/3", "checkpoints/4"]
    assert report.integrity is Status.FAILED


def test_open_runs_are_named_and_are_no_failure():
    raws = linked([*LOG, in_run(6, "run.started", 0, run="run-2")])
    report = judge(raws)
    assert report.ok
    assert [(item.kind, item.where.seq) for item in report.findings] == [("run-open", 6)]
    assert report.summary.open_runs == 1


def test_entries_after_the_end_of_a_run_do_not_reopen_it():
    report = judge(linked([*LOG, in_run(6, "approval.expired", 3)]))
    assert (report.ok, report.summary.open_runs) == (True, 0)
    again = judge(linked([*LOG, in_run(6, "run.resumed", 3)]))
    assert (again.ok, again.summary.open_runs) == (True, 1)


SALT = bytes(range(32))


def with_payload(content=b'{"a":1}', *, erased=None):
    payload = Payload("args", SALT, content)
    entries = [
        LOG[0],
        envelope(1, "policy.activated", payloads={"args": payload.commitment.hex()}),
    ]
    if erased is not None:
        body = {"subject": "user:7f3k9q", "targets": erased}
        entries.append(envelope(2, Kind.PAYLOAD_ERASED.value, actor="user:dpo", body=body))
    return linked(entries), payload_line(1, payload)


def test_payloads_are_compared_with_their_commitments():
    raws, line = with_payload()
    assert judge(raws, payloads=[line]).ok
    assert failures(judge(raws)) == [("payload-missing", 1)]
    other = payload_line(1, Payload("args", SALT, b'{"a":2}'))
    assert failures(judge(raws, payloads=[other])) == [("payload-altered", 1)]
    salted = payload_line(1, Payload("args", bytes(32), b'{"a":1}'))
    assert failures(judge(raws, payloads=[salted])) == [("payload-altered", 1)]
    renamed = payload_line(1, Payload("argz", SALT, b'{"a":1}'))
    assert failures(judge(raws, payloads=[renamed])) == [
        ("payload-unexpected", 1),
        ("payload-missing", 1),
    ]
    assert failures(judge(raws, payloads=[line, line])) == [("payload-repeated", 1)]


def test_an_erased_payload_is_not_missing():
    raws, line = with_payload(erased=[[1, ["args"]]])
    report = judge(raws)
    assert report.ok
    (found,) = report.findings
    assert (found.kind, found.where.seq) == ("payload-erased", 1)
    assert found.message == "payload `args` was erased by `user:dpo`, as entry 2 records"
    kept = judge(raws, payloads=[line])
    assert kept.ok
    assert [item.kind for item in kept.findings] == ["payload-kept"]


@pytest.mark.parametrize(
    "wrong",
    [
        [[0, ["args"]]],
        [[1, ["arg"]]],
        [[True, ["args"]]],
        [["1", ["args"]]],
        [[1, [1]]],
        [[1, "args"]],
        [[1]],
        [[1, ["args"], 2]],
        [1, "args"],
        [[2, ["args"]]],
        {"1": ["args"]},
        "args",
    ],
    ids=str,
)
def test_an_erasure_of_something_else_excuses_nothing(wrong):
    raws, _ = with_payload(erased=wrong)
    assert ("payload-missing", 1) in failures(judge(raws))


def test_a_payload_cannot_be_erased_before_it_was_recorded():
    payload = Payload("args", SALT, b"1")
    raws = linked(
        [
            LOG[0],
            envelope(1, "payload.erased", body={"targets": [[2, ["args"]]]}),
            envelope(2, "policy.activated", payloads={"args": payload.commitment.hex()}),
        ]
    )
    assert failures(judge(raws)) == [("payload-missing", 2)]


@pytest.mark.parametrize("content", [b"1.0", b'{"a": 1}', b"{", b'{"b":1,"a":2}', b'{"a":1,"a":1}'])
def test_content_that_is_not_canonical_is_named_even_when_committed_to(content):
    raws, line = with_payload(content)
    assert ("payload-malformed", None) in failures(judge(raws, payloads=[line]))


def test_one_wrong_number_hides_no_other_payload():
    payloads = [Payload("args", SALT, b"%d" % at) for at in range(1, 6)]
    raws = linked(
        [
            LOG[0],
            *(
                envelope(at, "policy.activated", payloads={"args": item.commitment.hex()})
                for at, item in enumerate(payloads, 1)
            ),
        ]
    )
    lines = [payload_line(at, item) for at, item in enumerate(payloads, 1)]
    lines[1] = payload_line(900, payloads[1])
    assert failures(judge(raws, payloads=lines)) == [("payload-moved", 900), ("payload-missing", 2)]


def test_a_report_is_bounded_and_counts_the_rest():
    report = judge([b"{}"] * (FINDINGS_MAX + 500), [])
    assert report.counts[Flaw.ENTRY_MALFORMED] == FINDINGS_MAX + 500
    assert len(report.findings) == FINDINGS_MAX
    assert report.uncounted == 502


def test_information_never_crowds_out_a_failure():
    entries = [LOG[0]]
    entries += [in_run(at, "run.started", 0, run=f"r{at}") for at in range(1, FINDINGS_MAX + 50)]
    report = judge(linked(entries))
    assert report.ok
    worse = report.with_findings([finding(Verdict.TRUST, Flaw.PIN_WRONG, Where(), "wrong")])
    assert worse.trust is Status.FAILED
    assert worse.findings[-1].kind == Flaw.PIN_WRONG
    assert worse.counts[Flaw.RUN_OPEN] == FINDINGS_MAX + 49


def test_progress_tells_the_bytes_seen():
    raws, told = linked(LOG), []
    lines = [raw + b"\n" for raw in raws]
    verify([("a", lines[:3]), ("b", lines[3:])], [], [note(raws, 2), note(raws)], PINS, told.append)
    assert told[-1] == sum(map(len, lines))
    assert told == sorted(told)


def test_a_pin_named_twice_counts_once():
    assert judge(linked(LOG), pins=PINS * 2).ok


def test_places_read_well():
    assert str(Where("entries/x.jsonl", 3, 7)) == "entries/x.jsonl:3 (entry 7)"
    assert str(Where(seq=7)) == "log (entry 7)"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "no end"),
        (b"{}", "no end"),
        (b"{\n", "not JSON"),
        (b"[]\n", "fields"),
        (b'{"content":"1","name":"a","salt":"%b"}\n' % (b"0" * 64), "fields"),
        (b'{"name":"a","content":"1","salt":"%b","seq":1}\n' % (b"0" * 64), "fields"),
        (b'{"content":1,"name":"a","salt":"%b","seq":1}\n' % (b"0" * 64), "another type"),
        (b'{"content":"1","name":"a","salt":"%b","seq":true}\n' % (b"0" * 64), "another type"),
        (b'{"content":"1","name":"a","salt":"%b","seq":-1}\n' % (b"0" * 64), "another type"),
        (b'{"content":"1","name":"a","salt":"%b","seq":1}\n' % (b"F" * 64), "malformed digest"),
        (b'{"content":"1", "name":"a","salt":"%b","seq":1}\n' % (b"0" * 64), "canonical"),
        (b'{"content":"1","name":"a","name":"a","salt":"%b","seq":1}\n' % (b"0" * 64), "canonical"),
        (b'{"content":"x","name":"a","salt":"%b","seq":1}\n' % (b"0" * 64), "content is not JSON"),
    ],
)
def test_a_payload_line_has_one_spelling(line, message):
    with pytest.raises(InvalidInputError, match=message):
        read_payload_line(line)


def test_a_payload_may_hold_any_json():
    for content in (b"1", b"null", b'"\xc3\xa9"', b"[0.5,1e+21]", b"9223372036854776000"):
        payload = Payload("args", SALT, content)
        assert read_payload_line(payload_line(7, payload)) == (7, payload)


@pytest.mark.attack
def test_absences_beyond_the_bound_are_failures_at_once(monkeypatch):
    monkeypatch.setattr("governance.ledger.absent.ABSENT_MAX", 1)
    entries = [LOG[0]]
    entries += [envelope(at, "log.beat", payloads={"x": "0" * 64}) for at in (1, 2)]
    entries += [
        envelope(at + 2, "payload.erased", body={"targets": [[at, ["x"]]]}) for at in (1, 2)
    ]
    report = judge(linked(entries))
    assert failures(report) == [("payload-missing", 2)]


@pytest.mark.attack
@pytest.mark.parametrize("name", ["witness.example", ORIGIN])
def test_a_signature_of_a_witness_alone_is_not_the_logs(name):
    raws = linked(LOG)
    witness = VerifierKey(name, PINS[0].public, KeyType.COSIGNATURE)
    text = format_checkpoint(Checkpoint(ORIGIN, 6, root_of([leaf_hash(raw) for raw in raws])))
    stamp = (7).to_bytes(8, "big")
    signature = stamp + SECRET.sign(b"cosignature/v1\ntime 7\n" + text.encode())
    encoded = base64.b64encode(witness.id + signature).decode()
    cosigned = f"{text}\n\N{EM DASH} {name} {encoded}\n".encode()
    report = judge(raws, [("checkpoints/6", cosigned)], pins=[*PINS, witness])
    assert ("key-unknown", None) in failures(report)
    both = note(raws)[1] + cosigned.split(b"\n\n")[1]
    assert judge(raws, [("checkpoints/6", both)], pins=[*PINS, witness]).ok
