"""Is the log anchored out of our own reach? `governance anchor` does it, `governance status` tells."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from governance.canonical import JSON
from governance.cli.console import facts, moment, plain, say, show_json, table, talk
from governance.cli.options import AsJson, HomeDir
from governance.errors import ConflictError, InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from governance.anchors.settings import Settings
    from governance.anchors.status import SinkStatus, Status
    from governance.anchors.troubles import Troubles
    from governance.assemble import Governance

__all__ = ["add_to", "anchored", "outside"]

TROUBLES: Final = "anchors.troubles"
_MICROS: Final = 1_000_000

AnchorsFile = Annotated[
    Path | None,
    typer.Option(
        "--anchors",
        metavar="FILE",
        help="The file that says where; else GOVERNANCE_ANCHORS.",
        show_default=False,
    ),
]
Once = Annotated[
    bool,
    typer.Option("--once", help="Do it now, also where it failed, and end.", show_default=False),
]


def add_to(app: typer.Typer) -> None:
    app.command()(anchor)
    app.command()(status)


def anchor(
    *, once: Once = False, anchors: AnchorsFile = None, home: HomeDir = None, json: AsJson = False
) -> None:
    """Put the signed head out of our own reach: in each sink now (--once), or whenever it is due.

    Exit status 6 when any sink failed.
    """
    from governance.anchors.rounds import anchor as anchor_now
    from governance.anchors.schedule import Schedule
    from governance.assemble import Governance
    from governance.cli.serving import leave_when_asked

    settings = _settings(anchors)
    if settings is None:
        raise InvalidInputError(
            "nothing says where the log is anchored", hint="set GOVERNANCE_ANCHORS, or `--anchors`"
        )
    with Governance.without_rules(home) as governance:
        troubles = _troubles(home)
        if not once:
            leave_when_asked()
            with Schedule(governance.store, settings, troubles, governance.clock, _report):
                talk("anchoring, until interrupted")
                while True:
                    time.sleep(settings.every_s)
        done = anchor_now(governance.store, settings, troubles, governance.clock, patient=False)
    if json:
        show_json([{"sink": o.sink, "size": o.size, "error": o.error or None} for o in done])
    elif not done:
        say("nothing waits to be anchored")
    else:
        rows = [
            (plain(o.sink), str(o.size), plain(o.error) if o.error else "anchored") for o in done
        ]
        say(table(("sink", "size", ""), rows))
    if any(outcome.error for outcome in done):
        raise typer.Exit(UnavailableError.exit_status)


def status(*, anchors: AnchorsFile = None, home: HomeDir = None, json: AsJson = False) -> None:
    """Tell how far the log is signed and anchored, and what waits.

    Exit status 6 when it is anchored too late, or has not been heard of for too long.
    """
    from governance.anchors.status import status as look
    from governance.assemble import Governance

    settings, troubles = _settings(anchors), _troubles(home)
    with Governance.without_rules(home) as governance:
        found = look(governance.store, settings, troubles.read(), governance.clock())
    if json:
        show_json(_to_json(found))
    else:
        _show(found, anchored=settings is not None)
    if found.overdue:
        raise typer.Exit(UnavailableError.exit_status)


@contextmanager
def anchored(governance: "Governance", home: Path | None) -> Iterator[None]:
    """Anchor in the background as long as the block lasts, where the log is anchored at all."""
    from governance.anchors.schedule import Schedule

    settings = _settings(None)
    if settings is None:
        yield
        return
    with Schedule(governance.store, settings, _troubles(home), governance.clock, _report):
        yield


def outside(
    governance: "Governance", home: Path | None
) -> tuple[tuple[int, str], dict[tuple[int, str], bytes]]:
    """The head to hand out, (size, note), and stamps: anchored first, where the log is anchored at all.

    A sink that fails is told of, and keeps nobody from exporting.
    """
    from governance.anchors.rounds import anchor as anchor_now
    from governance.anchors.rounds import settled, stamps

    store, settings = governance.store, _settings(None)
    if settings is None:
        return store.checkpoint(), {}
    try:
        troubles = _troubles(home)
        for done in anchor_now(store, settings, troubles, governance.clock, patient=False):
            if done.error:
                _report(f"anchor {done.sink}: {done.error}")
    except ConflictError as exc:
        _report(str(exc))
    size = store.read(lambda reader: settled(reader, settings))
    note = store.read(lambda reader: reader.tree.checkpoint(size)) if size else None
    head = (size, note) if size and note else store.checkpoint()
    return head, store.read(lambda reader: stamps(reader, settings))


def _settings(given: Path | None) -> "Settings | None":
    import secrets

    from governance.anchors.settings import read_settings
    from governance.config import anchors_file

    file = given or anchors_file()
    return None if file is None else read_settings(file, secrets.token_bytes)


def _troubles(home: Path | None) -> "Troubles":
    from governance.anchors.troubles import Troubles
    from governance.config import Home

    return Troubles(Home.find(home).folder / TROUBLES)


def _report(text: str) -> None:
    talk(plain(text))


def _show(found: "Status", *, anchored: bool) -> None:
    beat = moment(found.beat) if found.beat is not None else "none yet"
    known = {
        "log": plain(found.log),
        "entries": f"{found.size}, the last at {moment(found.last)}",
        "signed": f"{found.signed} entries",
        "heartbeat": f"{beat}{', and silent too long' if found.silent else ''}",
    }
    if not anchored:
        say(facts(known | {"anchored": "nowhere: set GOVERNANCE_ANCHORS"}))
        return
    tail = found.size - found.anchored
    say(facts(known | {"anchored": f"{found.anchored} entries; {tail} are in no sink"}), "")
    rows = [_row(sink, found) for sink in found.sinks]
    say(table(("sink", "kind", "size", "age", "waiting since", ""), rows))


def _row(sink: "SinkStatus", found: "Status") -> tuple[str | Text, ...]:
    state = sink.state
    age = _span(found.now - state.at) if state.at is not None else "never"
    waits = moment(state.since) if state.since is not None else "nothing waits"
    said = f"failed {sink.trouble.failures}x: {plain(sink.trouble.error)}" if sink.trouble else ""
    late = Text("overdue  ", "bold red") if sink.overdue else Text()
    return plain(sink.name), sink.kind, str(state.size), age, waits, late.append(said)


def _span(micros: int) -> str:
    seconds = max(micros // _MICROS, 0)
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _to_json(found: "Status") -> dict[str, JSON]:
    return {
        "log": found.log,
        "now": found.now,
        "size": found.size,
        "last": found.last,
        "signed": found.signed,
        "anchored": found.anchored,
        "tail": found.size - found.anchored,
        "beat": found.beat,
        "silent": found.silent,
        "overdue": found.overdue,
        "sinks": [_sink_to_json(sink, found) for sink in found.sinks],
    }


def _sink_to_json(sink: "SinkStatus", found: "Status") -> dict[str, JSON]:
    state, trouble = sink.state, sink.trouble
    return {
        "name": sink.name,
        "kind": sink.kind,
        "size": state.size,
        "tail": found.size - state.size,
        "at": state.at,
        "age_s": (found.now - state.at) // _MICROS if state.at is not None else None,
        "waiting_since": state.since,
        "overdue": sink.overdue,
        "failures": trouble.failures if trouble else 0,
        "error": trouble.error if trouble else None,
    }
