"""How a function becomes a tool.

`@tool` reads name, docstring and annotations once, at decoration, and refuses there what it cannot
describe. The `FunctionTool` it leaves behind is still the function when called.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from agent.tools.arguments import Arguments
from agent.tools.definition import Definition, check_display
from agent.tools.injection import CallContext
from agent.tools.options import ToolOptions, read_options
from agent.tools.results import ToolResult, as_result
from agent.tools.schema import ToolSchema
from agent.tools.secrets import Secrets, Veil, ask
from agent.tools.signature import Signature, read_signature
from governance.errors import InvalidInputError
from governance.policy.model import RiskProfile

__all__ = ["FunctionTool", "tool"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class FunctionTool(Generic[P, R_co]):
    """A function with a schema and a risk profile. Two tools are equal only when they are one."""

    function: Callable[P, R_co]
    definition: Definition
    signature: Signature
    of_class: bool = False
    receiver: tuple[object, ...] = ()
    injected: Mapping[str, object] = field(default_factory=dict[str, object])

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the plain function: nothing is validated, nothing injected."""
        return cast("Callable[..., R_co]", self.function)(*self.receiver, *args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> "FunctionTool[..., R_co]":
        """A tool that is a method, bound to the object it is taken from."""
        if not self.signature.receiver or self.receiver:
            return self
        target = (owner or type(instance)) if self.of_class else instance
        return self if target is None else replace(self, receiver=(target,))

    @property
    def __wrapped__(self) -> Callable[P, R_co]:
        return self.function

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def description(self) -> str:
        return self.definition.description

    @property
    def profile(self) -> RiskProfile:
        return self.definition.profile

    def schema(self) -> ToolSchema:
        return self.definition.schema()

    def bind(self, **values: object) -> "FunctionTool[P, R_co]":
        """Give injected parameters their values, in a new tool. Raises InvalidInputError."""
        for name in values:
            if name not in self.signature.injected and name not in self.signature.secrets:
                raise InvalidInputError(
                    f"tool `{self.name}` has no injected parameter `{name}` to bind",
                    hint="annotate it `Injected[…]`; a CallContext comes from the runtime",
                )
        return replace(self, injected={**self.injected, **values})

    def validate(self, arguments: Arguments) -> bytes:
        """Freeze `arguments`: what policy, approver, ledger and tool all read.

        Raises ToolArgumentsError.
        """
        return self.signature.freeze(arguments)

    def invoke(self, arguments: Arguments) -> R_co:
        """Validate, then call: the value of a `def`, an awaitable of an `async def`.

        Raises ToolArgumentsError, and whatever the function raises.
        """
        return self.prepare(self.validate(arguments), CallContext())()

    def execute(self, args: dict[str, Any], /) -> R_co:
        return self.invoke(args)

    def execute_structured(self, args: dict[str, Any], /) -> ToolResult | Awaitable[ToolResult]:
        value = self.invoke(args)
        return structured(value) if inspect.isawaitable(value) else as_result(value)

    def prepare(self, frozen: bytes, context: CallContext) -> Callable[[], R_co]:
        """Make the call that `frozen` describes, ready to run, with fresh copies of all values.

        Raises InvalidInputError when something is unbound, or the arguments do not fit (any more).
        """
        self.check_bound()
        for name in self.signature.secrets.keys() - self.injected.keys():
            raise InvalidInputError(
                f"secret `{name}` of tool `{self.name}` is not given",
                hint=f"give the agent `secrets=`, or the tool by hand `.bind({name}=…)`",
            )
        values = self.signature.values(frozen)
        contexts = dict.fromkeys(self.signature.contexts, context)
        return functools.partial(
            cast("Callable[..., R_co]", self.function),
            *self.receiver,
            **values,
            **contexts,
            **self.injected,
        )

    def keyed(self, secrets: Secrets | None) -> "FunctionTool[P, R_co]":
        """Ask for the secrets that are not bound yet, in a new tool. Raises InvalidInputError."""
        missing = self.signature.secrets.keys() - self.injected.keys()
        asked = {name: ask(secrets, self.signature.secrets[name]) for name in sorted(missing)}
        return replace(self, injected={**self.injected, **asked}) if asked else self

    def veil(self) -> Veil:
        """What hides this tool's secrets, once it has them."""
        names = self.signature.secrets
        return Veil({names[name]: str(self.injected[name]) for name in names})

    def check_bound(self) -> None:
        """Refuse a tool that still lacks its object or an injected value. Raises InvalidInputError."""
        if self.signature.receiver and not self.receiver:
            raise InvalidInputError(
                f"tool `{self.name}` is a method without its object",
                hint="take it from an instance",
            )
        for name, required in self.signature.injected.items():
            if required and name not in self.injected:
                raise InvalidInputError(
                    f"injected parameter `{name}` of tool `{self.name}` is not bound",
                    hint=f"give it with `{self.name}.bind({name}=…)`",
                )


@overload
def tool(
    function: Callable[P, R_co], /, **options: Unpack[ToolOptions]
) -> FunctionTool[P, R_co]: ...
@overload
def tool(
    **options: Unpack[ToolOptions],
) -> Callable[[Callable[P, R_co]], FunctionTool[P, R_co]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Make a function, method or classmethod a tool; bare, or with what is known about its risk.

    Put it outermost. Raises InvalidInputError at decoration for whatever cannot be described.
    """
    here = inspect.currentframe()
    caller = here.f_back if here else None
    # Postponed annotations may name what is local to the function or class around the decorator.
    namespace = dict(caller.f_locals) if caller else {}
    given = cast("Mapping[str, object]", options)
    if function is not None:
        return function_tool(function, given, namespace)
    return lambda decorated: function_tool(decorated, given, namespace)


def function_tool(
    given: object, options: Mapping[str, object], namespace: Mapping[str, Any]
) -> FunctionTool[..., Any]:
    """Build the tool of a function, method, classmethod or staticmethod."""
    function = given.__func__ if isinstance(given, classmethod | staticmethod) else given
    if not inspect.isfunction(function) and not inspect.ismethod(function):
        raise InvalidInputError(
            f"a {type(given).__name__} cannot be made a tool by `@tool`",
            hint="decorate a `def`, or bring an object that follows the `Tool` protocol",
        )
    chosen = read_options(options, function.__name__)
    signature = read_signature(function, chosen.name, namespace, strict=chosen.strict)
    check_display(chosen.display, signature.intake.names)
    definition = Definition(
        name=chosen.name,
        description=inspect.cleandoc(function.__doc__ or ""),
        parameters=signature.parameters,
        profile=chosen.profile,
        timeout=chosen.timeout,
        display=chosen.display,
        strict=chosen.strict,
    )
    definition.schema()  # a strict schema that cannot be given is refused here, not in mid run
    return FunctionTool(function, definition, signature, of_class=isinstance(given, classmethod))


async def structured(value: Awaitable[object]) -> ToolResult:
    """Wait for what a tool returned, and normalise it."""
    return as_result(await value)
