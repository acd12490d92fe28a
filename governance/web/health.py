"""What may a machine ask about the log? `/health` for alarms, `/metrics` for Prometheus.

Both are for whoever can reach the address, without a token: they hold counts and ages, no name, no id and
nothing that anybody wrote. `/healthz` tells something else: that the process serves. A supervisor restarts
what does not serve; a log that does not hold is for a person, and a restart mends nothing.
"""

from collections.abc import Iterator
from typing import Final

from fastapi import FastAPI, Response

from governance.canonical import JSON, payload_bytes
from governance.errors import GovernanceError
from governance.livecheck import Health, LiveCheck
from governance.ports import Store

__all__ = ["watch"]

_SECOND: Final = 1_000_000
_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def watch(app: FastAPI, store: Store, live: LiveCheck) -> None:
    """Let `app` answer for what `live` finds out."""

    def health() -> Response:
        known = live.health()
        body = payload_bytes(_summary(known))
        return Response(body, 200 if known.ok else 503, media_type="application/json")

    def metrics() -> Response:
        lines = [line for name in _metrics(store, live.health()) for line in name]
        return Response("\n".join([*lines, ""]), media_type=_TYPE)

    app.add_api_route("/health", health, methods=["GET"])
    app.add_api_route("/metrics", metrics, methods=["GET"])


def _summary(known: Health) -> dict[str, JSON]:
    outcome = known.outcome
    state = "overdue" if known.is_overdue else "checking"
    if outcome is not None and not (known.is_overdue and outcome.ok):
        state = "holds" if outcome.ok else "does-not-hold"
    return {
        "ok": known.ok,
        "log": state,
        "age_s": known.age_us // _SECOND,
        "findings": outcome.inspection.count if outcome else 0,
        "verified": _verified(known),
        "failing": bool(known.failure),
    }


def _verified(known: Health) -> int:
    """How many entries the last check found whole; 0 when it found anything, or none has ended."""
    outcome = known.outcome
    return outcome.inspection.size if outcome is not None and outcome.ok else 0


def _metrics(store: Store, known: Health) -> Iterator[tuple[str, str, str]]:
    try:
        size = store.read(lambda reader: reader.head().size)
    except GovernanceError:
        pass  # a log that cannot be read has no size; the check says why
    else:
        yield _gauge("ledger_size", "Entries in the log.", size)
    yield _gauge(
        "check_age_seconds",
        "Since the last check ended, or since the start.",
        known.age_us / _SECOND,
    )
    outcome = known.outcome
    if outcome is None:
        return  # nothing is known yet, good or bad
    outcome = known.outcome
    if outcome is None:
        return  # nothing is known yet, good or bad
    yield _gauge("check_ok", "1 if the last check found nothing and is not overdue.", int(known.ok))
    yield _gauge(
        "check_verified_size", "Entries that the last check found whole.", _verified(known)
    )
    yield _gauge("check_findings", "What the last check found.", outcome.inspection.count)


def _gauge(name: str, means: str, value: float) -> tuple[str, str, str]:
    full = f"governance_{name}"
    return f"# HELP {full} {means}", f"# TYPE {full} gauge", f"{full} {value}"
