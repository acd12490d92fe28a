"""The attacks, each a function from the honest scene to what the auditor is shown. Its docstring says what is done."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from attacks.scene import Export, Item, Scene, as_they_stand, relinked, signed_anew

from governance.assemble import KeySigner
from governance.ledger.entry import leaf_hash

__all__ = ["ATTACKS", "Attack"]

Attack: TypeAlias = Callable[[Scene], Export]

DROPPED = 10


def field_edited(scene: Scene) -> Export:
    """A decision is turned round in one entry; nothing else is touched."""
    return as_they_stand(edited(scene, scene.at("call.decided")), scene.notes)


def entry_deleted(scene: Scene) -> Export:
    """One vote is taken out."""
    return as_they_stand(without(scene, scene.at("approval.voted")), scene.notes)


def entry_inserted(scene: Scene) -> Export:
    """A vote that nobody cast is put in."""
    return as_they_stand(with_one_more(scene), scene.notes)


def entries_swapped(scene: Scene) -> Export:
    """Two entries change places."""
    return as_they_stand(swapped(scene), scene.notes)


def beginning_dropped(scene: Scene) -> Export:
    """The first ten entries are gone."""
    return as_they_stand(scene.items()[DROPPED:], scene.notes)


def field_edited_relinked(scene: Scene) -> Export:
    """A decision is turned round, and every link after it made to fit."""
    return relinked(edited(scene, scene.at("call.decided")), scene.notes)


def entry_deleted_relinked(scene: Scene) -> Export:
    """An entry taken out, the rest renumbered and linked."""
    return relinked(without(scene, scene.at("approval.voted")), scene.notes)


def entry_inserted_relinked(scene: Scene) -> Export:
    """An entry put in, the rest renumbered and linked."""
    return relinked(with_one_more(scene), scene.notes)


def entries_swapped_relinked(scene: Scene) -> Export:
    """Two entries swapped, renumbered and linked."""
    return relinked(swapped(scene), scene.notes)


def beginning_dropped_relinked(scene: Scene) -> Export:
    """The ten entries after the first are gone, the rest renumbered and linked."""
    first, *rest = scene.items()
    return relinked([first, *rest[DROPPED:]], scene.notes)


def payload_replaced(scene: Scene) -> Export:
    """The arguments of a call become others; the entry that committed to them stays."""
    items, at = scene.items(), scene.at("call.decided")
    old = items[at].payloads["args"]
    items[at].payloads["args"] = replace(old, content=b'{"id":"b"}')
    return as_they_stand(items, scene.notes)


def payload_deleted(scene: Scene) -> Export:
    """The arguments of a call are gone, and no entry records an erasure."""
    items, at = scene.items(), scene.at("call.decided")
    del items[at].payloads["args"]
    return as_they_stand(items, scene.notes)


def key_repeated(scene: Scene) -> Export:
    """The newest entry says two things under one key; every reader may take the one he likes."""
    honest = scene.honest()
    *rest, last = honest.entries
    head, tail = last.split(b',"body":', 1)
    return replace(honest, entries=[*rest, head + b',"body":{},"body":' + tail])


def tail_cut(scene: Scene) -> Export:
    """The newest entries are gone; the checkpoints over them stay."""
    return as_they_stand(scene.items()[: scene.size - 3], scene.notes)


def checkpoints_dropped(scene: Scene) -> Export:
    """The newest checkpoint is gone, so that the entries under it can be changed."""
    items = scene.items()
    items[-2].fields["actor"] = "system:somebody"
    return relinked(items, scene.notes_to(scene.size - 1))


def log_emptied(scene: Scene) -> Export:
    """Every entry is gone; the checkpoints stay."""
    return Export([], [], scene.notes)


def all_gone(scene: Scene) -> Export:
    """Every entry is gone, and every checkpoint."""
    return Export([], [], [])


def unknown_key(scene: Scene) -> Export:
    """History rewritten, and every checkpoint signed by a key of the attacker's own in the log's name."""
    thief = KeySigner.from_seed(scene.signer.origin, b"\6" * 32)
    forged = relinked(edited(scene, scene.at("call.decided")), [])
    return signed_anew(forged, sizes(scene), thief)


def checkpoint_of_another_log(scene: Scene) -> Export:
    """History rewritten, and under it the checkpoint of another log of this size."""
    return relinked(edited(scene, scene.at("call.decided")), [scene.other[1]])


def tail_cut_below_kept(scene: Scene) -> Export:
    """Everything since before the last audit is gone, with its checkpoints."""
    return cut_with_checkpoints(scene, scene.heads[-3][0])


def rewritten_below_kept(scene: Scene) -> Export:
    """With the stolen key: what was audited is rewritten, all checkpoints are signed anew."""
    forged = relinked(edited(scene, scene.at("call.decided")), [])
    return signed_anew(forged, sizes(scene), scene.signer, scene.notes)


def begun_anew(scene: Scene) -> Export:
    """With the stolen key: the log begins again, as if nothing had ever happened."""
    fresh = relinked(scene.items()[:3], [])
    return signed_anew(fresh, [3], scene.signer)


def tail_cut_with_checkpoints(scene: Scene) -> Export:
    """Everything since the last audit is gone, with its checkpoints."""
    return cut_with_checkpoints(scene, scene.kept)


def rewritten_since_kept(scene: Scene) -> Export:
    """With the stolen key: what came after the last audit is rewritten and signed anew."""
    forged = relinked(edited(scene, scene.at("call.decided", after=scene.kept)), [])
    return signed_anew(forged, sizes(scene), scene.signer, scene.notes)


def second_history(scene: Scene) -> Export:
    """With the log's own key: this reader is told another story since the last audit, just as long."""
    items = scene.items()[: scene.kept]
    of_a_run = ("run", "rseq", "rprev", "on_behalf_of")
    idle = {key: value for key, value in items[-1].fields.items() if key not in of_a_run}
    idle |= {"type": "log.beat", "body": {}, "payloads": {}}
    story = [Item(dict(idle)) for _ in range(scene.size - scene.kept)]
    return signed_anew(relinked([*items, *story], []), sizes(scene), scene.signer, scene.notes)


ATTACKS: Final[tuple[Attack, ...]] = (
    field_edited,
    entry_deleted,
    entry_inserted,
    entries_swapped,
    beginning_dropped,
    field_edited_relinked,
    entry_deleted_relinked,
    entry_inserted_relinked,
    entries_swapped_relinked,
    beginning_dropped_relinked,
    payload_replaced,
    payload_deleted,
    key_repeated,
    tail_cut,
    checkpoints_dropped,
    log_emptied,
    all_gone,
    unknown_key,
    checkpoint_of_another_log,
    tail_cut_below_kept,
    rewritten_below_kept,
    begun_anew,
    tail_cut_with_checkpoints,
    rewritten_since_kept,
    second_history,
)


def sizes(scene: Scene) -> list[int]:
    return [size for size, _ in scene.heads]


def edited(scene: Scene, at: int) -> list[Item]:
    items = scene.items()
    items[at].fields["body"] |= {"effect": "deny"}
    assert leaf_hash(as_they_stand(items, []).entries[at]) != scene.records[at].entry.hash
    return items


def without(scene: Scene, at: int) -> list[Item]:
    items = scene.items()
    del items[at]
    return items


def with_one_more(scene: Scene) -> list[Item]:
    items, at = scene.items(), scene.at("approval.voted")
    forged = Item({**items[at].fields, "actor": "user:nobody", "payloads": {}})
    return [*items[: at + 1], forged, *items[at + 1 :]]


def swapped(scene: Scene) -> list[Item]:
    items, at = scene.items(), scene.at("call.started")
    items[at], items[at + 1] = items[at + 1], items[at]
    return items


def cut_with_checkpoints(scene: Scene, size: int) -> Export:
    return as_they_stand(scene.items()[:size], scene.notes_to(size))
