"""How does evidence leave the house, and does it hold? `export` and `verify`."""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from governance.canonical import JSON
from governance.cli.anchoring import outside
from governance.cli.console import plain, say, show_json
from governance.cli.options import AsJson, HomeDir
from governance.cli.trusting import (
    Fresh,
    KeptFiles,
    Keys,
    PolicyKey,
    QuorumOf,
    Trusted,
    TrustFile,
    Tsa,
    Witnesses,
)
from governance.errors import InvalidInputError
from governance.ids import SubjectId, parse_run_id

if TYPE_CHECKING:
    from governance.bundle import Choice, Manifest
    from governance.cli.verdicts import Judgement
    from governance.ledger.entry import Draft
    from governance.ports import Reader

__all__ = ["add_to"]

DOES_NOT_HOLD: Final = 5
LONG_BYTES: Final = 8 * 1024 * 1024
"""From here on verifying takes long enough to be watched."""
LONG_ENTRIES: Final = 20_000
EXPORTER: Final = SubjectId("system:export")

Folder = Annotated[Path, typer.Argument(metavar="BUNDLE", help="The folder of the bundle.")]
Evidence = Annotated[
    list[Path],
    typer.Argument(
        metavar="BUNDLE…|RECEIPT",
        help="The folder of a bundle, or of a log and of its archives; or the file of a receipt.",
    ),
]
First = Annotated[
    int | None,
    typer.Option(
        "--from",
        metavar="SEQ",
        min=0,
        help="The first entry of a range; else 0.",
        show_default=False,
    ),
]
Last = Annotated[
    int | None,
    typer.Option(
        "--to",
        metavar="SEQ",
        min=0,
        help="The last entry of a range; else the newest.",
        show_default=False,
    ),
]
OfRun = Annotated[
    str | None,
    typer.Option(
        "--run", metavar="RUN", help="One run, with what its decisions rest on.", show_default=False
    ),
]
Withhold = Annotated[
    list[str] | None,
    typer.Option(
        "--withhold",
        metavar="PAYLOAD",
        help="Keep back payloads: NAME, entry:SEQ/NAME or run:ID/NAME; * is any. May be repeated.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(export)
    app.command()(verify)


def export(  # noqa: PLR0913 - one parameter an option
    bundle: Folder,
    *,
    first: First = None,
    last: Last = None,
    run: OfRun = None,
    withhold: Withhold = None,
    home: HomeDir = None,
    json: AsJson = False,
) -> None:
    """Write the log, a range of it or one run into a new folder that anybody can verify offline."""
    from governance.assemble import Governance
    from governance.bundle import export_part
    from governance.ledger.manifest import part_to_json
    from governance.ledger.parts import named

    if run is not None and (first, last) != (None, None):
        raise InvalidInputError("a run and a range are named", hint="export one of them")
    with Governance.without_rules(home) as governance:
        store, signer = governance.store, governance.signer
        checkpoint, stamps = outside(governance, home)
        asked = _Asked(checkpoint, (first, last), run, withhold or ())

        def write(reader: "Reader") -> "Manifest":
            choice = replace(asked.choose(reader), stamps=stamps)
            total = sum(end - start for start, end in choice.stretches)
            with _bar("writing", total, LONG_ENTRIES) as progress:
                return export_part(reader, choice, bundle, signer, progress)

        manifest = store.read(write)
        # Recorded once it is whole; a crash in between loses the note, never the evidence.
        store.write(lambda tx: tx.append(_exported(manifest), governance.clock()))
    if json:
        part = part_to_json(manifest.part)
        facts: dict[str, JSON] = {"bundle": str(bundle), "log": manifest.log, "part": part}
        return show_json(facts | {"size": manifest.size})
    say(f"{plain(named(manifest.part))} of {manifest.log}, in {plain(bundle)}")
    say(f"next: governance verify {plain(bundle)} --key {signer.verifier_key}")
    return None


@dataclass(frozen=True, slots=True)
class _Asked:
    """What an export was asked for, as it was typed."""

    checkpoint: tuple[int, str]
    range: tuple[int | None, int | None]
    run: str | None
    withhold: Sequence[str]

    def choose(self, reader: "Reader") -> "Choice":
        from governance.bundle import choose_range, choose_rest, choose_run, parse_withholding

        kept = [parse_withholding(text) for text in self.withhold]
        first, last = self.range
        if self.run is not None:
            return choose_run(reader, parse_run_id(self.run), kept)
        if (first, last) == (None, None):
            return choose_rest(reader, self.checkpoint, kept)
        end = self.checkpoint[0] if last is None else last + 1
        return choose_range(reader, first or 0, end, kept)


def _exported(manifest: "Manifest") -> "Draft":
    """What the log remembers of what left the house: which part, and the digest of its manifest."""
    from governance.ledger.entry import Draft, Kind
    from governance.ledger.manifest import part_to_json

    digest = hashlib.sha256(manifest.to_bytes()).hexdigest()
    body: dict[str, JSON] = {"size": manifest.size, "part": part_to_json(manifest.part)}
    return Draft(Kind.BUNDLE_EXPORTED, EXPORTER, body | {"manifest": digest})


def verify(  # noqa: PLR0913 - one parameter an option
    evidence: Evidence,
    *,
    key: Keys = None,
    policy_key: PolicyKey = None,
    witness: Witnesses = None,
    quorum: QuorumOf = None,
    trust: TrustFile = None,
    tsa: Tsa = None,
    fresh: Fresh = None,
    kept: KeptFiles = None,
    json: AsJson = False,
) -> None:
    """Judge a bundle or a receipt offline: integrity, trust, completeness and lawfulness of what it covers.

    Exit status 0 only if all four hold, else 5; 2 when there is nothing to judge. Of a receipt integrity
    and trust must hold: it is part of a log, and says nothing about the rest. Witnesses, authorities and
    freshness count towards trust, if they are asked for. Several bundles, in any order, must make one log.
    """
    trusted = Trusted(key, witness, quorum, trust, tsa, fresh, policy_key, kept)
    alone = len(evidence) == 1 and evidence[0].is_file()
    judge = _receipt if alone else _bundle
    if not judge(evidence, trusted, json=json):
        raise typer.Exit(DOES_NOT_HOLD)


def _receipt(files: Sequence[Path], trusted: Trusted, *, json: bool) -> bool:
    from governance.cli.receipt_view import render
    from governance.cli.receipts import judge

    if trusted.policy_key is not None:
        raise InvalidInputError(
            "a receipt does not tell who signed its rules", hint="give `--policy-key` with a bundle"
        )
    if trusted.kept:
        raise InvalidInputError(
            "a receipt cannot be compared with a kept checkpoint",
            hint="verify a bundle of the whole log with `--kept`",
        )
    judgement = judge(files[0], *trusted.read())
    if json:
        show_json(judgement.to_json())
    else:
        say(*render(judgement))
    return judgement.ok


def _bundle(bundles: Sequence[Path], trusted: Trusted, *, json: bool) -> bool:
    from governance.cli.verdicts import render

    judge = _judge_together if len(bundles) > 1 else _judge
    judgement = judge(bundles, trusted)
    if json:
        show_json(judgement.to_json())
    else:
        say(*render(judgement))
    return judgement.ok


def _judge(bundles: Sequence[Path], trusted: Trusted) -> "Judgement":
    from governance.bundle import read_bundle, records, verify_bundle
    from governance.cli.verdicts import Judgement
    from governance.errors import TamperedError
    from governance.lawful.check import check

    pins, demands = trusted.read()
    policy_pin, kept = trusted.policy_pin(), trusted.heads()
    (bundle,) = bundles
    manifest = read_bundle(bundle).manifest
    with _bar("verifying", manifest.total_bytes if manifest else 0, LONG_BYTES) as progress:
        report = verify_bundle(bundle, pins, progress, demands, kept)
    part, withheld = (manifest.part, manifest.withheld) if manifest else (None, {})
    try:
        with _bar("judging", report.summary.entries, LONG_ENTRIES) as progress:
            lawful = check(records(bundle), progress, part, withheld, policy_key=policy_pin)
            return Judgement(report, lawful)
    except TamperedError as exc:
        # What cannot be read cannot be judged; why it cannot is among the findings above.
        return Judgement(report, None, exc.message)


def _judge_together(bundles: Sequence[Path], trusted: Trusted) -> "Judgement":
    """Judge a log and its archives as one; whether it was lawful only if all of it is here."""
    from governance.bundle import read_bundle, records_together, verify_together
    from governance.cli.verdicts import Judgement
    from governance.errors import TamperedError
    from governance.lawful.check import check

    pins, demands = trusted.read()
    manifests = [manifest for folder in bundles if (manifest := read_bundle(folder).manifest)]
    total = 2 * sum(manifest.total_bytes for manifest in manifests)
    with _bar("verifying", total, LONG_BYTES) as progress:
        joined = verify_together(bundles, pins, progress, demands, trusted.heads())
    if not joined.chain:
        return Judgement(joined.report, None, "these are not all entries from 0 to the newest")
    withheld = dict[str, list[int]]()
    for manifest in manifests:
        for name, seqs in manifest.withheld.items():
            withheld.setdefault(name, []).extend(seqs)
    try:
        with _bar("judging", joined.report.summary.entries, LONG_ENTRIES) as progress:
            entries = records_together(joined.chain)
            found = check(entries, progress, None, withheld, policy_key=trusted.policy_pin())
            return Judgement(joined.report, found)
    except TamperedError as exc:
        return Judgement(joined.report, None, exc.message)


@contextmanager
def _bar(what: str, total: int, long: int) -> Iterator[Callable[[int], None] | None]:
    """Show how far it is, where somebody watches and it takes long enough."""
    if total < long or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn(what), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)
