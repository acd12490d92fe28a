"""What does governance look like, the whole way once? `governance demo`: a refund desk and a person.

The agent runs in child processes, by the same commands anybody would type; the queue, and where none is
named the model, are served by this process. Everything stays in the demo's folder to be looked at.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from governance.cli.console import FAINT, facts, plain, say
from governance.errors import GovernanceError, RefusedError, UnavailableError
from governance.ids import Origin, RequestId, RunId

if TYPE_CHECKING:
    from governance.assemble import Governance
    from governance.queue import Pending

__all__ = ["add_to"]

ORIGIN: Final = Origin("demo/refund-desk")
RUN: Final = RunId("demo")
APPROVER: Final = "Dana"
POLICY: Final = "refund_desk.yaml"
BUNDLE: Final = "bundle"
MODEL: Final = "refund-desk"
ROUNDS_MAX: Final = 10
"""A live model may propose one held call after another; the demo does not follow it for ever."""
LOOK_S: Final = 0.3
START_S_MAX: Final = 15
HTTP_S_MAX: Final = 10
FOLDERS_MAX: Final = 1_000

_AGENT: Final = '''"""The agent of this demo, as its own commands name it: `desk:agent`."""

from pathlib import Path

from agent import DurableAgent
from agent.demo import EFFECTS, desk_agent
from governance import Governance


def agent(governance: Governance) -> DurableAgent:
    effects = Path(__file__).with_name(EFFECTS)
    return desk_agent(governance, effects, {model!r}, base_url={base_url!r})
'''

Yes = Annotated[bool, typer.Option("--yes", help="Answer by itself, over HTTP.")]
LiveModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="Ask this live model, with OPENAI_API_KEY, instead of the script.",
        show_default=False,
    ),
]
QueuePort = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="The queue's port; 0 for any free one.")
]
Folder = Annotated[
    Path | None,
    typer.Option("--folder", metavar="DIR", help="Where everything goes; else .governance/demo-N."),
]


def add_to(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    *, yes: Yes = False, model: LiveModel = None, port: QueuePort = 0, folder: Folder = None
) -> None:
    """Go the whole way once: a run is held, a person answers, another process goes on, it verifies."""
    watched = sys.stdin.isatty() and sys.stdout.isatty()
    place = _new_folder(folder)
    with ExitStack() as stack:
        base_url = None if model else stack.enter_context(_scripted_model())
        stage = stack.enter_context(_stage(place, port, by_itself=yes or not watched))
        _write_agent(place, model or MODEL, base_url)
        _play(stage)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where the demo plays: its folder, its installation, its queue, and who may answer there."""

    folder: Path
    governance: "Governance"
    url: str
    token: str
    by_itself: bool

    def command(self, *args: str) -> None:
        """Run one command of ours in another process. Raises UnavailableError when it fails."""
        shown = " ".join(f'"{a}"' if " " in a else a for a in ("governance", *args))
        say(Text(f"$ {shown}", style="bold"))
        sys.stdout.flush()
        done = subprocess.run(  # noqa: S603  # our own program, with our own words
            [sys.executable, "-m", "governance.cli", *args], cwd=self.folder, check=False
        )
        say("")
        if done.returncode:
            raise UnavailableError(
                f"`governance {args[0]}` ended with status {done.returncode}",
                hint=f"look into `{self.folder}`, where everything is kept",
            )

    def waiting(self) -> "list[Pending]":
        from governance.queue import pending

        store, now = self.governance.store, self.governance.clock()
        return [item for item in pending(store, now) if item.run == RUN]


def _play(stage: _Stage) -> None:
    from agent.demo import QUESTION

    say(f"A refund desk, governed. Everything is kept in {plain(stage.folder)}", "")
    _title(1, "An agent works until it needs a person")
    how = ("--home", ".", "--policy", POLICY)
    stage.command("run", "desk:agent", QUESTION, "--run-id", RUN, *how)
    for _ in range(ROUNDS_MAX):
        waiting = stage.waiting()
        if not waiting:
            break
        _title(2, "A person answers")
        _answer(stage, waiting)
        _title(3, "Another process goes on")
        stage.command("runs", "resume", "desk:agent", RUN, *how)
    _title(4, "The evidence leaves the house, and is verified with nothing but the pinned key")
    key = stage.governance.signer.verifier_key
    stage.command("export", BUNDLE, "--home", ".")
    stage.command("verify", BUNDLE, "--key", key)
    _title(5, "What happened")
    stage.command("runs", "show", RUN, "--home", ".")
    _sum_up(stage, key)


def _title(number: int, words: str) -> None:
    say(Text(f"{number}  {words}", style="bold cyan"), "")


# --- the person -------------------------------------------------------------------------------------


def _answer(stage: _Stage, waiting: "list[Pending]") -> None:
    say(
        facts({"queue": stage.url, "approver": f"{APPROVER}, finance", "token": stage.token}),
        "",
    )
    if stage.by_itself:
        for item in waiting:
            _vote_over_http(stage, item.request)
        say("")
        return
    say(
        f"{len(waiting)} call(s) wait: sign in there with the token, and approve or reject.",
        Text("Interrupting leaves everything as it is.", style=FAINT),
        "",
    )
    while stage.waiting():
        time.sleep(LOOK_S)


def _vote_over_http(stage: _Stage, request: RequestId) -> None:
    """Do as the approver would: look at the card, then say yes to exactly that card."""
    import httpx2

    headers = {"authorization": f"Bearer {stage.token}"}
    path = f"/api/requests/{request}"
    try:
        with httpx2.Client(base_url=stage.url, headers=headers, timeout=HTTP_S_MAX) as client:
            shown = client.get(path).raise_for_status().json()
            call = shown["card"]["call"]
            say(f"{APPROVER} looks at {plain(call['tool'])} {plain(call['arguments'])}")
            ballot = {
                "verdict": "approve",
                "meaning": "approve",
                "note": "the photo shows the broken leg",
                "card": shown["digest"],
            }
            answer = client.post(f"{path}/votes", json=ballot).raise_for_status().json()
    except httpx2.HTTPError as exc:
        raise UnavailableError(
            f"the queue did not take the answer: {exc}", hint=f"look into `{stage.folder}`"
        ) from exc
    say(f"{APPROVER} approves card {shown['digest']}: {answer['state']}")


# --- the stage --------------------------------------------------------------------------------------


def _new_folder(given: Path | None) -> Path:
    """Choose a folder that is not there yet. Raises RefusedError when the demo would leave it."""
    from governance.config import Home

    home = Path(".governance")
    free = (home / f"demo-{n}" for n in range(1, FOLDERS_MAX))
    place = given or next(folder for folder in free if not folder.exists())
    if Home.find(place).checkpoint.parent != place:
        raise RefusedError(
            "GOVERNANCE_CHECKPOINT names a place outside the demo's folder",
            hint="unset it for the demo, so that it does not touch your own checkpoint",
        )
    if given is None:
        home.mkdir(mode=0o700, exist_ok=True)
    return place


@contextmanager
def _stage(place: Path, port: int, *, by_itself: bool) -> "Iterator[_Stage]":
    import secrets

    from governance.assemble import Governance, init
    from governance.config import Home, shipped_policy
    from governance.people import add

    init(Home.find(place), ORIGIN)
    name, text = shipped_policy("examples/refund_desk")
    (place / POLICY).write_text(text, encoding="utf-8")
    with Governance.open(place, policies={name: text}) as governance:
        _, token = add(
            governance.store, governance.new_id, secrets.token_bytes, APPROVER, ["finance"]
        )
        with _queue(governance, port) as url:
            yield _Stage(place, governance, url, token, by_itself)


def _write_agent(place: Path, model: str, base_url: str | None) -> None:
    text = _AGENT.format(model=model, base_url=base_url)
    (place / "desk.py").write_text(text, encoding="utf-8")


@contextmanager
def _scripted_model() -> Iterator[str]:
    from agent.demo import script_text
    from agent.models import ScriptedModelServer, load_script

    with ScriptedModelServer(load_script(script_text())) as server:
        yield server.base_url


@contextmanager
def _queue(governance: "Governance", port: int) -> Iterator[str]:
    """Serve the queue beside the demo; gives its address."""
    import secrets
    import socket
    import threading

    from governance.web import WebSettings, create_app
    from governance.web.serve import quiet_server

    app = create_app(
        governance.store,
        signer=governance.signer,
        clock=governance.clock,
        draw=secrets.token_bytes,
        settings=WebSettings(),
    )
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError as exc:
        raise UnavailableError(
            f"cannot listen on port `{port}`: {exc.strerror or exc}", hint="choose another port"
        ) from exc
    server = quiet_server(app)
    thread = threading.Thread(target=server.run, args=([listener],), name="queue", daemon=True)
    with listener:
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(START_S_MAX)


# --- the end ----------------------------------------------------------------------------------------


def _sum_up(stage: _Stage, key: str) -> None:
    """Compare what the ledger says with what the outside saw, and say where everything is."""
    from agent.demo import EFFECTS, effects

    happened = effects(stage.folder / EFFECTS)
    recorded = _finished(stage.governance)
    say(
        "",
        facts(
            {
                "effects": f"{len(happened)} in {EFFECTS}, {recorded} in the ledger",
                "": "\n".join(map(plain, happened)),
                "bundle": plain(stage.folder / BUNDLE),
                "pin": key,
            }
        ),
    )
    say("", f"again: governance verify {plain(stage.folder / BUNDLE)} --key {key}")
    if len(happened) != recorded:
        raise GovernanceError(
            f"`{len(happened)}` effects happened, and `{recorded}` are recorded",
            hint=f"look into `{stage.folder}`",
        )
    head = stage.governance.store.read(lambda reader: reader.run_head(RUN))
    if head is None or head.status != "completed":
        raise GovernanceError(
            f"the run is not completed but `{head.status if head else 'gone'}`",
            hint=f"look into `{stage.folder}`",
        )


def _finished(governance: "Governance") -> int:
    """Count the calls with side effects that the ledger says have finished."""
    from governance.ledger.entry import Kind

    records = governance.store.read(lambda reader: reader.run_records(RUN))
    changing = {
        record.entry.body["uid"]
        for record in records
        if "input" in record.entry.payloads
        and record.entry.kind is Kind.CALL_DECIDED
        and record.content("input")["tool"]["side_effect"] is not False
    }
    return sum(
        record.entry.kind is Kind.CALL_FINISHED and record.entry.body["uid"] in changing
        for record in records
    )
