"""What the API takes and gives: dataclasses, read from JSON with checks, and described as JSON Schema.

A field is `Annotated[type, Rule("what it is", least=1)]`. There are str, int, float, bool, Any, T | None,
Literal, list, dict with names of text, and other dataclasses. A field without a default must be given; a name
that is not declared is refused, so that a misspelt one is not read over.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Json = dict[str, Any]
INT_MAX = (1 << 63) - 1


class ShapeError(ValueError):
    """What was given is not what is declared; `field` says where."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field


@dataclass(frozen=True)
class Rule:
    """What a field is, and its limits: of a number, or of how long a text, a list or an object is."""

    says: str
    least: int | None = None
    most: int | None = None
    pattern: str = ""
    example: Any = None


NO_RULE = Rule("")


# -- from JSON -----------------------------------------------------------------------------------------------


def read(shape: type[T], given: Any, where: str = "") -> T:
    """An instance of the dataclass. ShapeError: something is missing, of another type, or beyond a limit."""
    if not isinstance(given, dict):
        raise ShapeError(where, "an object is wanted")
    declared = members(shape)
    for name in given:
        if name not in declared:
            raise ShapeError(_below(where, name), f"there is no such field, only {', '.join(declared)}")
    values = {}
    for name, (field, kind) in declared.items():
        if name in given:
            values[name] = _value(kind, given[name], _below(where, name))
        elif is_required(field):
            raise ShapeError(_below(where, name), "this is missing")
    return shape(**values)


def read_query(shape: type[T], given: Mapping[str, str]) -> T:
    """The same of a query, where everything is text."""
    values: Json = dict(given)
    for name, (_, kind) in members(shape).items():
        kinds = {_bare(part) for part in _choices(_bare(kind))}
        if name in values and int in kinds and re.fullmatch("-?[0-9]{1,19}", values[name]):
            values[name] = int(values[name])
        elif name in values and bool in kinds and values[name] in {"true", "false"}:
            values[name] = values[name] == "true"
    return read(shape, values)


def _value(kind: Any, given: Any, where: str) -> Any:
    rule = _rule(kind)
    bare = _bare(kind)
    if bare is Any:
        return given
    choices = _choices(bare)
    if given is None and NoneType in choices:
        return None
    (choice,) = [part for part in choices if part is not NoneType]
    if _rule(choice) is not NO_RULE:
        rule = _rule(choice)
    choice = _bare(choice)
    if is_dataclass(choice):
        return read(choice, given, where)  # type: ignore[arg-type]
    origin = get_origin(choice)
    if origin is Literal:
        if given not in get_args(choice):
            raise ShapeError(where, f"it is one of {', '.join(map(str, get_args(choice)))}")
        return given
    wanted = origin or choice
    if not _is(wanted, given):
        raise ShapeError(where, f"{NAMES[wanted]} is wanted")
    _check(rule, given, where)
    if wanted is list:
        (part,) = get_args(choice)
        return [_value(part, item, f"{where}[{at}]") for at, item in enumerate(given)]
    if wanted is dict:
        part = get_args(choice)[1]
        return {_text(name, where): _value(part, item, _below(where, name)) for name, item in given.items()}
    return given


NAMES: dict[Any, str] = {
    str: "text", int: "a whole number", float: "a number", bool: "true or false",
    list: "a list", dict: "an object",
}  # fmt: skip


def _is(wanted: Any, given: Any) -> bool:
    if wanted in (int, float) and isinstance(given, bool):
        return False
    return isinstance(given, int | float if wanted is float else wanted)


def _check(rule: Rule, given: Any, where: str) -> None:
    is_number = isinstance(given, int | float)
    if isinstance(given, str):
        _text(given, where)
    size = given if is_number else len(given)
    least, most = rule.least, rule.most if rule.most is not None or not is_number else INT_MAX
    what = "" if is_number else " characters" if isinstance(given, str) else " entries"
    if least is not None and size < least:
        raise ShapeError(where, f"at least {least}{what} are wanted")
    if most is not None and size > most:
        raise ShapeError(where, f"at most {most}{what} are taken")
    if rule.pattern and isinstance(given, str) and not re.fullmatch(rule.pattern, given):
        raise ShapeError(where, f"it does not match {rule.pattern}")


def _text(given: str, where: str) -> str:
    """JSON can write half of a character, which nothing can be done with."""
    if "\0" in given or any("\ud800" <= letter <= "\udfff" for letter in given):
        raise ShapeError(where, "this is no text: it has a zero or half of a character in it")
    return given


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


# -- types ---------------------------------------------------------------------------------------------------


def members(shape: Any) -> dict[str, tuple[Field[Any], Any]]:
    """The fields of a dataclass with their types, rules included."""
    return _members(shape)


@cache
def _members(shape: Any) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(shape, include_extras=True)
    return {field.name: (field, hints[field.name]) for field in fields(shape)}


def is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _rule(kind: Any) -> Rule:
    if get_origin(kind) is Annotated:
        for note in kind.__metadata__:
            if isinstance(note, Rule):
                return note
    return NO_RULE


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _choices(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is UnionType else (kind,)


# -- as JSON Schema ------------------------------------------------------------------------------------------


def schema(kind: Any, named: Callable[[Any], Json]) -> Json:
    """Of a type; `named` gives the reference to a dataclass."""
    rule, bare = _rule(kind), _bare(kind)
    made: Json = {} if bare is Any else _union(_choices(bare), rule, named)
    if rule.says:
        made = {**made, "description": rule.says}
    if rule.example is not None:
        made["examples"] = [rule.example]
    return made


def _union(choices: tuple[Any, ...], rule: Rule, named: Callable[[Any], Json]) -> Json:
    parts = [_plain(part, rule, named) for part in choices if part is not NoneType]
    if NoneType not in choices:
        return parts[0]
    (part,) = parts
    if "type" not in part or "enum" in part:
        return {"anyOf": [part, {"type": "null"}]}
    return {**part, "type": [part["type"], "null"]}


def _plain(kind: Any, rule: Rule, named: Callable[[Any], Json]) -> Json:
    if is_dataclass(kind):
        return named(kind)
    origin = get_origin(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    if origin is list:
        limits = {"minItems": rule.least, "maxItems": rule.most}
        return {"type": "array", "items": schema(get_args(kind)[0], named), **_given(limits)}
    if origin is dict:
        limits = {"minProperties": rule.least, "maxProperties": rule.most}
        return {
            "type": "object",
            "additionalProperties": schema(get_args(kind)[1], named),
            **_given(limits),
        }
    if kind is str:
        pattern = f"^(?:{rule.pattern})$" if rule.pattern else None
        return {
            "type": "string",
            **_given({"minLength": rule.least, "maxLength": rule.most, "pattern": pattern}),
        }
    limits = {"minimum": rule.least, "maximum": rule.most}
    names = {int: "integer", float: "number", bool: "boolean"}
    return {"type": names[kind], **_given(limits)}


def _given(limits: Json) -> Json:
    return {name: limit for name, limit in limits.items() if limit is not None}


def object_schema(shape: Any, named: Callable[[Any], Json]) -> Json:
    """Of a dataclass, in full."""
    declared = members(shape)
    properties = {}
    for name, (field, kind) in declared.items():
        properties[name] = schema(kind, named)
        if not is_required(field) and field.default is not MISSING and field.default is not None:
            properties[name]["default"] = field.default
    made: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    if shape.__doc__ and not shape.__doc__.startswith(f"{shape.__name__}("):
        made["description"] = " ".join(shape.__doc__.split())
    required = [name for name, (field, _) in declared.items() if is_required(field)]
    return {**made, "required": required} if required else made


# -- to JSON -------------------------------------------------------------------------------------------------


def written(value: Any) -> Any:
    """What was declared, as JSON has it. Other values are JSON already."""
    if is_dataclass(value):
        return {field.name: written(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list) and value and is_dataclass(value[0]):
        return [written(item) for item in value]
    return value
