"""Notes, checkpoints and verifier keys: one spelling, honest keys, and signatures that mean something."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from governance.errors import InvalidInputError, RefusedError, TamperedError
from governance.ids import Digest, Origin
from governance.ledger.checkpoint import (
    SIGNATURES_MAX,
    Checkpoint,
    KeyType,
    VerifierKey,
    format_checkpoint,
    format_verifier_key,
    note_text,
    open_note,
    parse_checkpoint,
    parse_verifier_key,
    sign_checkpoint,
    sign_note,
    verifier_key,
)

ORIGIN = Origin("acme.example/agents")
HEAD = Checkpoint(ORIGIN, 1_024, Digest(bytes(range(32))))
P = 2**255 - 19


class Key:
    def __init__(self, seed=1, origin=ORIGIN, name=None):
        self.private = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        self.public = self.private.public_key().public_bytes_raw()
        self.origin = origin
        self.verifier_key = verifier_key(name or origin, self.public)

    def sign(self, message):
        return self.private.sign(message)


KEY, OTHER = Key(1), Key(2)
PIN, OTHER_PIN = parse_verifier_key(KEY.verifier_key), parse_verifier_key(OTHER.verifier_key)
NOTE = sign_checkpoint(HEAD, KEY)


def test_a_signed_checkpoint_reads_back():
    assert open_note(NOTE, [PIN]) == (ORIGIN,)
    assert parse_checkpoint(note_text(NOTE)) == HEAD
    assert NOTE.startswith(f"{ORIGIN}\n1024\nAAECAwQF")


def test_extension_lines_are_kept():
    head = Checkpoint(ORIGIN, 0, HEAD.root, ("one two", "drei"))
    assert parse_checkpoint(format_checkpoint(head)) == head


@pytest.mark.attack
def test_every_changed_character_of_a_note_is_refused():
    for at, char in enumerate(NOTE):
        broken = NOTE[:at] + chr(ord(char) ^ 1) + NOTE[at + 1 :]
        with pytest.raises((InvalidInputError, RefusedError, TamperedError)):
            open_note(broken, [PIN])


@pytest.mark.attack
def test_every_shortened_note_is_refused():
    for at in range(len(NOTE)):
        with pytest.raises((InvalidInputError, RefusedError, TamperedError)):
            open_note(NOTE[:at], [PIN])


def test_unknown_keys_are_passed_over_and_known_ones_must_be_right():
    both = NOTE + sign_checkpoint(HEAD, OTHER).split("\n\n")[1]
    assert open_note(both, [PIN]) == (ORIGIN,)
    assert open_note(both, [PIN, OTHER_PIN]) == (ORIGIN, ORIGIN)
    forged = NOTE + sign_checkpoint(Checkpoint(ORIGIN, 9, HEAD.root), OTHER).split("\n\n")[1]
    assert open_note(forged, [PIN]) == (ORIGIN,)
    with pytest.raises(TamperedError, match="on a note is wrong"):
        open_note(forged, [PIN, OTHER_PIN])


def test_a_note_without_a_known_key_is_refused():
    with pytest.raises(RefusedError, match="no pinned key signed"):
        open_note(NOTE, [OTHER_PIN])


def test_no_key_is_no_trust():
    with pytest.raises(InvalidInputError, match="no key to verify with"):
        open_note(NOTE, [])


def test_the_same_key_twice_is_ambiguous():
    with pytest.raises(InvalidInputError, match="share one name"):
        open_note(NOTE, [PIN, PIN])


def test_too_many_signatures_are_refused():
    line = NOTE.split("\n\n")[1]
    assert open_note(NOTE + line * (SIGNATURES_MAX - 1), [PIN]) == (ORIGIN,)
    with pytest.raises(InvalidInputError, match="malformed"):
        open_note(NOTE + line * SIGNATURES_MAX, [PIN])


def test_a_signer_signs_for_its_own_log_only():
    with pytest.raises(InvalidInputError, match="does not sign for `other`"):
        sign_checkpoint(Checkpoint("other", 1, HEAD.root), KEY)


def test_a_signer_that_holds_another_key_is_caught_at_once():
    liar = Key(1)
    liar.private = OTHER.private
    with pytest.raises(TamperedError):
        sign_checkpoint(HEAD, liar)


@pytest.mark.parametrize("text", ["no line end", "tab\t\n", "half \ud800\n"])
def test_what_is_no_text_is_not_signed(text):
    with pytest.raises(InvalidInputError, match="whole lines"):
        sign_note(text, KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a\n1\n",
        "a\n1\nAAAA\n",
        "a\n01\n{root}\n",
        "a\n+1\n{root}\n",
        "a\n-1\n{root}\n",
        "a\n1_0\n{root}\n",
        "a\n\u0661\n{root}\n",
        "a\n9223372036854775808\n{root}\n",
        "a\n1\n{root}",
        "a\n1\n{root}\n\n",
        "a\n1\n{root} \n",
        "a\r\n1\n{root}\n",
        "\n1\n{root}\n",
        "a\n1\n{loose}\n",
    ],
)
def test_one_spelling_of_a_checkpoint(text):
    root = base64.b64encode(bytes(32)).decode()
    with pytest.raises(InvalidInputError, match="checkpoint"):
        parse_checkpoint(text.format(root=root, loose=root[:-2] + "B="))


@pytest.mark.parametrize("origin", ["", "two\nlines", "bell\x07"])
def test_a_checkpoint_that_could_not_be_read_is_not_written(origin):
    with pytest.raises(InvalidInputError, match="checkpoint"):
        format_checkpoint(Checkpoint(origin, 1, HEAD.root))


def test_an_extension_of_two_lines_is_not_written():
    with pytest.raises(InvalidInputError, match="cannot be written"):
        format_checkpoint(Checkpoint(ORIGIN, 1, HEAD.root, ("one\ntwo",)))


def test_verifier_keys_have_one_spelling():
    text = KEY.verifier_key
    assert format_verifier_key(parse_verifier_key(text)) == text
    name, key_id, key = text.split("+", 2)
    for wrong in (
        "",
        name,
        f"{name}+{key_id}",
        f"{name}+{key_id.upper()}+{key}",
        f"{name}+00000000+{key}",
        f"{name}+{key_id}+{key} ",
        f"{name}+{key_id}+{key[:-4]}",
        f" {text}",
        f"{text}\n",
        f"other+{key_id}+{key}",
        f"{name}+{key_id}+{base64.b64encode(b'/' + PIN.public).decode()}",
    ):
        with pytest.raises(InvalidInputError):
            parse_verifier_key(wrong)


@pytest.mark.attack
@pytest.mark.parametrize(
    "public",
    [
        bytes(32),
        b"\1" + bytes(31),
        (P - 1).to_bytes(32, "little"),
        P.to_bytes(32, "little"),
        (P + 1).to_bytes(32, "little"),
        b"\1" + bytes(30) + b"\x80",
        b"\xff" * 32,
        b"\2" + bytes(31),
        bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
        PIN.public[:31],
        PIN.public + b"\0",
    ],
)
def test_odd_keys_cannot_be_pinned(public):
    with pytest.raises(InvalidInputError, match="not a sound Ed25519 point"):
        verifier_key(ORIGIN, public)


@pytest.mark.parametrize("name", ["", "has space", "has+plus", "no\u2003break", "half\ud800"])
def test_key_names_that_no_note_can_carry(name):
    with pytest.raises(InvalidInputError, match="malformed key name"):
        VerifierKey(name, PIN.public)


def test_a_cosignature_covers_its_time():
    witness = VerifierKey("witness.example", PIN.public, KeyType.COSIGNATURE)
    text = format_checkpoint(HEAD)
    signature = KEY.sign(b"cosignature/v1\ntime 1234\n" + text.encode())
    stamped = (1234).to_bytes(8, "big") + signature
    assert witness.verifies(text, stamped)
    assert not witness.verifies(text, (1235).to_bytes(8, "big") + signature)
    assert not witness.verifies(text, signature)
    assert not PIN.verifies(text, stamped)
    assert parse_verifier_key(format_verifier_key(witness)) == witness
