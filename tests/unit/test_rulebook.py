"""A running program takes up new policies whole, or keeps the old ones and says why."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml
from agents import Plays, call, calls, say

from agent import DurableAgent, tool
from governance import Governance, InvalidInputError, RefusedError, UnavailableError, assemble
from governance.assemble import KeySigner
from governance.config import Home
from governance.ids import Origin
from governance.lawful.check import Fault, check
from governance.ledger.checkpoint import parse_verifier_key, sign_note
from governance.ledger.entry import Kind
from governance.policy.document import load_policies
from governance.policy.rules import Signature
from governance.policy.signature import Signed
from governance.policy_files import source
from governance.ports import Store
from governance.rulebook import Rulebook

SIGNER = KeySigner.from_seed(Origin("acme.example/policies"), b"p" * 32)
OTHER = KeySigner.from_seed(Origin("other.example/policies"), b"q" * 32)
DESK = """policy: desk
version: {version}
rules:
  - {{id: looks, match: {{tools: [look]}}, when: args.number < {below}, effect: allow}}
"""
TESTS = """tools: {{look: {{verb: READ}}}}
cases:
  - {{name: one, tool: look, args: {{number: 1}}, expect: {{effect: {effect}}}}}
"""


@tool(verb="READ")
def look(number: int) -> str:
    """Look at a number."""
    return str(number)


def desk(version: int, below: int) -> str:
    return DESK.format(version=version, below=below)


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "desk.yaml").write_text(desk(1, 10))
    (tmp_path / "desk.test.yaml").write_text(TESTS.format(effect="allow"))
    return tmp_path


@pytest.fixture
def gov(folder):
    with Governance.in_memory(policies=folder) as made:
        yield made


def agent(gov: Governance, *turns, tools=(look,)) -> DurableAgent:
    return DurableAgent(Plays(*turns, say()), tools, governance=gov, name="desk")


def looks(number: int):
    return calls(call("look", number=number))


def records(gov: Governance):
    return gov.store.read(lambda reader: reader.records())


def activations(gov: Governance) -> list[dict]:
    return [r.entry.body for r in records(gov) if r.entry.kind is Kind.POLICY_ACTIVATED]


def effects(gov: Governance) -> list[str]:
    return [r.entry.body["effect"] for r in records(gov) if r.entry.kind is Kind.CALL_DECIDED]


def test_a_run_over_a_swap_is_decided_by_the_new_rules_and_is_lawful(gov, folder):
    def swap(_messages):
        (folder / "desk.yaml").write_text(desk(2, 100))
        assert gov.reload() is gov.policies
        return looks(50)

    agent(gov, looks(50), swap, looks(1)).run("go", run_id="r")
    assert effects(gov) == ["deny", "allow", "allow"]
    assert [body["versions"] for body in activations(gov)] == [{"desk": 1}, {"desk": 2}]
    assert check(records(gov)).findings == ()


def test_an_agent_that_was_there_before_decides_by_the_new_rules(gov, folder):
    driver = agent(gov, looks(1), say(), looks(1))
    driver.run("go", run_id="a")
    (folder / "desk.yaml").write_text(desk(2, 1))
    (folder / "desk.test.yaml").write_text(TESTS.format(effect="deny"))
    gov.reload()
    driver.run("go", run_id="b")
    assert effects(gov) == ["allow", "deny"]
    assert check(records(gov)).findings == ()


def test_without_a_change_nothing_is_swapped_and_nothing_written(gov):
    before, entries = gov.policies, len(records(gov))
    assert gov.reload() is before
    assert len(records(gov)) == entries


BROKEN = {
    "no YAML": ("{[", r"desk\.yaml:\d: not YAML"),
    "a misspelt word": (desk(2, 10).replace("effect", "efect"), r"desk\.yaml:4: unknown field"),
    "a condition that is none": (desk(2, 10).replace("<", "<<"), r"desk\.yaml:4: "),
    "a field that no input has": (desk(2, 10).replace("args.", "run.n"), r"desk\.yaml:4: "),
    "its own tests fail": (desk(2, 0), r"desk\.test\.yaml:3: case `one` fails: `effect` is `deny`"),
    "a lower version": (desk(1, 10).replace("version: 1", "version: 0"), "version"),
    "another text in the same version": (desk(1, 9), "version 1 with another text"),
    "nothing in it": ("", "nothing in it"),
}


@pytest.mark.parametrize(("text", "told"), BROKEN.values(), ids=BROKEN)
def test_a_broken_set_leaves_the_old_one_and_says_where(gov, folder, caplog, text, told):
    driver = agent(gov, looks(1))
    before, entries = gov.policies, len(records(gov))
    (folder / "desk.yaml").write_text(text)
    with pytest.raises((InvalidInputError, RefusedError), match=told) as raised:
        gov.reload()
    assert gov.policies is before
    assert len(records(gov)) == entries
    (logged,) = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert str(raised.value) in logged.getMessage()
    assert "what was in force stays" in logged.getMessage()
    assert driver.run("go").status == "completed"
    assert effects(gov) == ["allow"]


def test_a_set_that_does_not_fit_the_tools_of_an_agent_is_not_taken(gov, folder, caplog):
    """Every agent that was made counts, also one that has not run yet."""
    agent(gov)
    before = gov.policies
    (folder / "desk.test.yaml").unlink()
    (folder / "desk.yaml").write_text(desk(2, 10).replace("args.number", "args.nmber"))
    with pytest.raises(InvalidInputError, match=r"desk\.yaml:4: .*nmber"):
        gov.reload()
    assert gov.policies is before


@dataclass(frozen=True)
class Interrupted:
    """A store that does something between a commit and the answer to whoever waits for it."""

    store: Store
    between: Callable[[], object]

    def __getattr__(self, name: str):
        return getattr(self.store, name)

    def write(self, work):
        result = self.store.write(work)
        self.between()
        return result


def test_a_run_that_begins_between_the_record_and_the_swap_has_the_recorded_rules(gov, folder):
    def begin():
        agent(meanwhile, looks(50)).run("go", run_id="r")

    meanwhile = replace(gov, store=Interrupted(gov.store, begin))
    agent(gov, looks(50)).run("go")
    (folder / "desk.yaml").write_text(desk(2, 100))
    meanwhile.reload()
    assert effects(gov) == ["deny", "allow"]
    assert len(activations(gov)) == 2
    assert check(records(gov)).findings == ()


def test_a_swap_that_was_recorded_and_not_reported_can_be_made_again(gov, folder):
    """The old rules stay in this program; no run begins by them, since the log has newer ones."""

    def lose_the_answer():
        raise UnavailableError("the answer was lost")

    lossy = replace(gov, store=Interrupted(gov.store, lose_the_answer))
    driver = agent(gov, looks(50))
    (folder / "desk.yaml").write_text(desk(2, 100))
    with pytest.raises(UnavailableError):
        lossy.reload()
    assert gov.policies.versions == {"desk": 1}
    with pytest.raises(RefusedError, match="in force in version 2, and 1 was offered"):
        driver.run("go")
    assert gov.reload().versions == {"desk": 2}
    driver.run("go")
    assert (effects(gov), len(activations(gov))) == (["allow"], 1)


def test_a_lower_version_than_in_force_is_refused(gov, folder):
    (folder / "desk.yaml").write_text(desk(3, 100))
    gov.reload()
    (folder / "desk.yaml").write_text(desk(2, 1000))
    with pytest.raises(RefusedError, match="in force in version 3, and 2 was offered"):
        gov.reload()
    assert gov.policies.versions == {"desk": 3}


@pytest.mark.attack
def test_a_policy_that_was_left_out_does_not_come_back_in_a_lower_version(gov, folder):
    """Else an old set, signed in its time, could be put back by way of a set without it."""
    (folder / "desk.yaml").write_text(desk(3, 100))
    gov.reload()
    agent(gov, looks(1)).run("go")
    (folder / "desk.yaml").unlink()
    (folder / "other.yaml").write_text(desk(1, 10).replace("policy: desk", "policy: other"))
    gov.reload()
    (folder / "other.yaml").unlink()
    (folder / "desk.yaml").write_text(desk(2, 1000))
    with pytest.raises(RefusedError, match="in force in version 3"):
        gov.reload()
    assert activations(gov)[-1]["earlier"] == {"desk": 3}
    (folder / "desk.yaml").write_text(desk(4, 10))
    gov.reload()
    assert activations(gov)[-1]["earlier"] == {"other": 1}
    assert check(records(gov)).findings == ()


def test_a_reload_parses_only_what_changed(gov, folder, monkeypatch):
    for number in range(5):
        named = desk(1, 10).replace("policy: desk", f"policy: p{number}")
        (folder / f"p{number}.yaml").write_text(named)
    gov.reload()
    parsed: list[str] = []
    parse = yaml.parse

    def count(text, *args, **kwargs):
        parsed.append(text)
        return parse(text, *args, **kwargs)

    monkeypatch.setattr(yaml, "parse", count)
    gov.reload()
    assert parsed == []
    changed = desk(2, 20).replace("policy: desk", "policy: p3")
    (folder / "p3.yaml").write_text(changed)
    gov.reload()
    assert parsed == [changed]
    assert gov.policies.versions["p3"] == 2


def test_texts_by_name_are_read_again_with_their_tests(caplog):
    texts = {"desk.yaml": desk(1, 10), "desk.test.yaml": TESTS.format(effect="allow")}
    with Governance.in_memory(policies=texts) as gov:
        texts["desk.yaml"] = desk(2, 0)
        with pytest.raises(InvalidInputError, match="case `one` fails"):
            gov.reload()
        texts["desk.yaml"] = desk(2, 20)
        assert gov.reload().versions == {"desk": 2}


def test_what_a_policy_file_says_writes_no_line_of_the_log(gov, folder, caplog):
    (folder / "desk.yaml").write_text('policy: desk\nversion: 2\n"\\e[2J\\nERROR all fine": 1\n')
    with pytest.raises(InvalidInputError):
        gov.reload()
    assert caplog.messages
    assert all(message.isprintable() for message in caplog.messages)


def test_a_set_that_cannot_be_recorded_is_not_in_force(tmp_path, folder):
    home = Home(tmp_path / "home", tmp_path / "home" / "checkpoint")
    assemble.init(home, Origin("test/reload"))
    gov = Governance.open(home.folder, policies=folder)
    (folder / "desk.yaml").write_text(desk(2, 100))
    gov.close()
    with pytest.raises(UnavailableError, match="store is closed"):
        gov.reload()
    assert gov.policies.versions == {"desk": 1}


def test_another_machine_s_newer_set_is_not_replaced_by_an_older_one(tmp_path, folder):
    home = Home(tmp_path / "home", tmp_path / "home" / "checkpoint")
    assemble.init(home, Origin("test/two"))
    with Governance.open(home.folder, policies={"d": desk(1, 10)}) as first:
        late = {"d": desk(1, 10)}
        with Governance.open(home.folder, policies=late) as second:
            (folder / "desk.yaml").write_text(desk(3, 100))
            with Governance.open(home.folder, policies=folder) as third:
                agent(third, looks(1)).run("go")
            late["d"] = desk(2, 50)
            with pytest.raises(RefusedError, match="in force in version 3"):
                second.reload()
            assert second.policies.versions == {"desk": 1}
        assert check(records(first)).findings == ()


# --- signed -------------------------------------------------------------------------------------------


def sign(folder: Path, signer: KeySigner = SIGNER) -> None:
    texts = {p.name: p.read_text() for p in folder.glob("*.yaml") if ".test." not in p.name}
    note = sign_note(Signed.of(load_policies(texts)).to_text(), signer)
    (folder / "policies.sig").write_text(note)


@pytest.fixture
def signed(folder):
    sign(folder)
    with Governance.in_memory(policies=folder, policy_key=SIGNER.verifier_key) as made:
        yield made


def test_a_reload_takes_only_what_is_signed_and_the_log_says_who_signed(signed, folder):
    agent(signed, looks(1)).run("go")
    (folder / "desk.yaml").write_text(desk(2, 100))
    with pytest.raises(RefusedError, match="is not what was signed"):
        signed.reload()
    sign(folder, OTHER)
    with pytest.raises(RefusedError, match="not signed with the key `acme"):
        signed.reload()
    (folder / "policies.sig").unlink()
    with pytest.raises(RefusedError, match="there is no signature"):
        signed.reload()
    sign(folder)
    signed.reload()
    agent(signed, looks(50)).run("go")
    assert effects(signed) == ["allow", "allow"]
    assert [body["key"] for body in activations(signed)] == [SIGNER.verifier_key] * 2
    pin = parse_verifier_key(SIGNER.verifier_key)
    assert check(records(signed), policy_key=pin).findings == ()


@pytest.mark.attack
def test_an_old_set_signed_in_its_time_is_not_put_back(signed, folder):
    old = {path.name: path.read_text() for path in folder.iterdir()}
    (folder / "desk.yaml").write_text(desk(2, 5))
    sign(folder)
    signed.reload()
    for name, text in old.items():
        (folder / name).write_text(text)
    with pytest.raises(RefusedError, match="in force in version 2, and 1 was offered"):
        signed.reload()
    again = Rulebook.open(source(folder), assemble.read_policy_key(SIGNER.verifier_key))
    restarted = Governance(signed.store, signed.signer, again, signed.environment)
    with pytest.raises(RefusedError, match="in force in version 2, and 1 was offered"):
        agent(restarted, looks(1)).run("go")


def faults(gov: Governance, **options) -> list[Fault]:
    return [finding.kind for finding in check(records(gov), **options).findings]


def test_an_auditor_who_pins_a_key_sees_what_it_did_not_sign(signed):
    ours, others = (parse_verifier_key(one.verifier_key) for one in (SIGNER, OTHER))
    agent(signed, looks(1)).run("go")
    assert faults(signed) == []
    assert faults(signed, policy_key=ours) == []
    assert faults(signed, policy_key=others) == [Fault.POLICY_UNSIGNED]
    with Governance.in_memory(policies={"desk.yaml": desk(1, 10)}) as unsigned:
        agent(unsigned, looks(1)).run("go")
        assert faults(unsigned) == []
        assert faults(unsigned, policy_key=ours) == [Fault.POLICY_UNSIGNED]


@pytest.mark.attack
@pytest.mark.parametrize("key", [SIGNER, OTHER])
def test_a_log_that_names_a_signature_it_does_not_have_is_unlawful(folder, key):
    """Whoever writes the log can write what they like; they cannot sign for somebody else."""
    sign(folder)
    policies = assemble.load(folder, SIGNER.verifier_key)
    wide = load_policies({"desk.yaml": desk(1, 10_000)})
    lying = replace(wide, signature=Signature(key.verifier_key, policies.signature.signed))
    with Governance.in_memory(policies={}) as gov:
        other = Governance(gov.store, gov.signer, Rulebook.of(lying), gov.environment)
        agent(other, looks(999)).run("go")
        assert faults(gov) == [Fault.POLICY_SIGNATURE_WRONG]


# --- many at once -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", ["in memory", "on disk"])
def test_eight_threads_decide_while_another_reloads_a_hundred_times(tmp_path, stored):
    """Version n allows numbers below n. Each decision follows from the set that it names, which the log
    had put in force, and no run fails."""
    texts = {"d": desk(1, 1)}
    stop, failures = threading.Event(), []
    home = Home(tmp_path, tmp_path / "checkpoint")
    if stored == "on disk":
        assemble.init(home, Origin("test/threads"))
    opened = (
        Governance.open(home.folder, policies=texts)
        if stored == "on disk"
        else Governance.in_memory(policies=texts)
    )
    with opened as gov:

        def decide(n: int) -> None:
            turns = 0
            while not stop.is_set() or turns < 3:
                turns += 1
                try:
                    agent(gov, looks(n * 10), looks(n * 10 + 5)).run("go")
                except Exception as exc:  # noqa: BLE001
                    failures.append(exc)
                    return

        threads = [threading.Thread(target=decide, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for version in range(2, 102):
            texts["d"] = desk(version, version)
            assert gov.reload().versions == {"desk": version}
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == []
        entries = records(gov)
        report = check(entries)
        assert (report.verdict, report.findings) == ("ok", ())
        assert report.decisions_checked >= 8 * 3 * 2
        assert len(activations(gov)) in {100, 101}
        in_force = {body["policy"]: body["versions"]["desk"] for body in activations(gov)}
        for record in entries:
            if record.entry.kind is Kind.CALL_DECIDED:
                version = in_force[record.entry.body["policy"]]
                number = record.content("args")["number"]
                assert record.entry.body["effect"] == ("allow" if number < version else "deny")
