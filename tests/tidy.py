"""Non-functional properties of the source: layers, purity, sizes, names. One pass, no list of exceptions.

`problems(root)` yields a sentence for every broken rule; `test_tidy.py` fails on the first. `hidden_cycles`,
`weak_names` and `verb_modules` yield theirs in the same way.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# Lowest first. A package imports only what stands before it; a tuple holds siblings that do not see another.
LAYERS: list[str | tuple[str, ...]] = [
    "base",
    "wire",
    "records",
    "log",
    "coordinator",
    ("controller", "group", "replication", "security", "txn"),
    "broker",
    "api",
    ("client", "shell", "arrow"),
    ("spark", "console", "ship", "testing"),
    "pipelines",
    "cli",
]
PURE_UP_TO = "api"
IMPURE = {"asyncio", "kazoo", "random", "select", "socket", "subprocess", "threading", "time", "uvloop"}
ASYNC_ROOMS = {"console", "shell"}
FILE_LINES_MAX, FUNCTION_LINES_MAX, COLUMNS_MAX = 500, 60, 110
BANNED = re.compile(r"(Manager|Helper|Util|Impl|Base|Data|Info)s?$|^(Manager|Helper|Util|Impl|Base)")
WEAK_NAMES = {"each", "found", "id", "known", "one", "place"}
NOUNS_IN_ING = {"testing"}  # the room of the pytest plugin, as in `numpy.testing`
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
        if len(parts) > 1 and room not in RANK:
            yield f"{where}: the room {room} has no place in the layers"
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
    if room not in RANK:  # the package's own modules: what a user imports
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


# -- cycles --------------------


def hidden_cycles(root: Path, package: str = "ottla") -> Iterator[str]:
    """Modules that import each other in a circle, late imports and those for type checkers included.

    Python forgives such a circle and a reader does not: none of its modules can be understood without all the
    others. Each strongly connected component of the graph of imports is one problem.
    """
    graph = _import_graph(root, package)
    for component in _strongly_connected(graph):
        if len(component) > 1 or component[0] in graph[component[0]]:
            yield f"{len(component)} modules import each other: {', '.join(sorted(component))}"


def _import_graph(root: Path, package: str) -> dict[str, set[str]]:
    files = {_module_of(path, root, package): path for path in sorted(root.rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        imported = {name for node in ast.walk(ast.parse(path.read_text())) for name in _imported(node)}
        # Of `from x.y import z`, x.y.z if that is a module, else x.y; a parent package is not counted.
        graph[module] = {
            name if name in files else name.rpartition(".")[0]
            for name in imported
            if name in files or name.rpartition(".")[0] in files
        }
    return graph


def _module_of(path: Path, root: Path, package: str) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])


def _strongly_connected(graph: dict[str, set[str]]) -> list[list[str]]:
    """Tarjan's components, those of one node as well."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for neighbour in sorted(graph[node]):
            if neighbour not in numbers:
                visit(neighbour)
                lowest[node] = min(lowest[node], lowest[neighbour])
            elif neighbour in stack:
                lowest[node] = min(lowest[node], numbers[neighbour])
        if lowest[node] == numbers[node]:
            at = stack.index(node)
            components.append(stack[at:])
            del stack[at:]

    for node in sorted(graph):
        if node not in numbers:
            visit(node)
    return components


# -- names --------------------


def weak_names(root: Path) -> Iterator[str]:
    """Names that say nothing, or hide a builtin, where a function binds them: things have names."""
    for path in sorted(root.rglob("*.py")):
        where = path.relative_to(root)
        if where.parts[: len(GENERATED)] == GENERATED:
            continue
        for name, line in _bound_in_functions(ast.parse(path.read_text())):
            if name in WEAK_NAMES:
                yield f"{where}:{line}: {name} says nothing; name what it is"


def _bound_in_functions(tree: ast.Module) -> list[tuple[str, int]]:
    """Parameters, and whatever is assigned in a function, a lambda or a comprehension, in order of lines."""
    scopes = (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda,
        ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    )  # fmt: skip
    bound: set[tuple[int, int, str]] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, scopes):
            continue
        for node in ast.walk(scope):
            if isinstance(node, ast.arg):
                bound.add((node.lineno, node.col_offset, node.arg))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound.add((node.lineno, node.col_offset, node.id))
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                bound.add((node.lineno, node.col_offset, node.name))
    return [(name, line) for line, _, name in sorted(bound)]


def verb_modules(root: Path) -> Iterator[str]:
    """Modules and folders that are called after an activity. What they hold is a thing, and has a name."""
    by_folder: dict[Path, set[str]] = defaultdict(set)
    for path in root.rglob("*.py"):
        where = path.relative_to(root)
        for depth, part in enumerate(where.parts):
            by_folder[Path(*where.parts[:depth])].add(part)
    for folder, names in sorted(by_folder.items()):
        for name in sorted(names):
            words = set(name.removesuffix(".py").split("_"))
            if any(word.endswith("ing") for word in words - NOUNS_IN_ING):
                yield f"{folder / name}: a module is a noun; name what it holds"
