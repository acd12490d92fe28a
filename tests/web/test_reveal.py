"""Nothing odd stays unseen, nothing is lost, and honest text is left alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.canonical import parse_json
from governance.web.lookalikes import ascii_twin
from governance.web.reveal import Mark, printable, reveal


def marked(text: str) -> list[tuple[str, Mark]]:
    return [(part.text, part.mark) for part in reveal(text) if part.mark is not None]


@pytest.mark.parametrize(
    ("text", "odd", "mark"),
    [
        ("invoice\u202egpj.exe", "\u202e", Mark.BIDI),
        ("a\u2066b", "\u2066", Mark.BIDI),
        ("a\u200fb", "\u200f", Mark.BIDI),
        ("a\u061cb", "\u061c", Mark.BIDI),
        ("pay\u200bpal", "\u200b", Mark.INVISIBLE),
        ("pay\u200dpal", "\u200d", Mark.INVISIBLE),
        ("\ufeffpaypal", "\ufeff", Mark.INVISIBLE),
        ("soft\u00adhyphen", "\u00ad", Mark.INVISIBLE),
        ("word\u2060joiner", "\u2060", Mark.INVISIBLE),
        ("filler\u3164", "\u3164", Mark.INVISIBLE),
        ("braille\u2800", "\u2800", Mark.INVISIBLE),
        ("variation\ufe0f", "\ufe0f", Mark.INVISIBLE),
        ("variation\U000e0150", "\U000e0150", Mark.INVISIBLE),
        ("grapheme\u034fjoiner", "\u034f", Mark.INVISIBLE),
        ("ok\U000e0068\U000e0069", "\U000e0068\U000e0069", Mark.TAG),
        ("bell\a", "\a", Mark.CONTROL),
        ("return\rhere", "\r", Mark.CONTROL),
        ("\x1b[2J", "\x1b", Mark.CONTROL),
        ("nul\0", "\0", Mark.CONTROL),
        ("delete\x7f", "\x7f", Mark.CONTROL),
        ("c1\x9b", "\x9b", Mark.CONTROL),
        ("no\u00a0break", "\u00a0", Mark.SPACE),
        ("wide\u3000space", "\u3000", Mark.SPACE),
        ("line\u2028separator", "\u2028", Mark.SPACE),
        ("z\u0300\u0301\u0302\u0303", "\u0302\u0303", Mark.STACKED),
        ("5\u03360\u03360", "\u0336", Mark.STACKED),
        ("private\ue000", "\ue000", Mark.UNKNOWN),
        ("unassigned\u0378", "\u0378", Mark.UNKNOWN),
        ("surrogate\ud800", "\ud800", Mark.UNKNOWN),
        ("payp\u0430l", "\u0430", Mark.LOOKALIKE),
        ("\u0440\u0430\u0443\u0440\u0430l", "\u0440\u0430\u0443\u0440\u0430", Mark.LOOKALIKE),
        ("\u0430\u0440\u0440\u04cf\u0435.com", "\u0430\u0440\u0440\u04cf\u0435", Mark.LOOKALIKE),
        ("\u0441\u043e\u0440", "\u0441\u043e\u0440", Mark.LOOKALIKE),
        ("\uff21cme", "\uff21", Mark.LOOKALIKE),
        ("\U0001d400cme", "\U0001d400", Mark.LOOKALIKE),
        ("\u212aelvin", "\u212a", Mark.LOOKALIKE),
        ("evil\u2215path", "\u2215", Mark.LOOKALIKE),
        ("DE\u201112", "\u2011", Mark.LOOKALIKE),
        ("1\u09ea2", "\u09ea", Mark.LOOKALIKE),
        ("k\u03a9", "\u03a9", Mark.LOOKALIKE),
        ("tab\tbreak", "\t", Mark.LAYOUT),
        ("a\nb", "\n", Mark.LAYOUT),
    ],
)
def test_what_is_not_as_it_looks_is_marked(text: str, odd: str, mark: Mark) -> None:
    assert marked(text)[0] == (odd, mark)
    assert any(part.deceptive for part in reveal(text)) is (mark is not Mark.LAYOUT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "refund of 240.00 EUR",
        "naïve café — “quoted” … 5 µm, m², ½, ™, €",
        "Привет, это сор и а также рост",
        "Καλημέρα κόσμε",
        "日本語とGitHubのテスト",
        "مرحبا ١٢٣",
        "Tiếng Việt",
        "שלום",
        "e\u0301",
    ],
)
def test_honest_text_is_left_alone(text: str) -> None:
    assert not marked(text)


def test_a_split_word_is_still_one_word() -> None:
    assert ("\u0430", Mark.LOOKALIKE) in marked("pay\u200bp\u0430l")


def test_neighbours_of_one_kind_are_one_segment() -> None:
    (only,) = reveal("\u200b" * 100_000)
    assert only.label == "U+200B x100000"
    assert "and 12 more" in reveal("".join(map(chr, range(0xE0020, 0xE0034))))[0].label


def test_hidden_tag_text_is_spelled_out() -> None:
    hidden = "".join(chr(0xE0000 + ord(char)) for char in "pay me")
    (only,) = [part for part in reveal("hello" + hidden) if part.mark]
    assert only.hidden == "pay me"
    assert only.why == "invisible copy of ASCII text; spells pay me"


def test_a_look_alike_tells_what_it_passes_for() -> None:
    part = next(part for part in reveal("payp\u0430l") if part.mark)
    assert (part.twin, part.visible) == ("a", True)
    assert part.why == ("not the character it looks like (cyrillic small letter a); looks like a")
    assert ascii_twin("\u09ea") is None
    assert next(part for part in reveal("4\u09ea") if part.mark).twin == "4"


def test_a_terminal_gets_no_controls() -> None:
    assert printable("a\x1b[31mb\u202ec\n") == "a<U+001B>[31mb<U+202E>c<U+000A>"
    assert printable("payp\u0430l") == "payp\u0430<U+0430>l"


@given(st.text(st.characters(codec=None, exclude_categories=())))
@settings(derandomize=True, max_examples=200)
def test_segments_join_to_the_text_and_escape_to_the_same_json(text: str) -> None:
    parts = reveal(text)
    assert "".join(part.text for part in parts) == text
    for part in parts:
        assert part.text
        assert part.label.isascii()
        if not any(0xD800 <= ord(char) < 0xE000 for char in part.text):
            assert parse_json(f'"{part.escape}"') == part.text


@given(st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp", "Co", "Cn"]), min_size=1))
@settings(derandomize=True, max_examples=100)
def test_no_unseen_character_passes(text: str) -> None:
    assert all(part.mark is not None for part in reveal(text))
    assert printable(text).isascii()
    assert printable(text).isprintable()
