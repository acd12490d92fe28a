"""What an attacker would try against the queue: forged forms, stolen sessions, foreign hosts, floods."""

import pytest
from starlette.testclient import TestClient

from governance.errors import InvalidInputError, UnavailableError
from governance.ledger.entry import Kind
from governance.web import WebSettings
from governance.web.guard import BODY_BYTES_MAX
from governance.web.sessions import (
    ABSOLUTE_LIMIT_S,
    ADDRESSES_MAX,
    IDLE_LIMIT_S,
    LOGIN_FAILURES_MAX,
    LOGIN_WINDOW_S,
    Attempts,
)

pytestmark = pytest.mark.attack
HOME = "http://localhost:8700"
OWN_FORM = {"origin": "null", "sec-fetch-site": "same-origin"}


def voted(office) -> int:
    return len(office.records(Kind.APPROVAL_VOTED))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "https://localhost:8700"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"origin": HOME, "sec-fetch-site": "cross-site"},
        {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
    ],
)
def test_a_form_from_another_site_decides_nothing(office, client, headers) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    answer = client.post(f"/requests/{request}/votes", data=form, headers=headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert voted(office) == 0


@pytest.mark.parametrize("headers", [{}, OWN_FORM, {"origin": HOME}])
def test_a_form_of_our_own_decides(office, client, headers) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    answer = client.post(f"/requests/{request}/votes", data=form, headers=headers)
    assert answer.status_code == 303
    assert voted(office) == 1


@pytest.mark.parametrize("forgery", [None, "", "0" * 64, "é", "of another session"])
@pytest.mark.parametrize("path", ["/requests/{id}/votes", "/logout", "/login"])
def test_without_the_anti_forgery_token_nothing_happens(office, client, forgery, path) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve") | {"token": "x", "next": "/"}
    form |= {} if forgery is None else {"forgery": forgery}
    if forgery is None:
        del form["forgery"]
    if forgery == "of another session":
        form["forgery"] = office.field(office.client().get("/login").text, "forgery")
    if path == "/login":
        form = {name: form[name] for name in ("forgery", "token", "next") if name in form}
    answer = client.post(path.format(id=request), data=form)
    assert answer.status_code == 403
    assert voted(office) == 0
    assert client.get("/").status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_only_a_post_decides(office, client, method) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    before = office.kinds()
    for path in (f"/requests/{request}/votes", f"/api/requests/{request}/votes", "/logout"):
        answer = client.request(method, path, params=form)
        assert answer.status_code in {404, 405}
    assert office.kinds() == before


def test_no_get_changes_anything(office, client) -> None:
    request = office.hold()
    before = office.kinds()
    for path in ("/", f"/?voted={request}", f"/requests/{request}", "/login", "/healthz"):
        for headers in ({}, {"purpose": "prefetch", "sec-purpose": "prefetch"}):
            client.get(path, headers=headers)
            client.head(path, headers=headers)
    assert office.kinds() == before


def test_a_planted_session_id_is_never_signed_in(office, fatima) -> None:
    """Session fixation: whoever knows the id from before the login has nothing after it."""
    victim, attacker = office.client(), office.client()
    planted = "ab" * 16
    victim.cookies.set("governance", planted, domain="localhost.local", path="/")
    assert office.sign_in(victim, fatima).status_code == 303
    attacker.cookies.set("governance", planted)
    assert attacker.get("/").status_code == 303
    assert planted not in str(victim.cookies.get("governance"))


def test_each_login_draws_a_new_id_and_ends_the_old_session(office, fatima) -> None:
    browser = office.client()
    forgery = office.field(browser.get("/login").text, "forgery")
    first = browser.cookies["governance"]
    browser.post("/login", data={"forgery": forgery, "token": fatima, "next": "/"})
    second = browser.cookies["governance"]
    assert first != second
    assert len(second) == 32


def test_logout_ends_the_session_at_the_server(office, client) -> None:
    stolen = client.cookies["governance"]
    forgery = office.field(client.get("/").text, "forgery")
    answer = client.post("/logout", data={"forgery": forgery})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    thief = office.client()
    thief.cookies.set("governance", stolen)
    assert thief.get("/").headers["location"] == "/login"


def test_an_idle_session_ends(office, client) -> None:
    office.clock.pass_seconds(IDLE_LIMIT_S - 1)
    assert client.get("/").status_code == 200
    office.clock.pass_seconds(IDLE_LIMIT_S - 1)
    assert client.get("/").status_code == 200
    office.clock.pass_seconds(IDLE_LIMIT_S)
    assert client.get("/").status_code == 303


def test_a_busy_session_ends_as_well(office, client) -> None:
    step = IDLE_LIMIT_S // 2
    for _ in range(ABSOLUTE_LIMIT_S // step - 1):
        office.clock.pass_seconds(step)
        assert client.get("/").status_code == 200
    office.clock.pass_seconds(step)
    assert client.get("/").status_code == 303


def test_a_vote_after_the_session_ended_is_no_vote(office, client) -> None:
    request = office.hold()
    form = office.fill(client, request, "approve")
    office.clock.pass_seconds(IDLE_LIMIT_S)
    answer = client.post(f"/requests/{request}/votes", data=form)
    assert answer.status_code == 401
    assert "Sign in" in answer.text
    assert voted(office) == 0


def test_somebody_deactivated_is_out_at_once(office, client) -> None:
    from governance import people

    person = office.store.read(lambda reader: reader.people.by_name("Fatima Haddad"))
    people.deactivate(office.store, person.subject)
    assert client.get("/").status_code == 303


def test_who_is_signed_in_with_a_token_that_was_replaced_is_out_at_once(office, client) -> None:
    from governance import people

    other = office.client()
    assert client.get("/").status_code == 200
    person = office.store.read(lambda reader: reader.people.by_name("Fatima Haddad"))
    fresh = people.rotate_token(office.store, lambda n: b"r" * n, person.subject)
    assert client.get("/").status_code == 303
    assert office.sign_in(other, fresh).status_code == 303
    assert other.get("/").status_code == 200


def test_too_many_wrong_tokens_lock_the_address_for_a_while(office, fatima) -> None:
    browser = office.client()
    answers = [office.sign_in(browser, f"gov_{'a' * 52}") for _ in range(LOGIN_FAILURES_MAX)]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.text for answer in answers}) == 1
    locked = office.sign_in(browser, fatima)
    assert locked.status_code == 429
    assert browser.get("/").status_code == 303
    bearer = {"authorization": f"Bearer {fatima}"}
    assert browser.get("/api/requests", headers=bearer).headers["retry-after"] == "300"
    office.clock.pass_seconds(LOGIN_WINDOW_S)
    assert office.sign_in(browser, fatima).status_code == 303


def test_the_answer_to_a_wrong_token_tells_nothing(office, fatima) -> None:
    from governance import people

    person, gone = office.person("Gone Girl", "finance")
    people.deactivate(office.store, person.subject)
    browser = office.client()
    bodies = {office.sign_in(browser, token).text for token in (gone, "x", f"gov_{'a' * 52}", "é")}
    assert len(bodies) == 1


def test_the_table_of_addresses_is_bounded() -> None:
    attempts = Attempts()
    for number in range(ADDRESSES_MAX + 10):
        attempts.failed(f"10.0.{number // 256}.{number % 256}", 0)
    assert len(attempts._failed) == ADDRESSES_MAX


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "[::2]", "", "169.254.1.1"],
)
def test_a_foreign_host_name_is_not_served(office, client, host) -> None:
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 403
    assert "is not served here" in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8700", "[::1]:8700", "LOCALHOST:1"])
def test_loopback_names_are_served(office, host) -> None:
    assert office.client().get("/healthz", headers={"host": host}).status_code == 200


def test_a_configured_host_is_served_over_https_with_the_stricter_cookie(office, fatima) -> None:
    browser = office.client("https://gov.example", office.open_app("gov.example"))
    page = browser.get("/login")
    cookie = page.headers["set-cookie"]
    assert cookie.startswith("__Host-governance=")
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= set(cookie.split("; "))
    assert "Domain" not in cookie
    assert page.headers["strict-transport-security"]
    assert office.sign_in(browser, fatima).status_code == 303
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("host", ["*", "", "https://gov.example", "gov.example:443", "a b", ".x"])
def test_a_configured_host_is_a_bare_name(host) -> None:
    with pytest.raises(InvalidInputError, match="without scheme, port or wildcard"):
        WebSettings(hosts=(host,))


def test_on_localhost_the_cookie_is_plain_but_closed(office) -> None:
    cookie = office.client().get("/login").headers["set-cookie"]
    assert cookie.startswith("governance=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "Secure" not in cookie


def assert_guarded(answer) -> None:
    policy = answer.headers["content-security-policy"]
    for part in (
        "default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self' data:",
        "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'", "connect-src 'self'",
    ):  # fmt: skip
        assert part in policy.split("; ")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    assert " onclick" not in answer.text


def test_every_answer_carries_the_headers(office, client) -> None:
    request = office.hold()
    for path in (
        "/", f"/requests/{request}", "/requests/none", "/login", "/nothing", "/healthz", "/queue.css",
        "/queue.js", "/api/requests", "/docs", "/openapi.json", "/requests/%00", "/requests/a/b",
    ):  # fmt: skip
        assert_guarded(client.get(path))
        assert_guarded(client.delete(path))
    assert_guarded(office.client().get("/"))
    assert_guarded(client.get("/", headers={"host": "evil.example"}))
    assert_guarded(client.post("/login", content=b"x" * (BODY_BYTES_MAX + 1)))
    assert_guarded(client.post("/login", headers={"origin": "https://evil.example"}))


def test_the_framework_shows_no_documentation(client) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert client.get(path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/login", "/logout", "/requests/x/votes", "/api/requests/x/votes"]
)
def test_a_large_body_is_not_read(client, path) -> None:
    assert client.post(path, content=b"x" * (BODY_BYTES_MAX + 1)).status_code == 413
    chunks = (b"x" * 1024 for _ in range(BODY_BYTES_MAX // 1024 + 1))
    assert client.post(path, content=chunks).status_code == 413
    lying = {"content-length": "-1"}
    assert client.post(path, content=b"", headers=lying).status_code == 413


def test_a_body_at_the_limit_is_read(client) -> None:
    answer = client.post("/login", content=b"x" * BODY_BYTES_MAX)
    assert answer.status_code == 415


@pytest.mark.parametrize(
    ("body", "type", "status"),
    [
        ("forgery=a&forgery=b", "application/x-www-form-urlencoded", 422),
        ("&".join(f"f{n}=1" for n in range(20)), "application/x-www-form-urlencoded", 422),
        ("novalue", "application/x-www-form-urlencoded", 422),
        ("token=%ff", "application/x-www-form-urlencoded", 422),
        ("tokén=1", "application/x-www-form-urlencoded", 422),
        ("surprise=1", "application/x-www-form-urlencoded", 422),
        ("{}", "application/json", 415),
        ("--x--", "multipart/form-data; boundary=x", 415),
    ],
)
def test_forms_are_read_strictly(client, body, type, status) -> None:
    answer = client.post("/login", content=body.encode(), headers={"content-type": type})
    assert answer.status_code == status


def test_a_fault_inside_tells_nothing_and_keeps_the_headers(office, client, monkeypatch) -> None:
    def broken(work):
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(office.store, "read", broken)
    answer = client.get("/requests/apr-0001")
    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    assert_guarded(answer)


def test_an_unavailable_store_says_so(office, client, monkeypatch) -> None:
    def down(work):
        raise UnavailableError("disk is full", hint="free some space")

    monkeypatch.setattr(office.store, "read", down)
    answer = client.get("/")
    assert answer.status_code == 503
    assert "Disk is full." in answer.text
    assert "Free some space." in answer.text
    assert client.get("/healthz").status_code == 503


def test_login_leads_back_to_the_page_that_was_asked_for_and_nowhere_else(office, fatima) -> None:
    browser: TestClient = office.client()
    asked = browser.get("/requests/apr-0001").headers["location"]
    assert asked == "/login?next=/requests/apr-0001"
    for next, lands in (
        ("/requests/apr-0001", "/requests/apr-0001"),
        ("https://evil.example", "/"),
        ("//evil.example", "/"),
        ("/requests/../logout", "/"),
        ("/requests/x\r\nset-cookie: a=b", "/"),
    ):
        page = browser.get("/login", params={"next": next})
        form = {"forgery": office.field(page.text, "forgery"), "token": fatima, "next": next}
        assert browser.post("/login", data=form).headers["location"] == lands
        browser.cookies.clear()
