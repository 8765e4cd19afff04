"""Makes docs/cli.md out of the commands: what `--help` says of each, on one page; and for `ottla --help`,
which does not load them, the first sentence of each (cli/summaries.py).

`page` reads the same objects that typer makes its help from, so that neither a command nor an option can be
missing. Run: make reference
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from ottla.cli.app import app, summary

SUMMARIES = Path(__file__).parent.parent / "src" / "ottla" / "cli" / "summaries.py"
AS_IT_STANDS = "\b\n"  # how a docstring marks a paragraph that keeps its lines
DEFAULT_IN_WORDS = re.compile(r"\s*\(([^()]+)\)$")  # how a help text ends where a default is no plain value


def page(note: str) -> str:
    """The page, with a note on where it comes from below its title."""
    root: Any = typer.main.get_command(app)
    commands = dict(_commands(root, "ottla"))
    lines = ["# The command line", "", note, "", *_prose(root.help), *_options(root)]
    lines += ["`--help`, or `-h`, after any command shows its part of this page.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#{_anchor(name)}) | {_title(command)} |" for name, command in commands.items()]
    for name, command in commands.items():
        lines += ["", f"## {name}", "", *_prose(command.help), f"    {_usage(name, command)}", ""]
        lines += [*_arguments(command), *_options(command), *_examples(command.help)]
        lines.pop()
    return "\n".join([*lines, ""])


def summaries() -> str:
    root: Any = typer.main.get_command(app)
    rows = [f'    "{name}": "{summary(command)}",' for name, command in root.commands.items()]
    opening = (
        "What `ottla --help` says of each command. Made by `make reference`; change the commands, not this."
    )
    return "\n".join([f'"""{opening}"""', "", "SUMMARIES = {", *rows, "}", ""])


def _commands(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, in the order in which `--help` lists them."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def _title(command: Any) -> str:
    return _cell(summary(command)).removesuffix(".")


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _usage(name: str, command: Any) -> str:
    arguments = [
        parameter.metavar if parameter.required else f"[{parameter.metavar}]"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    ]
    return " ".join([name, "[OPTIONS]", *arguments])


def _prose(text: str) -> list[str]:
    """The paragraphs of a help text, without its examples."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        if not paragraph.startswith(AS_IT_STANDS):
            lines += [paragraph, ""]
        elif not _is_example(paragraph):
            lines += ["```", *paragraph.removeprefix(AS_IT_STANDS).splitlines(), "```", ""]
    return lines


def _examples(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        if _is_example(paragraph):
            commands = paragraph.removeprefix(AS_IT_STANDS).splitlines()[1:]
            lines += ["```bash", *(line.removeprefix("  ") for line in commands), "```", ""]
    return lines


def _is_example(paragraph: str) -> bool:
    return re.match(AS_IT_STANDS + r"Examples?:\n", paragraph) is not None


def _arguments(command: Any) -> list[str]:
    rows = [
        f"| `{parameter.metavar}` | {_purpose(parameter)} | {_default(parameter)} |"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    ]
    return ["| argument | | default |", "|---|---|---|", *rows, ""] if rows else []


def _options(command: Any) -> list[str]:
    rows = [
        f"| {_names(parameter)} | {_purpose(parameter)} | {_default(parameter)} |"
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.hidden
    ]
    return ["| option | | default |", "|---|---|---|", *rows, ""] if rows else []


def _names(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} `{option.metavar or option.name.upper()}`"


def _purpose(parameter: Any) -> str:
    return _cell(DEFAULT_IN_WORDS.sub("", parameter.help or ""))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if in_words := DEFAULT_IN_WORDS.search(parameter.help or ""):
        shown = in_words[1]
    elif isinstance(parameter.show_default, str):
        shown = parameter.show_default
    elif parameter.default is None or isinstance(parameter.default, bool):
        shown = f"`{parameter.opts[0]}`" if parameter.default else ""
    else:
        shown = f"`{parameter.default}`"
    variable = f"`${parameter.envvar}`" if parameter.envvar else ""
    return ", or ".join(filter(None, [variable, shown]))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
