"""Non-functional properties of the source: layers, purity, sizes, names. One pass, no list of exceptions.

`problems(root)` yields a sentence for every broken rule; `test_tidy.py` fails on the first.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Lowest first. A package imports only what stands before it; a tuple holds siblings that do not see another.
LAYERS: list[str | tuple[str, ...]] = [
    "base",
    "wire",
    "records",
    "log",
    "coordinator",
    ("controller", "group", "replication", "txn", "security"),
    "broker",
    "api",
    ("client", "shell", "arrow"),
    ("spark", "ship", "testing"),
    "pipelines",
    "cli",
]
PURE_UP_TO = "api"
IMPURE = {"asyncio", "kazoo", "random", "select", "socket", "subprocess", "threading", "time", "uvloop"}
ASYNC_ROOMS = {"shell", "console"}
FILE_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 500, 60, 110
BANNED = re.compile(r"(Manager|Helper|Util|Impl|Base|Data|Info)s?$|^(Manager|Helper|Util|Impl|Base)")
GENERATED = ("wire", "messages")

RANK = {
    name: rank for rank, layer in enumerate(LAYERS) for name in ([layer] if isinstance(layer, str) else layer)
}


def problems(root: Path, package: str = "ottla") -> Iterator[str]:
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        tree = ast.parse(text)
        parts = path.relative_to(root).parts
        room = parts[0].removesuffix(".py")
        where = path.relative_to(root)
        if text.count("\n") > FILE_LINES_MAX:
            yield f"{where}: longer than {FILE_LINES_MAX} lines"
        for number, line in enumerate(text.splitlines(), 1):
            if len(line) > COLUMNS_MAX:
                yield f"{where}:{number}: wider than {COLUMNS_MAX} columns"
        if text.strip() and not ast.get_docstring(tree):
            yield f"{where}: does not open with what it is"
        generated = parts[: len(GENERATED)] == GENERATED
        for node in ast.walk(tree):
            yield from _node_problems(where, room, node, package)
            if not generated:
                yield from _name_problems(where, node)


def _node_problems(where: Path, room: str, node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _code_lines(node) > FUNCTION_LINES_MAX:
        yield f"{where}:{node.lineno}: {node.name} has more than {FUNCTION_LINES_MAX} code lines"
    if isinstance(node, ast.AsyncFunctionDef) and room not in ASYNC_ROOMS:
        yield f"{where}:{node.lineno}: async def outside {', '.join(sorted(ASYNC_ROOMS))}"
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print" and room != "cli":
        yield f"{where}:{node.lineno}: print outside cli"
    for module in _imported(node):
        yield from _import_problems(where, node, room, module.split("."), package)


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide the layer"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _import_problems(where: Path, node: ast.AST, room: str, module: list[str], package: str) -> Iterator[str]:
    line = getattr(node, "lineno", 0)
    if room not in RANK:
        return
    if module[0] in IMPURE and RANK[room] <= RANK[PURE_UP_TO]:
        yield f"{where}:{line}: {room} is pure and may not import {module[0]}"
    if module[0] != package or len(module) < 2 or module[1] == room:
        return
    if RANK.get(module[1], 99) >= RANK[room]:
        yield f"{where}:{line}: {room} may not import {module[1]}"


def _name_problems(where: Path, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ClassDef) and BANNED.search(node.name):
        yield f"{where}:{node.lineno}: {node.name} says nothing; name what it is"
