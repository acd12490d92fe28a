"""Whose word a verifier asks for: C2SP's policy file, thresholds, nobody counted twice; and what is missed."""

import pytest
from heads import Log, witness_key
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.errors import InvalidInputError
from governance.ledger.anchoring import Demands, Vouched, judge_anchors
from governance.ledger.checkpoint import KeyType, VerifierKey, note_text
from governance.ledger.cosignature import add_signatures, cosign, cosigner
from governance.ledger.report import Flaw
from governance.ledger.trust import Group, Witness, is_met, met_since, parse_trust, threshold

SIGNERS = [witness_key(f"w{number}.example", number + 20) for number in range(4)]
KEYS = [cosigner(signer.verifier_key) for signer in SIGNERS]
V = [signer.verifier_key for signer in SIGNERS]
LOG = Log()
NOW_S = 1_800_000_000
NOW = NOW_S * 1_000_000


def test_the_example_of_the_specification_with_keys():
    text = f"""
# two organisations
log {LOG.signer.verifier_key} https://acme.example/log

  witness X1 {V[0]}
witness\tX2\t{V[1]} https://x2.example/
witness Y1 {V[2]}
witness Y2 {V[3]}
group X 2 X1 X2
group Y any Y1 Y2
group both all X Y
quorum both
"""
    trust = parse_trust(text)
    assert trust.logs == (LOG.key,)
    x = Group("X", 2, (Witness("X1", KEYS[0]), Witness("X2", KEYS[1])))
    y = Group("Y", 1, (Witness("Y1", KEYS[2]), Witness("Y2", KEYS[3])))
    assert trust.quorum == Group("both", 2, (x, y))
    assert not is_met(trust.quorum, KEYS[:2])
    assert not is_met(trust.quorum, KEYS[1:])
    assert is_met(trust.quorum, KEYS[:3])


def test_a_quorum_of_none_has_to_be_said():
    assert parse_trust("quorum none\n").quorum is None
    with pytest.raises(InvalidInputError, match="has no quorum"):
        parse_trust("")


W = f"witness a {V[0]}\nwitness b {V[1]}\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("quorum a\n", "nothing is named `a`"),
        (W + "quorum a\nquorum b\n", "second quorum"),
        (W + "quorum a\nquorum\n", "second quorum"),
        (W + "quorum\n", "no item"),
        (W + "group g 2 a\nquorum g\n", "needs 2 of 1"),
        (W + "group g 0 a\nquorum g\n", "malformed threshold"),
        (W + "group g 01 a\nquorum g\n", "malformed threshold"),
        (W + "group g some a\nquorum g\n", "malformed threshold"),
        (W + "group g any\nquorum g\n", "no item"),
        (W + "group g any a a\nquorum g\n", "member twice"),
        (W + "group g any a\ngroup h any a b\nquorum h\n", "`a` is a member twice"),
        (W + "group a any b\nquorum a\n", "name `a` is taken"),
        (W + "group none any b\nquorum none\n", "name `none` is taken"),
        (W + "group g any g\nquorum g\n", "nothing is named `g`"),
        (W + "group g any none\nquorum g\n", "nothing is named `none`"),
        (W + f"witness c {V[0]}\nquorum a\n", "one key is given twice"),
        (f"witness a {LOG.signer.verifier_key}\nquorum a\n", "not a witness's"),
        (f"log {V[0]}\nquorum none\n", "not a log's"),
        (W + "Quorum a\n", "no item"),
        (W + "quorum a\x0b\n", "control characters"),
        (W + "quorum a\r\n", "control characters"),
        ("log x\nquorum none\n", "line 1: verifier key"),
    ],
)
def test_what_says_something_else_is_refused(text, reason):
    with pytest.raises(InvalidInputError, match=reason):
        parse_trust(text)


def test_one_key_under_two_names_is_one_witness():
    twin = VerifierKey("other.example", KEYS[0].public, KeyType.COSIGNATURE)
    from governance.ledger.checkpoint import format_verifier_key

    with pytest.raises(InvalidInputError, match="given twice"):
        parse_trust(W + f"witness c {format_verifier_key(twin)}\ngroup g 2 a c\nquorum g\n")
    with pytest.raises(InvalidInputError, match="given twice"):
        threshold([KEYS[0], twin], 2)


def test_two_keys_of_one_witness_count_once():
    old, new = (cosigner(witness_key("w.example", seed).verifier_key) for seed in (5, 6))
    quorum = threshold([old, new, KEYS[0]], 2)
    assert not is_met(quorum, [old, new])
    assert is_met(quorum, [new, KEYS[0]])
    with pytest.raises(InvalidInputError, match="`3` of 2 witnesses"):
        threshold([old, new, KEYS[0]], 3)


@pytest.mark.parametrize("needs", [0, -1, 3])
def test_a_threshold_that_asks_for_nothing_or_too_much_is_refused(needs):
    with pytest.raises(InvalidInputError, match="a quorum of"):
        threshold(KEYS[:2], needs)
    with pytest.raises(InvalidInputError, match="a quorum of"):
        threshold([], None)


def test_all_are_asked_unless_fewer_are_named():
    assert not is_met(threshold(KEYS), KEYS[:3])
    assert is_met(threshold(KEYS), KEYS)


def test_since_when_enough_had_signed():
    quorum = threshold(KEYS[:3], 2)
    assert met_since(quorum, {KEYS[0]: 5, KEYS[1]: 9, KEYS[2]: 7}) == 7
    assert met_since(quorum, {KEYS[0]: 5}) is None
    assert met_since(quorum, {}) is None


@settings(derandomize=True, max_examples=200, deadline=None)
@given(st.text(alphabet="logwitnesgrupqumay 0123\n\t#", max_size=80))
def test_no_text_makes_it_raise_anything_else(text):
    try:
        parse_trust(text)
    except InvalidInputError:
        return


def cosigned(size: int, *who: int, log: Log = LOG, at: int = NOW_S) -> tuple[str, bytes]:
    note = log.note(size)
    for number in who:
        note = add_signatures(note, cosign(note_text(note), SIGNERS[number], at))
    return f"checkpoints/{size:016}", note.encode()


def judge(*notes, quorum=None, age_s=None, pins=(LOG.key,)):
    demands = Demands(NOW, quorum, age_us=None if age_s is None else age_s * 1_000_000)
    found = judge_anchors(Vouched(LOG.origin, notes), pins, demands)
    return [item.kind for item in found]


TWO = threshold(KEYS[:3], 2)


def test_a_quorum_over_the_newest_head_is_enough():
    assert judge(cosigned(3), cosigned(5, 0, 2), quorum=TWO) == [Flaw.COSIGNED]


@pytest.mark.parametrize(
    "notes",
    [
        (),
        (cosigned(5),),
        (cosigned(5, 0),),
        (cosigned(5, 0, 3),),
        (cosigned(5, 0), cosigned(4, 1)),
    ],
)
def test_fewer_are_not(notes):
    assert judge(*notes, quorum=TWO) == [Flaw.QUORUM_MISSING]


@pytest.mark.attack
def test_a_head_beyond_the_last_quorum_is_missed():
    """Whoever has the log's key can write anything there."""
    demands = Demands(NOW, TWO)
    evidence = Vouched(LOG.origin, (cosigned(5, 0, 1), cosigned(9, 0)))
    missing, until = judge_anchors(evidence, [LOG.key], demands)
    assert missing.kind == Flaw.QUORUM_MISSING
    assert "of 9 entries, bears 1 cosignatures" in missing.message
    assert "the last under a quorum has 5 entries" in missing.message
    assert until.kind == Flaw.COSIGNED


def test_witnesses_alone_do_not_make_a_head():
    other = Log(seed=2)  # another key in the log's name
    assert judge(cosigned(5, 0, 1, log=other), quorum=TWO) == [Flaw.QUORUM_MISSING]
    assert judge(cosigned(5, 0, 1), quorum=TWO, pins=()) == [Flaw.QUORUM_MISSING]
    foreign = Log(origin="other.example")
    found = judge(cosigned(5, 0, 1, log=foreign), quorum=TWO, pins=(LOG.key, foreign.key))
    assert found == [Flaw.QUORUM_MISSING]


def test_a_wrong_cosignature_is_none_and_takes_no_other_away():
    name, raw = cosigned(5, 0, 1)
    lines = raw.decode().splitlines(keepends=True)
    spoilt = lines[-1].replace(lines[-1][-10], "A" if lines[-1][-10] != "A" else "B")
    note = "".join([*lines[:-1], spoilt]).encode()
    assert judge((name, note), quorum=TWO) == [Flaw.QUORUM_MISSING]
    assert judge((name, note), quorum=threshold(KEYS[:3], 1)) == [Flaw.COSIGNED]


def test_freshness_is_by_the_witnesses_clocks():
    old, new = NOW_S - 7200, NOW_S - 60
    assert judge(cosigned(5, 0, 1, at=new), quorum=TWO, age_s=3600) == [Flaw.COSIGNED]
    stale = [Flaw.COSIGNED, Flaw.ANCHOR_STALE]
    assert judge(cosigned(5, 0, 1, at=old), quorum=TWO, age_s=3600) == stale
    # One of them is fresh; two were asked for.
    note = note_text(LOG.note(5))
    mixed = add_signatures(
        cosigned(5, 0, at=old)[1].decode(), cosign(note, SIGNERS[1], new)
    ).encode()
    assert judge(("checkpoint", mixed), quorum=TWO, age_s=3600) == stale
    # A time ahead of ours is nobody's.
    assert judge(cosigned(5, 0, 1, at=NOW_S + 3600), quorum=TWO, age_s=3600) == stale
    assert judge(cosigned(5, 0, 1, at=2**62), quorum=TWO) == [Flaw.COSIGNED]


def test_freshness_by_nobodys_clock_cannot_be_asked_for():
    with pytest.raises(InvalidInputError, match="nobody is trusted to tell the time"):
        Demands(NOW, age_us=1)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.data())
def test_no_note_makes_it_raise(data):
    name, raw = cosigned(5, 0, 1)
    place = data.draw(st.integers(0, len(raw)))
    junk = data.draw(st.binary(max_size=8))
    notes = [(name, raw[:place] + junk + raw[place + len(junk) :])]
    judge_anchors(Vouched(None, notes), [LOG.key], Demands(NOW, TWO))
