"""What is wrong in the files of a pipeline, for the person who wrote them: Spark's reason, file and line.

Spark says it in several ways. A file that it cannot load is an exception. A flow that it cannot resolve is an
event, and the exception that follows says only that there was one. Where the mistake is, is known best by
whoever loaded the files: `Origin` is where a flow came from.
"""

import ast
import os
import re
import traceback
from typing import Any, NamedTuple

from ottla.pipelines.sql_statements import Statement, statements

REASON_CHARACTERS_MAX = 2000
SHOWN_MAX = 5
# Of Spark's text: the class of the error, its state in SQL, and where in the statement it is.
_STATE = re.compile(r"\s*SQLSTATE: \w{5};?")
_AT = re.compile(r"\(?\bline (?P<line>\d+),? pos(?:ition)? (?P<column>\d+)\)?")
_UNRESOLVED = re.compile(r"Failed to resolve flow(?P<upstream> due to upstream failure)?: '(?P<flow>[^']+)'")
_FAILED = re.compile(r"Flow '?(?P<flow>.+?)'? has FAILED")
_WORKER = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')
_NAMED = re.compile(r"`([^`]+)`")
_TRACEBACK = "Traceback (most recent call last):"
# What to do about it, where Spark's own advice leads elsewhere.
_ADVICE = {
    "[KAFKA_DATA_SOURCE_NOT_ENABLED]": 'Write format("ottla"): it takes the same options, and no jar.',
    "option kafka.bootstrap.servers must be specified": (
        'In a pipeline: .option("kafka.bootstrap.servers", spark.conf.get("spark.ottla.bootstrap.servers"))'
    ),
    "[LOCATION_ALREADY_EXISTS]": (
        "Spark has files of the table, and has forgotten the table: does spark-defaults.conf name a catalog "
        "that lasts, as that of `ottla pipeline init` does? Remove the files if they can be made again."
    ),
}


class Origin(NamedTuple):
    """Where a flow stands. `statement` is its SQL, if it is SQL."""

    file: str
    line: int
    statement: Statement | None = None


class Mistake(NamedTuple):
    reason: str
    file: str = ""
    line: int = 0
    column: int = 0
    flow: str = ""
    code: str = ""

    def lines(self, folder: str = "") -> list[str]:
        """A block for a person: where, what, and the line itself."""
        file = os.path.relpath(self.file, folder) if folder and os.path.isabs(self.file) else self.file
        where = f"{file}, line {self.line}" if self.line else file
        flow = f"flow {self.flow}" if self.flow else ""
        head = ", ".join(part for part in (where, flow) if part)
        shown = [head] if head else []
        if self.code.strip():
            shown.append(f"    {self.code.strip()}")
            indent = len(self.code) - len(self.code.lstrip())
            if self.column > indent:
                shown.append(" " * (4 + self.column - 1 - indent) + "^")
        return [*shown, f"  {self.reason}", *(f"  {text}" for text in advice(self.reason))]


def advice(reason: str) -> list[str]:
    return [text for said, text in _ADVICE.items() if said in reason]


def first_line(text: str) -> str:
    """Without the stack of Java behind it; it may stand in the same line: ... at org.apache.X.y(X.scala:1)"""
    line = text.strip().split("\n", 1)[0]
    return re.split(r"\s+at [\w.$/<>]+\(", line, maxsplit=1)[0].strip()


def reason_of(error: BaseException) -> str:
    """What went wrong, without the traces of two languages around it, in one line."""
    text = first_line(str(error).split("JVM stacktrace:")[0]) or type(error).__name__
    causes = re.findall(r"^(?:Caused by: )?[\w.$]*(?:Exception|Error): (.+)$", str(error), re.MULTILINE)
    if causes and causes[-1] not in text:
        text += f" ({first_line(causes[-1])})"
    return text[:REASON_CHARACTERS_MAX]


def of_event(message: str, origins: dict[str, Origin]) -> Mistake | None:
    """A flow that could not be resolved for a reason of its own, or has failed."""
    match = _UNRESOLVED.match(message) or _FAILED.match(message)
    if match is None or match.groupdict().get("upstream"):
        return None
    name = match["flow"].rsplit(".", 1)[-1]
    return _located(message.partition("\nError: ")[2] or message, name, origins.get(name))


def of_flow(error: BaseException, name: str, origin: Origin) -> Mistake:
    """What the function of a flow, or Spark when it was told of it, raised."""
    raised = _raised_in(error, os.path.dirname(origin.file))
    if raised is not None and not _is_from_spark(error):
        return Mistake(_in_words(error), raised.filename, raised.lineno or 0, 0, name, raised.line or "")
    mistake = _located(str(error), name, origin)
    if raised is not None:
        return mistake._replace(line=raised.lineno or 0, code=raised.line or "", column=0)
    return mistake


def of_import(error: BaseException, folder: str) -> Mistake:
    """A file below a folder that could not be imported."""
    if isinstance(error, SyntaxError) and error.filename:
        column = error.offset or 0
        return Mistake(_in_words(error), error.filename, error.lineno or 0, column, code=error.text or "")
    raised = _raised_in(error, folder)
    if raised is None:
        return Mistake(_in_words(error))
    return Mistake(_in_words(error), raised.filename, raised.lineno or 0, code=raised.line or "")


def of_sql_file(error: BaseException, file: str, text: str) -> Mistake:
    """A file of SQL that Spark did not take: its text of the mistake has the statement in it."""
    said = str(error)
    quoted = said.partition("== SQL ==\n")[2]
    for statement in statements(text):
        first = next((line for line in statement.text.splitlines() if line.strip()), "")
        if quoted and first in quoted:
            last = statement.text.strip().splitlines()[-1]
            if last in quoted:
                return _located(said, statement.flow, Origin(file, statement.line, statement))
    return _located(said, "", Origin(file, 0))


def _located(said: str, flow: str, origin: Origin | None) -> Mistake:
    said = said.split("JVM stacktrace:")[0]
    raised, reason = _raised(said), in_short(said)
    if origin is None:
        return Mistake(reason, flow=flow)
    folder = os.path.dirname(origin.file)
    own = [at for at in _WORKER.findall(said) if os.path.dirname(at[0]) == folder]
    if raised and own:
        file, line = own[-1][0], int(own[-1][1])
        return Mistake(reason, file, line, 0, flow, _line_of(file, line))
    at = _AT.search(said)
    if origin.statement is not None and at is not None:
        line = origin.statement.line + int(at["line"]) - 1
        code = origin.statement.text.splitlines()[int(at["line"]) - 1 :][:1]
        is_from_one = "position" in at.group()
        column = int(at["column"]) + (not is_from_one)
        return Mistake(reason, origin.file, line, column, flow, "".join(code))
    if origin.statement is not None:
        line = origin.statement.first_line
    else:
        line = _line_with(origin.file, origin.line, _NAMED.findall(reason)) or origin.line
    return Mistake(reason, origin.file, line, 0, flow, _line_of(origin.file, line))


def in_short(said: str) -> str:
    """What a Python worker raised, or else Spark's sentence."""
    return _raised(said) or _reason(said)


def _raised(said: str) -> str:
    """The exception of a Python worker, in the last stack that is told; '' if none is, or it was cut off."""
    lines = said.rpartition(_TRACEBACK)[2].splitlines()[1:] if _TRACEBACK in said else []
    return next((line.strip() for line in lines if line.strip() and not line[0].isspace()), "")


def _reason(said: str) -> str:
    """Spark's sentence, without plans, stacks and states."""
    text = said.split("JVM stacktrace:")[0].split("\n== SQL")[0].replace(_TRACEBACK, "").strip()
    text = _STATE.sub("", _AT.sub("", text))
    paragraphs = [first_line(line).strip(" ;") for line in text.split("\n")]
    kept: list[str] = []
    for line in paragraphs:
        if line.startswith(("'", "+-", ":-", "==")) or not line:
            break
        kept.append(line)
    return (" ".join(kept[:1]) or first_line(said)).strip()[:REASON_CHARACTERS_MAX]


def _is_from_spark(error: BaseException) -> bool:
    return type(error).__module__.startswith("pyspark.errors.exceptions.connect")


def _in_words(error: BaseException) -> str:
    said = error.msg if isinstance(error, SyntaxError) else _reason(str(error))
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _raised_in(error: BaseException, folder: str) -> "traceback.FrameSummary | None":
    """The innermost line of a file below this folder."""
    below = os.path.join(folder, "")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename.startswith(below) and "site-packages" not in frame.filename
    ]
    return frames[-1] if frames else None


def _line_of(file: str, number: int) -> str:
    try:
        with open(file, encoding="utf-8") as lines:
            return next((line for at, line in enumerate(lines, 1) if at == number), "")
    except (OSError, UnicodeDecodeError):
        return ""


def _line_with(file: str, begin: int, names: list[str]) -> int | None:
    """The first line of the function that begins there with one of the names in it; the first name first."""
    try:
        with open(file, encoding="utf-8") as source:
            text = source.read()
        tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and begin in range(_first(node), (node.end_lineno or 0) + 1):
            lines = text.splitlines()[_first(node) - 1 : node.end_lineno]
            for name in names:
                for number, line in enumerate(lines):
                    if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", line):
                        return _first(node) + number
    return None


def _first(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def of_files(paths: list[str]) -> list[Mistake]:
    """What can be seen without Spark: Python that is none, and files that are neither Python nor SQL."""
    seen = []
    for path in paths:
        if path.endswith(".py"):
            try:
                with open(path, "rb") as file:
                    ast.parse(file.read(), path)
            except (SyntaxError, ValueError) as error:
                seen.append(of_import(error, path)._replace(file=path))
        elif not path.endswith(".sql"):
            seen.append(Mistake("a file of a pipeline is Python (.py) or SQL (.sql)", path))
    return seen


def block(mistakes: list[Mistake], folder: str) -> str:
    """All of them for a person, below each other."""
    shown = [line for mistake in mistakes[:SHOWN_MAX] for line in mistake.lines(folder)]
    more = len(mistakes) - SHOWN_MAX
    return "\n".join([*shown, *([f"and {more} more"] if more > 0 else [])])


def as_json(mistakes: list[Mistake]) -> list[dict[str, Any]]:
    return [mistake._asdict() for mistake in mistakes]
