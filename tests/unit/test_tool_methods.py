"""Methods as tools, injected parameters, and what is missing before a tool can be registered."""

from types import MethodType
from typing import Any

import anyio
import pytest

from agent.tools import CallContext, Injected, ToolRegistry, tool
from governance.errors import InvalidInputError
from governance.ids import CallUid, RunId, SubjectId

CONTEXT = CallContext(
    run=RunId("r"),
    uid=CallUid("r/1.0"),
    attempt=2,
    idempotency_key="k",
    principal=SubjectId("user:1"),
    agent=SubjectId("agent:a"),
)


class Desk:
    prefix = "class"

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    @tool(verb="READ")
    def lookup(self, order: str) -> str:
        """Look an order up."""
        return f"{self.prefix}:{order}"

    @tool
    async def later(self, order: str) -> str:
        return f"{self.prefix}:{order}"

    @tool
    @classmethod
    def of_class(cls, order: str) -> str:
        return f"{cls.__name__}:{cls.prefix}:{order}"

    @tool
    @staticmethod
    def alone(order: str) -> str:
        return order

    def plain(self, order: str) -> str:
        """Plain."""
        return f"{self.prefix}:{order}"


class Sub(Desk):
    prefix = "sub"


def run(registry: ToolRegistry, name: str, arguments: Any, context: CallContext = CONTEXT) -> Any:
    registered = registry.get(name)
    assert registered is not None
    result = anyio.run(registered.run, registered.validate(arguments), context)
    assert not result.is_error, result.text
    return result.content


def test_a_method_is_a_tool_bound_to_its_object() -> None:
    one, two = Desk("one"), Desk("two")
    assert one.lookup.invoke({"order": "a"}) == "one:a"
    assert two.lookup("a") == "two:a"
    assert list(one.lookup.schema().parameters["properties"]) == ["order"]
    assert one.lookup.definition == two.lookup.definition
    registry = ToolRegistry([one.lookup, one.later, Sub.of_class, one.alone, two.plain])
    assert run(registry, "lookup", {"order": "a"}) == "one:a"
    assert run(registry, "later", {"order": "a"}) == "one:a"
    assert run(registry, "of_class", {"order": "a"}) == "Sub:sub:a"
    assert run(registry, "alone", {"order": "a"}) == "a"
    assert run(registry, "plain", {"order": "a"}) == "two:a"


def test_classmethods_and_staticmethods_work_from_class_and_instance() -> None:
    assert Desk.of_class("a") == Desk("x").of_class("a") == "Desk:class:a"
    assert Sub("x").of_class.invoke({"order": "a"}) == "Sub:sub:a"
    assert Desk.alone("a") == Desk("x").alone("a") == "a"


def test_a_classmethod_around_the_tool_works_too() -> None:
    class Shop:
        @classmethod
        @tool
        def name_of(cls, n: int) -> str:
            return f"{cls.__name__}{n}"

    of_newer_pythons = MethodType(vars(Shop)["name_of"].__func__, Shop)
    for given in (Shop.name_of, of_newer_pythons):
        assert run(ToolRegistry([given]), "name_of", {"n": 1}) == "Shop1"


def test_a_tool_kept_in_a_class_is_not_given_an_object() -> None:
    @tool
    def double(n: int) -> int:
        return 2 * n

    class Kept:
        tool = double

    assert Kept().tool.invoke({"n": 2}) == 4


def test_a_method_without_its_object_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="`lookup` is a method without its object; take it"):
        ToolRegistry([Desk.lookup])
    with pytest.raises(InvalidInputError, match="is a method without its object"):
        Desk.lookup.invoke({"order": "a"})


class Database:
    def __init__(self, name: str) -> None:
        self.name = name


@tool(display="find {key}")
def find(
    key: str, db: Injected[Database], call: Injected[CallContext], limit: int = 3
) -> dict[str, Any]:
    return {"key": key, "db": db.name, "uid": call.uid, "attempt": call.attempt, "limit": limit}


def test_injected_parameters_reach_neither_schema_nor_arguments() -> None:
    assert list(find.schema().parameters["properties"]) == ["key", "limit"]
    assert "db" not in str(find.definition.to_json())
    bound = find.bind(db=Database("live"))
    frozen = bound.validate({"key": "a"})
    assert frozen == b'{"key":"a","limit":3}'
    assert bound.definition.render(frozen) == "find a"


@pytest.mark.attack
@pytest.mark.parametrize("name", ["db", "call"])
def test_a_model_cannot_fill_an_injected_parameter(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"unknown argument `{name}`; known: key, limit"):
        find.bind(db=Database("live")).invoke({"key": "a", name: None})
    with pytest.raises(InvalidInputError, match="names no argument"):
        tool(display="{db}")(find.function)


def test_bind_gives_a_new_tool_and_the_runtime_gives_the_context() -> None:
    live, test = find.bind(db=Database("live")), find.bind(db=Database("test"))
    assert run(ToolRegistry([live]), "find", {"key": "a"}) == {
        "key": "a",
        "db": "live",
        "uid": "r/1.0",
        "attempt": 2,
        "limit": 3,
    }
    assert test.invoke({"key": "a"})["db"] == "test"
    assert live.definition.digest == find.definition.digest


def test_by_hand_the_context_is_empty() -> None:
    @tool
    def who(call: Injected[CallContext | None]) -> CallContext | None:
        return call

    assert who.invoke({}) == CallContext()


def test_an_unbound_parameter_is_named() -> None:
    message = "injected parameter `db` of tool `find` is not bound; give it with `find.bind"
    with pytest.raises(InvalidInputError, match=message):
        ToolRegistry([find])
    with pytest.raises(InvalidInputError, match="is not bound"):
        find.invoke({"key": "a"})


def test_an_injected_parameter_may_have_a_default() -> None:
    @tool
    def ask(key: str, db: Injected[Database | None] = None) -> str:
        return db.name if db else key

    assert run(ToolRegistry([ask]), "ask", {"key": "a"}) == "a"
    assert ask.bind(db=Database("live")).invoke({"key": "a"}) == "live"


@pytest.mark.parametrize("name", ["key", "call", "nothing"])
def test_only_injected_parameters_are_bound(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"no injected parameter `{name}` to bind"):
        find.bind(**{name: 1})
