"""How much of the log could be rewritten unseen? What is anchored where, since when, and what waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from governance.anchors.rounds import State, state_of
from governance.anchors.settings import Settings
from governance.anchors.troubles import Trouble
from governance.ids import Micros
from governance.ledger.entry import Kind
from governance.ports import Reader, Store

__all__ = ["SinkStatus", "Status", "status"]

_MICROS = 1_000_000


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """One sink. `overdue`: an entry has waited for it longer than the settings allow."""

    name: str
    kind: str
    state: State
    trouble: Trouble | None
    overdue: bool


@dataclass(frozen=True, slots=True)
class Status:
    """The log at one moment. `signed` is the size of the newest checkpoint, `beat` when the last beat was."""

    log: str
    now: Micros
    size: int
    last: Micros
    signed: int
    beat: Micros | None
    silent: bool
    sinks: tuple[SinkStatus, ...]

    @property
    def anchored(self) -> int:
        """The largest size that any sink has anchored."""
        return max((sink.state.size for sink in self.sinks), default=0)

    @property
    def overdue(self) -> bool:
        return self.silent or any(sink.overdue for sink in self.sinks)


def status(
    store: Store, settings: Settings | None, troubles: Mapping[str, Trouble], now: Micros
) -> Status:
    """Tell how far the log is signed and anchored, by its own record; `settings` None: nowhere.

    Where the log should beat, it is `silent` when neither an entry nor a beat came for twice as long.
    """

    def look(reader: Reader) -> Status:
        head, notes = reader.head(), reader.checkpoints()
        beat = reader.latest((Kind.LOG_BEAT,))
        silent = settings is not None and now - head.ts > 2 * settings.beat_s * _MICROS
        return Status(
            log=store.origin,
            now=now,
            size=head.size,
            last=head.ts,
            signed=notes[-1][0] if notes else 0,
            beat=beat.entry.ts if beat else None,
            silent=silent,
            sinks=tuple(_sinks(reader, settings, troubles, now)) if settings else (),
        )

    return store.read(look)


def _sinks(
    reader: Reader, settings: Settings, troubles: Mapping[str, Trouble], now: Micros
) -> Sequence[SinkStatus]:
    found = list[SinkStatus]()
    for sink in settings.sinks:
        state = state_of(reader, sink.name)
        late = state.since is not None and now - state.since > settings.overdue_s * _MICROS
        trouble = troubles.get(sink.name)
        found.append(SinkStatus(sink.name, sink.kind.value, state, trouble, late))
    return found
