"""The queue for programs: a bearer token, strict JSON, the same rules."""

import pytest

from governance.approval.card import RENDERER_VERSION
from governance.canonical import digest
from governance.ledger.entry import Kind
from governance.policy.model import Seat


@pytest.fixture
def bearer(fatima) -> dict[str, str]:
    return {"authorization": f"Bearer {fatima}"}


def ballot(api, request, bearer, verdict="approve", **more):
    card = api.get(f"/api/requests/{request}", headers=bearer).json()["digest"]
    return {"verdict": verdict, "meaning": verdict, "note": "", "card": card} | more


def test_list_look_and_vote(office, bearer) -> None:
    api = office.client()
    request = office.hold(seats=(Seat("finance", 1),))
    listed = api.get("/api/requests", headers=bearer).json()
    assert [item["request"] for item in listed["pending"]] == [request]
    assert listed["pending"][0]["seats"] == [{"role": "finance", "count": 1, "filled": 0}]
    shown = api.get(f"/api/requests/{request}", headers=bearer).json()
    assert shown["card"]["call"]["arguments"] == '{"amount_cents":24000}'
    assert shown["state"] == "pending"
    renderer = {"renderer": RENDERER_VERSION, "card": shown["card"]}
    assert digest("governance/card/v1", renderer).hex() == shown["digest"]
    answer = api.post(
        f"/api/requests/{request}/votes", headers=bearer, json=ballot(api, request, bearer)
    )
    assert (answer.status_code, answer.json()) == (200, {"request": request, "state": "granted"})
    after = api.get("/api/requests", headers=bearer).json()
    assert (after["pending"], len(after["granted"])) == ([], 1)
    votes = api.get(f"/api/requests/{request}", headers=bearer).json()["votes"]
    assert [vote["verdict"] for vote in votes] == ["approve"]


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer x", "Basic {token}", "{token}", "Bearer {token}x"],
)
@pytest.mark.parametrize("path", ["/api/requests", "/api/requests/apr-0001"])
def test_without_a_token_there_is_nothing(office, fatima, header, path) -> None:
    office.hold()
    headers = {} if header is None else {"authorization": header.format(token=fatima)}
    answer = office.client().get(path, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["kind"] == "refused"


def test_a_session_cookie_opens_no_api_and_a_bearer_no_page(office, client, bearer) -> None:
    request = office.hold()
    assert client.get("/api/requests").status_code == 401
    vote = ballot(office.client(), request, bearer)
    assert client.post(f"/api/requests/{request}/votes", json=vote).status_code == 401
    assert office.client().get("/", headers=bearer).status_code == 303
    assert not office.records(Kind.APPROVAL_VOTED)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b"{", 422),
        (b'{"verdict":"approve","verdict":"reject"}', 422),
        (b'{"verdict":NaN}', 422),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 422),
        (b'{"verdict":true,"meaning":"approve","note":"","card":""}', 422),
        (b'{"note":"\\ud800"}', 422),
        (b"\xff", 422),
    ],
)
def test_json_is_read_strictly(office, bearer, body, status) -> None:
    request = office.hold()
    headers = bearer | {"content-type": "application/json"}
    answer = office.client().post(f"/api/requests/{request}/votes", headers=headers, content=body)
    assert answer.status_code == status
    assert answer.json()["error"]["kind"] == "invalid-input"
    assert not office.records(Kind.APPROVAL_VOTED)


@pytest.mark.parametrize(
    "change",
    [{"verdict": True}, {"verdict": "Approve"}, {"meaning": 1}, {"note": None}, {"extra": 1}],
)
def test_a_vote_is_exact(office, bearer, change) -> None:
    api, request = office.client(), office.hold()
    vote = ballot(api, request, bearer) | change
    answer = api.post(f"/api/requests/{request}/votes", headers=bearer, json=vote)
    assert answer.status_code == 422
    assert not office.records(Kind.APPROVAL_VOTED)


def test_a_form_is_not_json(office, bearer) -> None:
    answer = office.client().post("/api/requests/x/votes", headers=bearer, data={"verdict": "x"})
    assert answer.status_code == 415


def test_unknown_requests_are_not_found(office, bearer) -> None:
    api, vote = (
        office.client(),
        {"verdict": "approve", "meaning": "approve", "note": "", "card": ""},
    )
    for id in ("apr-9999", "a%20b"):
        assert api.get(f"/api/requests/{id}", headers=bearer).status_code == 404
        post = api.post(f"/api/requests/{id}/votes", headers=bearer, json=vote)
        assert post.status_code == 404


def test_a_stale_card_and_a_second_vote_are_conflicts(office, bearer) -> None:
    api, request = office.client(), office.hold()
    vote = ballot(api, request, bearer)
    path = f"/api/requests/{request}/votes"
    stale = api.post(path, headers=bearer, json=vote | {"card": "00" * 32})
    assert (stale.status_code, stale.json()["error"]["kind"]) == (409, "conflict")
    assert api.post(path, headers=bearer, json=vote).status_code == 200
    assert api.post(path, headers=bearer, json=vote).status_code == 409
    assert len(office.records(Kind.APPROVAL_VOTED)) == 1


def test_somebody_without_the_role_is_refused_on_record(office) -> None:
    api, request = office.client(), office.hold()
    _, token = office.person("Olga Petrova", "support")
    bearer = {"authorization": f"Bearer {token}"}
    vote = ballot(api, request, bearer)
    answer = api.post(f"/api/requests/{request}/votes", headers=bearer, json=vote)
    assert answer.status_code == 403
    assert "holds no role" in answer.json()["error"]["message"]
    (refused,) = office.records(Kind.ACCESS_REFUSED)
    assert refused.entry.body["request"] == request


def test_a_rejection_needs_its_reason_here_too(office, bearer) -> None:
    api, request = office.client(), office.hold()
    vote = ballot(api, request, bearer, "reject")
    path = f"/api/requests/{request}/votes"
    assert api.post(path, headers=bearer, json=vote).status_code == 422
    told = vote | {"note": "not this customer"}
    assert api.post(path, headers=bearer, json=told).json()["state"] == "rejected"


def test_health_needs_no_token(office) -> None:
    answer = office.client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})
