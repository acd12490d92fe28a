"""Which agent does `module:attr` name? Imports it, and says clearly where that fails."""

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from governance.errors import GovernanceError, InvalidInputError

if TYPE_CHECKING:
    from agent import DurableAgent
    from governance.assemble import Governance

__all__ = ["find", "find_module", "open_agent"]


@contextmanager
def open_agent(
    target: str, home: Path | None, policies: Sequence[Path] | None
) -> "Iterator[DurableAgent]":
    """Find the agent that `target` names, and close its installation afterwards.

    A function is given the installation in `home` under `policies`; a finished agent brought its own.
    Raises InvalidInputError for a target that is none.
    """
    from agent import DurableAgent

    found = find(target)
    if isinstance(found, DurableAgent):
        if home is not None or policies:
            found.governance.close()
            raise InvalidInputError(
                f"`{target}` is an agent with an installation of its own",
                hint="leave out `--home` and `--policy`, or name a function that takes a Governance",
            )
        with found.governance:
            yield found
        return
    if not callable(found) or isinstance(found, type):
        raise InvalidInputError(
            f"`{target}` is a {type(found).__name__}, not an agent",
            hint="name a DurableAgent, or a function that takes a Governance and returns one",
        )
    from governance.assemble import Governance

    with Governance.open(home, policies=policies or None) as governance:
        yield _build(found, target, governance)


def _build(
    function: Callable[..., object], target: str, governance: "Governance"
) -> "DurableAgent":
    from agent import DurableAgent

    try:
        agent = function(governance)
    except GovernanceError:
        raise
    except Exception as exc:
        raise InvalidInputError(
            f"`{target}` failed with `{type(exc).__name__}`: {str(exc)[:200]}",
            hint="run `governance --debug …` to see where",
        ) from exc
    if not isinstance(agent, DurableAgent):
        raise InvalidInputError(
            f"`{target}` returned a {type(agent).__name__}, not an agent",
            hint="return a DurableAgent that was given this Governance",
        )
    return agent


def find(target: str) -> object:
    """Find what `module:attr` names. Raises InvalidInputError."""
    module_name, colon, path = target.partition(":")
    names = path.split(".")
    if not colon or not all(n.isidentifier() for n in (*module_name.split("."), *names)):
        raise InvalidInputError(
            f"`{target[:80]}` does not name an agent", hint="write it like `package.module:agent`"
        )
    found: object = find_module(module_name)
    for name in names:
        if not hasattr(found, name):
            raise InvalidInputError(
                f"module `{module_name}` has no `{path}`", hint="check the name after the colon"
            )
        found = cast("object", getattr(found, name))
    return found


def find_module(name: str) -> object:
    """Import a module, from here too. Raises InvalidInputError with what is wrong with it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except GovernanceError:
        raise
    except ModuleNotFoundError as exc:
        if exc.name is not None and f"{name}.".startswith(f"{exc.name}."):
            raise InvalidInputError(
                f"there is no module `{name}`",
                hint="check the spelling, and run from the folder that holds it",
            ) from exc
        raise InvalidInputError(
            f"module `{name}` needs `{exc.name}`, which is not installed", hint="install it"
        ) from exc
    except (Exception, SystemExit) as exc:
        raise InvalidInputError(
            f"module `{name}` cannot be imported: `{type(exc).__name__}`: {str(exc)[:200]}",
            hint="run `governance --debug …` to see where",
        ) from exc
