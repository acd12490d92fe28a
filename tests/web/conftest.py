"""An office to test in: a store in memory, a clock to turn, people with tokens, held calls."""

import hashlib
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi import FastAPI
from starlette.testclient import TestClient

from governance import people
from governance.ids import Micros, Origin, RequestId, RunId, SubjectId, call_uid
from governance.lawful.approvals import subject_digest, subject_of
from governance.ledger.checkpoint import verifier_key
from governance.ledger.entry import Draft, Kind, Record
from governance.policy.model import Demands, Seat
from governance.ports import Person, Transaction
from governance.store.memory import MemoryStore
from governance.web import WebSettings, create_app

SECOND = 1_000_000
MORNING = Micros(1_772_000_000 * SECOND)
AGENT = SubjectId("agent:refund-desk")
CUSTOMER = SubjectId("user:customer-17")
ORIGIN = Origin("bank.example/agents")
HOME = "http://localhost:8700"


class Clock:
    def __init__(self) -> None:
        self.now = MORNING

    def __call__(self) -> Micros:
        return self.now

    def pass_seconds(self, seconds: int) -> None:
        self.now = Micros(self.now + seconds * SECOND)


class Signer:
    origin = ORIGIN

    def __init__(self) -> None:
        self._key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        self.verifier_key = verifier_key(ORIGIN, self._key.public_key().public_bytes_raw())

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)


def drawing(seed: str) -> Callable[[int], bytes]:
    """Draw bytes that differ each time and are the same in each test run."""
    count = itertools.count()
    return lambda size: hashlib.shake_256(f"{seed}{next(count)}".encode()).digest(size)


@dataclass
class Office:
    clock: Clock = field(default_factory=Clock)
    signer: Signer = field(default_factory=Signer)
    count: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.store = MemoryStore(ORIGIN, self.signer, self.clock, drawing("salt"))
        self.app = self.open_app()

    def open_app(self, *hosts: str) -> FastAPI:
        return create_app(
            self.store,
            signer=self.signer,
            clock=self.clock,
            draw=drawing("session"),
            settings=WebSettings(hosts=hosts),
        )

    def client(self, base_url: str = HOME, app: FastAPI | None = None) -> TestClient:
        return TestClient(
            app or self.app, base_url, raise_server_exceptions=False, follow_redirects=False
        )

    def person(self, name: str, *roles: str) -> tuple[Person, str]:
        draw = drawing(f"token of {name}")
        new_id = lambda prefix: prefix + hashlib.sha256(name.encode()).hexdigest()[:10]  # noqa: E731
        return people.add(self.store, new_id, draw, name, roles)

    def hold(
        self,
        tool: str = "refund_order",
        args: Any = None,
        *,
        message: str | None = "refund of 240.00 EUR",
        seats: tuple[Seat, ...] = (Seat("finance", 1),),
        tier: str = "critical",
        decide_by_s: int = 4 * 3600,
        principal: SubjectId | None = CUSTOMER,
        origins: dict[str, str] | None = None,
    ) -> RequestId:
        """Write a run that has come to a held call, as the agent would."""
        number = next(self.count)
        run, request = RunId(f"run-{number:04}"), RequestId(f"apr-{number:04}")
        call = Held(run, request, tool, {"amount_cents": 24_000} if args is None else args)
        demands = Demands(seats, decide_by_s, use_by_s=3600)
        texts = (message, origins or {})
        self.store.write(
            lambda tx: _write_held(tx, call, tier, demands, (principal, self.clock(), *texts))
        )
        return request

    def sign_in(self, client: TestClient, token: str) -> Any:
        forgery = self.field(client.get("/login").text, "forgery")
        return client.post("/login", data={"forgery": forgery, "token": token, "next": "/"})

    def fill(self, client: TestClient, request: str, verdict: str, **more: str) -> dict[str, str]:
        """Fill in the form that the card's page shows."""
        page = client.get(f"/requests/{request}").text
        form = {name: self.field(page, name) for name in ("forgery", "card")}
        return form | {"verdict": verdict, "meaning": verdict, "note": ""} | more

    def field(self, page: str, name: str) -> str:
        """Read a hidden field off a page."""
        found = re.search(rf'name="{name}" value="([^"]*)"', page)
        assert found, f"no field {name} on the page"
        return found.group(1)

    def kinds(self) -> list[Kind]:
        return [r.entry.kind for r in self.store.read(lambda reader: reader.records())]

    def records(self, kind: Kind) -> list[Record]:
        found = self.store.read(lambda reader: reader.records())
        return [record for record in found if record.entry.kind is kind]


@dataclass(frozen=True)
class Held:
    run: RunId
    request: RequestId
    tool: str
    args: Any


def _write_held(
    tx: Transaction, call: Held, tier: str, demands: Demands, more: tuple[Any, ...]
) -> None:
    principal, now, message, origins = more

    def append(kind: Kind, body: Any, payloads: Any = None) -> Record:
        draft = Draft(kind, AGENT, body, payloads or {}, call.run, principal)
        return tx.append(draft, now)

    behalf = {"id": principal or AGENT, "roles": [], "tenant": None}
    body = {"agent": AGENT, "model": "m", "principal": behalf, "tools": {}, "limits": {}}
    said = [{"role": "user", "content": "Please refund my order 7731, the lamp is broken."}]
    started = append(Kind.RUN_STARTED, body, {"input": {"messages": said}})
    look_up = {"uid": call_uid(call.run, 1, 0), "tool": "find_order", "definition": "ab" * 32}
    ruled = {"effect": "allow", "tier": "low", "policy": "cd" * 32, "rules": [], "reasons": []}
    append(Kind.CALL_DECIDED, look_up | ruled, {"args": {}, "input": {}})
    append(Kind.CALL_FINISHED, {"uid": look_up["uid"], "attempt": 1, "duration_us": 900})
    uid = call_uid(call.run, 2, 0)
    ruled = {
        "effect": "require_approval",
        "tier": tier,
        "policy": "cd" * 32,
        "rules": ["payments/refunds-large"],
        "reasons": [f"tier-{tier}"],
    }
    known = {"verb": "FINANCIAL", "side_effect": True, "reversibility": "hard", "profiled": True}
    payloads = {
        "args": call.args,
        "input": {"tool": known, "run": {"untrusted": False}, "args_origin": origins},
        "working": {
            "engine": "closure 0",
            "tier": [["verb", tier]],
            "clauses": {
                "payments/refunds-large": [
                    ["args.amount_cents > 5000", True],
                    ["args.note == '<b>\u202e'", "missing-key"],
                ],
                "payments/refunds-small": [["args.amount_cents <= 5000", False]],
            },
        },
    } | ({} if message is None else {"message": message})
    decided = append(
        Kind.CALL_DECIDED,
        {"uid": uid, "tool": call.tool, "definition": "ab" * 32} | ruled,
        payloads,
    )
    append(
        Kind.APPROVAL_REQUESTED,
        {
            "request": call.request,
            "uid": uid,
            "subject": subject_digest(subject_of(started.entry, decided.entry)).hex(),
            "decision": decided.entry.seq,
            "demands": demands.to_json(),
            "decide_by": now + demands.decide_by_s * SECOND,
        },
    )


@pytest.fixture
def office() -> Office:
    return Office()


@pytest.fixture
def fatima(office: Office) -> str:
    """A person of finance; the token."""
    return office.person("Fatima Haddad", "finance")[1]


@pytest.fixture
def client(office: Office, fatima: str) -> TestClient:
    """A browser in which Fatima is signed in."""
    browser = office.client()
    office.sign_in(browser, fatima)
    return browser
