"""How are the approval queue and the scripted model put on a socket? `serve` and `demo-model`."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Annotated

import typer

from governance.cli.anchoring import anchored
from governance.cli.console import plain, say, talk
from governance.cli.options import HomeDir, Host, PolicyPaths, Port
from governance.cli.target import open_agent

if TYPE_CHECKING:
    from agent.worker import Failure
    from governance.assemble import Governance

__all__ = ["add_to", "leave_when_asked"]

Agent = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="MODULE:ATTR",
        help="Go on with this agent's runs as soon as their answers are in.",
        show_default=False,
    ),
]
Script = Annotated[Path, typer.Argument(metavar="SCRIPT", help="A YAML script of what it says.")]


def add_to(app: typer.Typer) -> None:
    app.command()(serve)
    app.command(name="demo-model")(demo_model)


def serve(
    *,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    agent: Agent = None,
    policy: PolicyPaths = None,
    home: HomeDir = None,
) -> None:
    """Serve the approval queue, drive an agent's runs beside it, and anchor the log.

    SIGHUP reloads the policies.
    """
    from governance.assemble import Governance

    if agent is None:
        # Answers need no rules: without an agent, policies are held only where some are named.
        opened = (
            Governance.open(home, policies=policy) if policy else Governance.without_rules(home)
        )
        with opened as governance, anchored(governance, home):
            _serve(governance, host, port)
        return
    from agent.worker import Worker

    with (
        open_agent(agent, home, policy) as found,
        anchored(found.governance, home),
        Worker(found, report=_report),
    ):
        _serve(found.governance, host, port)


def _serve(governance: "Governance", host: str, port: int) -> None:
    import secrets

    from governance.assemble import live_check
    from governance.config import check_seconds
    from governance.web import WebSettings, create_app, serve
    from governance.web.health import watch

    leave_when_asked()
    app = create_app(
        governance.store,
        signer=governance.signer,
        clock=governance.clock,
        draw=secrets.token_bytes,
        settings=WebSettings(),
    )

    def ready(host: str, port: int) -> None:
        shown = f"[{host}]" if ":" in host else host
        say(f"queue at http://{shown}:{port}/")

    live = live_check(governance, check_seconds())
    if live is not None:
        watch(app, governance.store, live)
    with _reloading(governance), live or nullcontext():
        serve(app, host, port, ready)


@contextmanager
def _reloading(governance: "Governance") -> Iterator[None]:
    """Reload the policies on SIGHUP while the block lasts, on a thread that may wait for the log.

    A handler may interrupt anything, itself too, so it does nothing but put into a queue made for that.
    """
    asked: SimpleQueue[bool] = SimpleQueue()
    thread = threading.Thread(target=_reload, args=(governance, asked), name="reload", daemon=True)
    thread.start()
    before = signal.signal(signal.SIGHUP, lambda _signal, _frame: asked.put(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        asked.put(False)
        thread.join()


def _reload(governance: "Governance", asked: "SimpleQueue[bool]") -> None:
    while asked.get():
        try:
            held = governance.reload()
        except Exception:  # noqa: BLE001, S112  # it is logged, and what was in force stays
            continue
        versions = ", ".join(f"{plain(name)} {version}" for name, version in held.versions.items())
        talk(f"policies in force: {versions or 'none'}")


def leave_when_asked() -> None:
    """Asked to end, leave through the same doors as always: what is in hand is finished first."""
    signal.signal(signal.SIGTERM, _end)


def _end(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def _report(failure: "Failure") -> None:
    talk(f"run {failure.run}: {plain(failure.text)}; again in {failure.again_in_s:.0f} s")


def demo_model(script: Script, *, host: Host = "127.0.0.1", port: Port = 0) -> None:
    """Play a script as an OpenAI-compatible model, until interrupted."""
    from agent.models import serve_script

    serve_script(script, host=host, port=port, ready=lambda url: say(f"model at {url}"))
