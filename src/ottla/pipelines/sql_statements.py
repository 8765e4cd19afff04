"""The statements of a pipeline's SQL file: where each begins, what it makes, and what it may read.

Spark tells where in a statement a mistake is, and counts lines from the end of the statement before. A person
wants the line of the file. This is no parser: it knows where strings, quoted names and comments end, and the
first words of the statements that pipelines have.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_PIECES = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|\Z)|'(?:[^'\\]|\\.)*(?:'|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)"""
    r"""|`[^`]*(?:`|\Z)|;|[^-/'"`;]+|.""",
    re.DOTALL,
)
_NAME = r"(?:`[^`]+`|[\w$]+)(?:\s*\.\s*(?:`[^`]+`|[\w$]+))*"
_MADE = re.compile(
    r"^\s*CREATE\s+(?:OR\s+REFRESH\s+|OR\s+REPLACE\s+)?"
    r"(?P<kind>MATERIALIZED\s+VIEW|STREAMING\s+TABLE|TEMPORARY\s+VIEW|LIVE\s+VIEW|VIEW|FLOW)\s+"
    rf"(?:IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_INSERTED = re.compile(rf"\bINSERT\s+INTO\s+(?:ONCE\s+)?(?P<name>{_NAME})", re.IGNORECASE)
_READ = re.compile(
    rf"(?:\b(?:FROM|JOIN)|,)\s+(?:STREAM\s*\(\s*|STREAM\s+)?(?P<name>{_NAME})",
    re.IGNORECASE,
)


class Statement(NamedTuple):
    """`line` is the line of the file in which the text begins, which may be the end of the one before."""

    line: int
    text: str

    @property
    def bare(self) -> str:
        """Without comments, and with nothing in its strings."""
        return "".join(_bare(piece.group()) for piece in _PIECES.finditer(self.text))

    @property
    def first_line(self) -> int:
        """Of the file: where its first word is, behind blank lines and comments."""
        line = self.line
        for piece in _PIECES.finditer(self.text):
            text = piece.group()
            if not text.startswith(("--", "/*")) and text.strip():
                return line + text[: len(text) - len(text.lstrip())].count("\n")
            line += text.count("\n")
        return line

    @property
    def kind(self) -> str:
        """MATERIALIZED VIEW, STREAMING TABLE, TEMPORARY VIEW or FLOW; empty if it makes nothing."""
        made = _MADE.match(self.bare)
        return " ".join(made["kind"].upper().split()) if made else ""

    @property
    def flow(self) -> str:
        """What it makes: a flow, or a table with the flow that has its name."""
        made = _MADE.match(self.bare)
        return last_part(made["name"]) if made else ""

    @property
    def target(self) -> str:
        inserted = _INSERTED.search(self.bare) if self.kind == "FLOW" else None
        return last_part(inserted["name"]) if inserted else self.flow

    @property
    def has_query(self) -> bool:
        made = _MADE.match(self.bare)
        return made is not None and re.search(r"\bAS\b", made["rest"], re.IGNORECASE) is not None

    def reads(self, datasets: set[str]) -> list[str]:
        """Those of the datasets that stand where a table can."""
        names = (last_part(match["name"]) for match in _READ.finditer(self.bare))
        return list(dict.fromkeys(name for name in names if name in datasets))


def statements(text: str) -> Iterator[Statement]:
    """Those with something in them."""
    begin, line = 0, 1
    for piece in _PIECES.finditer(text):
        if piece.group() == ";":
            statement = Statement(line, text[begin : piece.start()])
            line += statement.text.count("\n")
            begin = piece.end()
            if statement.bare.strip():
                yield statement
    if (statement := Statement(line, text[begin:])).bare.strip():
        yield statement


def last_part(name: str) -> str:
    """`spark_catalog.default.orders` is known as orders."""
    return name.split(".")[-1].strip().strip("`")


def _bare(piece: str) -> str:
    if piece.startswith(("--", "/*")):
        return " "
    return "''" if piece[0] in "'\"" else piece
