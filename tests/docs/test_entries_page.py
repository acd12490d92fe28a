"""docs/entries.md says exactly which fields entries have: no more, no fewer."""

import ast
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from docs.reading import ROOT, rows, spelled

from agent.journal import draft
from agent.messages import UserMessage
from agent.state import InputReceived
from governance.canonical import thaw
from governance.ids import RunId, SubjectId
from governance.lawful.check import check
from governance.ledger.entry import Kind

PAGE = (ROOT / "docs" / "entries.md").read_text()
NOT_WRITTEN_YET = {Kind.INPUT_RECEIVED}
"""Read by this version, and written by none of its parts."""


@dataclass
class Fields:
    """What a cell of the table says: name -> the names within, None where it does not say."""

    within: dict[str, "Fields | None"] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)

    def add(self, name: str, within: "Fields | None" = None) -> None:
        self.within[name.removesuffix("?")] = within
        if name.endswith("?"):
            self.optional.add(name.removesuffix("?"))

    def fit(self, value: Mapping) -> None:
        assert set(value) <= set(self.within)
        assert set(self.within) - self.optional <= set(value)
        for name, within in self.within.items():
            if within is not None and name in value:
                given = value[name]
                for one in given if isinstance(given, list) else [given]:
                    within.fit(one)


def items(cell: str) -> list[str]:
    """Split at the commas outside of brackets."""
    parts, depth = [""], 0
    for char in cell:
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if part.strip()]


def read_fields(cell: str) -> Fields:
    fields = Fields()
    for item in items(cell):
        name, *others = spelled(item)
        objects = [text for text in others if text.startswith("{") and ":" not in text]
        within = None
        if objects:
            within = Fields()
            for inner in objects[0].strip("{}").split(", "):
                within.add(inner)
        fields.add(name + ("?" if item.startswith(f"`{name}`?") else ""), within)
    return fields


def table() -> dict[Kind, tuple[Fields, Fields]]:
    found = {}
    for types, body, payloads in rows(PAGE, "type"):
        for kind in spelled(types):
            assert Kind(kind) not in found
            found[Kind(kind)] = (read_fields(body), read_fields(payloads))
    return found


def written() -> set[Kind]:
    """The kinds named where entries are made: in each module that makes a `Draft`."""
    kinds: set[Kind] = set()
    for room in ("governance", "agent", "audit_viewer"):
        for path in (ROOT / room).rglob("*.py"):
            nodes = list(ast.walk(ast.parse(path.read_text())))
            named = {
                n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
            }
            if "Draft" not in named:
                continue
            kinds |= {
                Kind[n.attr]
                for n in nodes
                if isinstance(n, ast.Attribute)
                and isinstance(n.value, ast.Name)
                and n.value.id == "Kind"
                and n.attr.isupper()
            }
    return kinds


def test_every_kind_that_is_written_has_a_row_and_no_other_has():
    assert set(table()) == written() | {Kind.ACCESS_REFUSED}


def test_the_fields_of_a_real_history_are_exactly_those_of_the_table(history, installed, archived):
    page = table()
    seen: dict[Kind, tuple[set, set]] = defaultdict(lambda: (set(), set()))
    for record in [*history, *installed, archived]:
        entry = record.entry
        body, payloads = page[entry.kind]
        body.fit(entry.body)
        payloads.fit({name: thaw(p.content) for name, p in record.payloads.items()})
        seen[entry.kind][0].update(entry.body)
        seen[entry.kind][1].update(record.payloads)
    # Nothing stands in the table that no entry has.
    assert set(seen) == set(page) - NOT_WRITTEN_YET
    for kind, (body, payloads) in page.items():
        if kind not in NOT_WRITTEN_YET:
            assert (set(body.within), set(payloads.within)) == seen[kind], kind


def test_an_input_is_written_as_the_table_says():
    event = InputReceived("m1", UserMessage(content="hello"))
    made = draft(event, RunId("r"), SubjectId("agent:a"), None)
    body, payloads = table()[made.kind]
    body.fit(made.body)
    payloads.fit(made.payloads)


def test_the_history_is_a_lawful_one(history):
    assert check(history).ok


@pytest.mark.parametrize("kind", sorted(set(Kind) - set(table())))
def test_kinds_without_a_row_are_named_as_reserved(kind):
    assert f"`{kind}`" in PAGE.split("## Reserved", 1)[1]
