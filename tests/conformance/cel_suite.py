"""The official CEL conformance suite, as cases over JSON-like values. Fetched when first needed, never committed.

It comes from npm's `@bufbuild/cel-spec`, pinned by version and digest. Cases that need protocol buffers, only a type
checker, or functions of their own are no cases of ours.
"""

import base64
import json
import math
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import npm

from governance.policy.closure_times import parse_duration, parse_moment
from governance.policy.closure_values import BoolKey, TypeName, Uint, key_of

PACKAGE = "@bufbuild/cel-spec@0.6.1"
PACKAGE_SHA256 = "37e4b203f5ca5192db73a6095d129fb5e58a262a89309ba32e1840e7a80270e1"
AS_JSON = "process.stdout.write(JSON.stringify(require(process.argv[1]).tests))"

CORE = (
    *("basic", "comparisons", "conversions", "fields", "fp_math", "integer_math", "logic"),
    *("plumbing", "type_deductions", "lists", "macros", "string", "parse", "timestamps"),
)
EXTENSIONS = ("string_ext", "macros2")

ERROR = object()


@dataclass(frozen=True)
class Case:
    id: str
    file: str
    source: str
    bindings: dict[str, Any]
    expected: Any
    """A value, or `ERROR`."""


class SuiteAbsentError(Exception):
    pass


def cases(folder: Path) -> list[Case]:
    """Read the suite, fetching it into `folder` at the first time. Raises SuiteAbsentError."""
    suite = folder / "suite.json"
    if not suite.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            made = Path(scratch) / "suite.json"
            made.write_text(_fetch(made.parent))
            made.replace(suite)  # in one step: another process may be reading
    found = list(_read(json.loads(suite.read_text()), ()))
    seen: Counter[str] = Counter()
    for number, case in enumerate(found):
        seen[case.id] += 1
        if seen[case.id] > 1:
            found[number] = replace(case, id=f"{case.id}#{seen[case.id]}")
    return found


def _fetch(folder: Path) -> str:
    try:
        package = npm.fetch(PACKAGE, PACKAGE_SHA256, folder)
    except npm.AbsentError as exc:
        raise SuiteAbsentError(str(exc)) from exc
    return npm.node("-e", AS_JSON, str(package / "dist/cjs/testdata/conformance.js")).decode()


def _read(suite: dict[str, Any], above: tuple[str, ...]) -> Iterator[Case]:
    path = (*above, suite["name"])
    for inner in suite.get("suites", ()):
        yield from _read(inner, path)
    if len(path) < 3 or path[1] not in CORE + EXTENSIONS:
        return
    for test in suite.get("tests", ()):
        case = _case(test["original"], path)
        if case is not None:
            yield case


MESSAGES = re.compile(r"TestAllTypes|google\.protobuf\.(?!Timestamp\b|Duration\b)|cel\.block")


def _case(test: dict[str, Any], path: tuple[str, ...]) -> Case | None:
    functions = any("function" in declared for declared in test.get("typeEnv", ()))
    if test.get("checkOnly") or functions or _needs_messages(test):
        return None
    value = test.get("value") or test.get("typedResult", {}).get("result")
    if "evalError" in test:
        expected = ERROR
    elif value is None:
        expected = None if "typedResult" in test else True
        if "typedResult" in test:
            return None
    else:
        expected = read_value(value)
    bindings = {
        name: read_value(given["value"]) for name, given in test.get("bindings", {}).items()
    }
    file, section = path[1], "/".join(path[2:])
    return Case(f"{file}/{section}/{test['name']}", file, test["expr"], bindings, expected)


def _needs_messages(test: dict[str, Any]) -> bool:
    values = [test.get("value"), test.get("typedResult"), *test.get("bindings", {}).values()]
    objects = re.findall(r'"@type": "([^"]+)"', json.dumps(values))
    ours = ("google.protobuf.Duration", "google.protobuf.Timestamp")
    return (
        any(not name.endswith(ours) for name in objects)
        or "enumValue" in json.dumps(values)
        or MESSAGES.search(test["expr"]) is not None
    )


def read_value(value: dict[str, Any]) -> Any:
    ((kind, given),) = value.items()
    match kind:
        case "int64Value":
            return int(given)
        case "uint64Value":
            return Uint(given)
        case "doubleValue":
            return float(given)
        case "bytesValue":
            return base64.b64decode(given)
        case "typeValue":
            return TypeName(given)
        case "listValue":
            return [read_value(item) for item in given.get("values", ())]
        case "mapValue":
            entries = given.get("entries", ())
            return {key_of(read_value(e["key"])): read_value(e["value"]) for e in entries}
        case "objectValue":
            parse = parse_duration if given["@type"].endswith("Duration") else parse_moment
            return parse(given["value"])
        case "boolValue" | "stringValue" | "nullValue":
            return given
    raise AssertionError(kind)


def same(left: Any, right: Any) -> bool:
    """Type-strict: 1 is neither 1u nor 1.0; NaN is NaN; the order of a map is nothing."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):  # the suite's JSON has no -0.0
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return set(map(_typed, left)) == set(map(_typed, right)) and all(
            same(item, right[key]) for key, item in left.items()
        )
    return bool(left == right)


def _typed(key: Any) -> tuple[type, Any]:
    return type(key), key.value if isinstance(key, BoolKey) else key
