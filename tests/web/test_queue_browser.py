"""A person with a real browser: signs in, reads a hostile card, rejects one call, approves another."""

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from governance.ledger.entry import Kind
from governance.web.serve import quiet_server

pytestmark = pytest.mark.browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
HOSTILE = {
    "to": "billing@\u0440\u0430\u0443\u0440\u0430l.com",
    "subject": "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "body": "invoice \u202egpj.exe\u202c\u200b\U000e0068\U000e0069\njavascript:alert(3)",
    '"><svg onload=alert(4)>': "key",
}


@contextmanager
def served(office) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = quiet_server(office.app)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@contextmanager
def browsing(**options):
    from playwright.sync_api import sync_playwright

    if not CHROMIUM:
        if os.environ.get("CI"):
            pytest.fail("Chromium is not installed")
        pytest.skip("Chromium is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(**options)
        context.set_default_timeout(10_000)
        try:
            yield context.new_page()
        finally:
            browser.close()


def complaints(page) -> list[str]:
    """Collect what must not happen: dialogs, script errors, console and CSP messages."""
    heard: list[str] = []
    page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("console", lambda said: said.type in {"error", "warning"} and heard.append(said.text))
    return heard


def test_a_person_answers_in_the_browser(office, fatima) -> None:
    from playwright.sync_api import expect

    hostile = office.hold("send_email", HOSTILE, message="<b>mail</b> to a customer")
    plain = office.hold("refund_order", {"amount_cents": 24_000})
    with served(office) as home, browsing() as page:
        heard = complaints(page)

        def keys_work() -> None:
            expect(page.get_by_role("button", name="Keyboard help")).to_be_visible()

        page.goto(f"{home}/requests/{hostile}")
        page.get_by_label("Personal token").fill(fatima)
        page.get_by_role("button", name="Sign in").click()

        # The hostile card: inert, complete, marked.
        expect(page.get_by_role("heading", level=1)).to_contain_text("send_email")
        expect(page.locator(".value", has_text="<script>alert(1)</script>")).to_be_visible()
        expect(page.locator(".value .bidi").first).to_have_text("U+202E")
        expect(page.locator(".value .tag")).to_contain_text("hi")
        expect(page.locator(".value .lookalike")).to_contain_text("U+0440")
        expect(page.locator("#exact")).to_contain_text(r"invoice \u202egpj.exe\u202c\u200b")
        expect(page.locator("main script, main svg, main img, main b b")).to_have_count(0)

        # Nothing is chosen beforehand; a key goes to an answer and sends nothing.
        keys_work()
        assert page.evaluate("document.activeElement.tagName") == "BODY"
        expect(page.get_by_role("button", name="Approve this call")).to_be_disabled()
        page.keyboard.press("a")
        expect(page.locator("#read-all")).to_be_focused()
        page.keyboard.press("Enter")
        page.keyboard.press("r")
        expect(page.locator("#reject-note")).to_be_focused()
        assert not office.records(Kind.APPROVAL_VOTED)

        page.locator("#reject-note").fill("the address is not what it looks like")
        page.get_by_role("button", name="Reject").click()
        expect(page.get_by_role("status")).to_contain_text("You rejected `send_email`")

        # The other one, by keyboard.
        keys_work()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("refund_order")
        keys_work()
        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve this call")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("The approval is complete")
        expect(page.get_by_role("heading", name="Approved, not yet run")).to_be_visible()

        keys_work()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    assert heard == []
    verdicts = {
        r.entry.body["request"]: r.entry.body["verdict"]
        for r in office.records(Kind.APPROVAL_VOTED)
    }
    assert verdicts == {hostile: "reject", plain: "approve"}


def test_everything_works_without_scripts(office, fatima) -> None:
    from playwright.sync_api import expect

    request = office.hold("send_email", HOSTILE)
    with served(office) as home, browsing(java_script_enabled=False) as page:
        page.goto(home)
        page.get_by_label("Personal token").fill(fatima)
        page.get_by_label("Personal token").press("Enter")
        page.get_by_role("link", name="send_email").click()
        page.get_by_label("I have read it all").check()
        page.get_by_role("button", name="Approve this call").click()
        expect(page.get_by_role("status")).to_contain_text("The approval is complete")
    (vote,) = office.records(Kind.APPROVAL_VOTED)
    assert vote.entry.body["request"] == request
