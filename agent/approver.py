"""An approver at hand: how an agent without a queue asks somebody before it acts.

The embedding program passes a function; it vouches for who answers. Only an explicit yes counts: `True`
or `Approve(…)`. Anything else, an exception or no answer in time is a no.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from anyio import fail_after, to_thread

from governance.canonical import thaw
from governance.errors import InvalidInputError
from governance.ids import CallUid, RequestId, SubjectId, parse_subject_id
from governance.policy.model import Demands

__all__ = ["Answer", "Approve", "Approver", "Ask", "Asked", "Reject"]

ANSWER_WITHIN_S: Final = 300.0
PREFIX: Final = "approver:"


@dataclass(frozen=True, slots=True)
class Asked:
    """What an approver is asked: exactly the call that would run. `arguments` are frozen JSON text."""

    request: RequestId
    uid: CallUid
    tool: str
    arguments: str
    display: str
    rules: tuple[str, ...]
    reasons: tuple[str, ...]
    demands: Demands

    @property
    def args(self) -> dict[str, Any]:
        """A copy of the arguments. Changing it changes nothing that runs."""
        args: dict[str, Any] = thaw(self.arguments.encode())
        return args


@dataclass(frozen=True, slots=True)
class Approve:
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """`reason` is what the model is told."""

    reason: str = ""


Answer: TypeAlias = Approve | Reject
Ask: TypeAlias = Callable[[Asked], "Answer | bool | Awaitable[Answer | bool]"]


@dataclass(frozen=True, slots=True)
class Approver:
    """Somebody who answers through `ask`, sync or async, within `within_s` seconds.

    `subject` (`approver:…`) is recorded as the voter; `roles` are those whose seats this one person can fill.
    """

    ask: Ask
    subject: SubjectId = SubjectId("approver:inline")  # noqa: RUF009  # a NewType call is the value itself
    roles: frozenset[str] = frozenset({"approver"})
    within_s: float = ANSWER_WITHIN_S

    def __post_init__(self) -> None:
        if not self.subject.startswith(PREFIX):
            raise InvalidInputError(
                f"approver at hand `{self.subject[:80]}` is none that the program vouches for",
                hint=f"name it `{PREFIX}…`; people of the queue answer in the queue",
            )
        parse_subject_id(self.subject)

    async def answer(self, asked: Asked) -> Answer:
        """Put `asked` to the approver. Never raises: what is no answer is a no."""
        try:
            with fail_after(self.within_s):
                given = await self._ask(asked)
        except TimeoutError:
            return Reject("no answer in time")
        except Exception as exc:  # noqa: BLE001  # whatever goes wrong while asking, nobody said yes
            return Reject(f"asking failed ({type(exc).__name__})")
        if given is True:
            return Approve()
        return given if isinstance(given, Approve | Reject) else Reject()

    async def _ask(self, asked: Asked) -> object:
        if inspect.iscoroutinefunction(self.ask):
            return await self.ask(asked)
        given = await to_thread.run_sync(self.ask, asked, abandon_on_cancel=True)
        return await given if inspect.isawaitable(given) else given
