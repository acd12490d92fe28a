"""What is absent is remembered exactly, in little room, whatever the order."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from governance.ledger import absent
from governance.ledger.absent import Absent

STEPS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 12),
        st.sampled_from(["args", "input", "note"]),
        st.integers(0, 2**64 - 1),
    ),
    max_size=40,
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(steps=STEPS, names=st.integers(0, 3))
def test_it_remembers_what_a_dict_would(steps, names):
    kept, plain = Absent(), dict[tuple[int, str], int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absent, "NAMES_MAX", names)
        for adds, seq, name, mark in steps:
            if adds and (seq, name) not in plain:
                assert kept.add(seq, name, mark)
                plain[seq, name] = mark
            elif not adds:
                assert kept.pop(seq, name) == plain.pop((seq, name), None)
    assert list(kept.left()) == sorted((*key, mark) for key, mark in plain.items())


def test_a_mass_erasure_takes_a_few_bytes_each():
    tracemalloc.start()
    try:
        kept = Absent()
        before, _ = tracemalloc.get_traced_memory()
        for seq in range(200_000):
            assert kept.add(seq, "args", seq)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / 200_000 < 25


def test_out_of_order_there_is_less_room(monkeypatch):
    monkeypatch.setattr(absent, "ODD_MAX", 1)
    kept = Absent()
    assert kept.add(5, "args", 0)
    assert kept.add(3, "args", 0)
    assert not kept.add(2, "args", 0)
    assert [seq for seq, _, _ in kept.left()] == [3, 5]
