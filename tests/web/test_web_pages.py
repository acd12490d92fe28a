"""What a person sees in the queue and what their answer does."""

import pytest

from governance.ledger.entry import Kind
from governance.policy.model import Seat
from governance.queue import NOTE_CHARS_MAX


def text(page: str) -> str:
    return " ".join(page.split())


def test_an_empty_queue_says_the_next_step(client) -> None:
    page = client.get("/").text
    assert "Nothing waits for an answer" in page
    assert "make demo" in page


def test_the_queue_lists_what_waits_oldest_first(office, client) -> None:
    office.hold("refund_order", message="refund of 240.00 EUR")
    office.clock.pass_seconds(60)
    office.hold("delete_customer", tier="high", seats=(Seat("finance", 2), Seat("security", 1)))
    page = client.get("/").text
    assert page.index("refund_order") < page.index("delete_customer")
    for seen in (
        "refund of 240.00 EUR", "agent:refund-desk for user:customer-17", "critical", "high",
        "3 h 59 min", "4 h 00 min", "security", "2 of 2",
    ):  # fmt: skip
        assert seen in page


def test_the_card_shows_everything_the_decision_rests_on(office, client) -> None:
    args = {"amount_cents": 24000, "to": {"iban": "DE89"}, "note": "line one\nline two"}
    request = office.hold(args=args, origins={"to.iban": "untrusted"})
    page = client.get(f"/requests/{request}").text
    card = office.store.read(lambda reader: reader.run_records(reader.find_request(request)))
    subject = next(r.entry.body["subject"] for r in card if "subject" in r.entry.body)
    for seen in (
        "amount_cents", "24000", "to.iban", "DE89", "only in untrusted content", "line one",
        "{&#34;amount_cents&#34;:24000,&#34;note&#34;:&#34;line one\\nline two&#34;,",
        "payments/refunds-large", "tier-critical", "FINANCIAL", "hard", "find_order", "call.finished",
        "Please refund my order 7731", subject, office.field(page, "card"), "2026-02-25 06:13:20 UTC",
        "0 of 1", "None so far.", "args.amount_cents &gt; 5000", "is true",
        "cannot be evaluated: missing-key",
    ):  # fmt: skip
        assert seen in page, seen
    for unseen in ("autofocus", "<b>\u202e", "args.amount_cents &lt;= 5000"):
        assert unseen not in page


def test_approving_returns_to_the_queue_and_says_what_comes_next(office, client) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve", note="checked with the warehouse")
    answer = client.post(f"/requests/{request}/votes", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/?voted={request}")
    page = client.get(answer.headers["location"]).text
    assert "The approval is complete" in page
    assert "Approved, not yet run" in page
    assert "Fatima Haddad" in page
    (vote,) = office.records(Kind.APPROVAL_VOTED)
    assert vote.entry.body["meaning"] == "approve"
    assert vote.entry.body["card"] == form["card"]
    assert vote.content("note") == "checked with the warehouse"
    assert office.records(Kind.APPROVAL_GRANTED)


def test_a_first_of_several_says_who_is_still_needed(office, client) -> None:
    request = office.hold(seats=(Seat("finance", 2), Seat("security", 1)))
    client.post(f"/requests/{request}/votes", data=office.fill(client, request, "approve"))
    page = client.get(f"/?voted={request}").text
    assert "It still needs 1 of finance and 1 of security." in page
    card = client.get(f"/requests/{request}").text
    assert "has already voted" in card
    assert "approve-form" not in card
    assert "1 of 2" in card


def test_a_rejection_needs_a_reason(office, client) -> None:
    request = office.hold()
    for note in ("", "  \r\n "):
        form = office.fill(client, request, "reject", note=note)
        answer = client.post(f"/requests/{request}/votes", data=form)
        assert answer.status_code == 422
        assert "Rejection gives no reason." in answer.text
    assert not office.records(Kind.APPROVAL_VOTED)
    form = office.fill(client, request, "reject", note="wrong\r\ncustomer")
    assert client.post(f"/requests/{request}/votes", data=form).status_code == 303
    (vote,) = office.records(Kind.APPROVAL_VOTED)
    assert vote.content("note") == "wrong\ncustomer"
    assert office.records(Kind.APPROVAL_REJECTED)
    assert "You rejected" in client.get(f"/?voted={request}").text


def test_a_notice_is_about_ones_own_recorded_vote_only(office, client) -> None:
    request = office.hold()
    assert 'class="notice"' not in client.get(f"/?voted={request}").text
    assert client.get("/?voted=none").status_code == 404


@pytest.mark.parametrize("args", [{"note": "x" * 5000}, {"to": "payp\u0430l"}, {"k\u200by": 1}])
def test_long_or_deceptive_arguments_need_the_box(office, client, args) -> None:
    request = office.hold(args=args)
    assert 'name="read"' in client.get(f"/requests/{request}").text
    form = office.fill(client, request, "approve")
    answer = client.post(f"/requests/{request}/votes", data=form)
    assert answer.status_code == 422
    assert "tick the box" in answer.text
    assert not office.records(Kind.APPROVAL_VOTED)
    assert client.post(f"/requests/{request}/votes", data=form | {"read": "all"}).status_code == 303


def test_rejecting_needs_no_box(office, client) -> None:
    request = office.hold(args={"to": "payp\u0430l"})
    form = office.fill(client, request, "reject", note="look-alike")
    assert client.post(f"/requests/{request}/votes", data=form).status_code == 303


def test_short_plain_arguments_need_no_box(office, client) -> None:
    assert 'name="read"' not in client.get(f"/requests/{office.hold()}").text


def test_a_stale_card_is_refused_and_the_new_one_shown(office, client) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    answer = client.post(f"/requests/{request}/votes", data=form | {"card": "00" * 32})
    assert answer.status_code == 409
    assert "This card is not the one you answered" in answer.text
    assert office.field(answer.text, "card") == form["card"]
    assert not office.records(Kind.APPROVAL_VOTED)


def test_who_comes_second_sees_who_was_first(office, client) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    _, token = office.person("Jonas Weber", "finance")
    jonas = office.client()
    office.sign_in(jonas, token)
    jonas.post(f"/requests/{request}/votes", data=office.fill(jonas, request, "reject", note="no"))
    answer = client.post(f"/requests/{request}/votes", data=form)
    assert answer.status_code == 409
    assert "was already rejected" in answer.text
    assert "Jonas Weber" in answer.text


def test_somebody_without_the_role_sees_why_and_is_refused_on_record(office) -> None:
    request = office.hold()
    _, token = office.person("Olga Petrova", "support")
    olga = office.client()
    office.sign_in(olga, token)
    page = olga.get(f"/requests/{request}").text
    assert "holds no role" in page
    assert "approve-form" not in page
    assert "reject-form" not in page
    card = office.store.read(lambda reader: reader.find_request(request))
    assert card
    forgery = office.field(page, "forgery")
    _, token = office.person("Fay", "finance")
    fay = office.client()
    office.sign_in(fay, token)
    digest = office.field(fay.get(f"/requests/{request}").text, "card")
    form = {
        "forgery": forgery,
        "card": digest,
        "verdict": "approve",
        "meaning": "approve",
        "note": "",
    }
    answer = olga.post(f"/requests/{request}/votes", data=form)
    assert answer.status_code == 403
    assert "let somebody with one of these roles decide" in text(answer.text).lower()
    (refused,) = office.records(Kind.ACCESS_REFUSED)
    assert refused.entry.body["reason"] == "not-entitled"
    assert not office.records(Kind.APPROVAL_VOTED)


def test_an_expired_request_takes_no_answer(office, client) -> None:
    request = office.hold(decide_by_s=60)
    form = office.fill(client, request, "approve")
    office.clock.pass_seconds(61)
    assert "Nothing waits" in client.get("/").text
    page = client.get(f"/requests/{request}").text
    assert "expired" in page
    assert "approve-form" not in page
    assert client.post(f"/requests/{request}/votes", data=form).status_code == 403
    assert not office.records(Kind.APPROVAL_VOTED)


@pytest.mark.parametrize(
    "change",
    [
        {"verdict": "yes"},
        {"verdict": "true"},
        {"meaning": "reject"},
        {"meaning": ""},
        {"card": "xyz"},
        {"card": "AB" * 32},
        {"note": "x" * (NOTE_CHARS_MAX + 1)},
        {"surprise": "1"},
    ],
)
def test_an_answer_that_is_not_exact_is_no_answer(office, client, change) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve") | change
    assert client.post(f"/requests/{request}/votes", data=form).status_code == 422
    assert not office.records(Kind.APPROVAL_VOTED)


@pytest.mark.parametrize("id", ["apr-9999", "x" * 200, "%3Cscript%3E", "%2e%2e", "apr 1"])
def test_an_unknown_request_is_not_found(client, id) -> None:
    answer = client.get(f"/requests/{id}")
    assert answer.status_code == 404
    assert "Next step" in answer.text


def test_hostile_text_stays_text_everywhere(office, client) -> None:
    evil = '"><script>alert(1)</script>\u202e'
    request = office.hold(tool=evil, args={evil: [evil]}, message=evil)
    for path in ("/", f"/requests/{request}", f"/?voted={request}"):
        page = client.get(path).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        assert "\u202e" not in page
        assert "U+202E" in page


def test_a_name_and_a_note_are_shown_inert_too(office) -> None:
    request = office.hold(seats=(Seat("finance", 2),))
    _, token = office.person("<b>Bold</b>", "finance")
    browser = office.client()
    office.sign_in(browser, token)
    form = office.fill(browser, request, "approve", note="<i>\u202enote")
    assert browser.post(f"/requests/{request}/votes", data=form).status_code == 303
    page = browser.get(f"/requests/{request}").text
    assert "&lt;b&gt;Bold&lt;/b&gt;" in page
    assert "&lt;i&gt;" in page
    assert "\u202e" not in page
