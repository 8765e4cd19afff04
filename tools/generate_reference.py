"""Writes what is made from the code: pages of docs/ (APIs, configs, metrics, command line ...), a dashboard.

A test compares what is on disk with what this would write, so the pages cannot drift. Run: make reference
"""

import ast
import re
from pathlib import Path

import yaml
from tests.compat.card import Card
from tools import generate_card, generate_cli, generate_dashboard

from ottla.api.table import TABLE, Api
from ottla.base.config import Row, rows, rows_by_group_key
from ottla.base.errors import ErrorCode
from ottla.base.log_fields import FIELDS
from ottla.broker.config_classes import TITLES
from ottla.shell.metrics.sources import all_metrics
from ottla.wire.messages import FLEXIBLE_SINCE

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs"
ALERTS = ROOT / "ops" / "prometheus" / "alerts.yml"
MADE = "Made by `make reference` from the code; change that, not this page."


def pages() -> dict[str, str]:
    """The text of each page, by its path under docs/."""
    return {
        "alerts.md": alerts(),
        "cli.md": generate_cli.page(MADE),
        "compatibility.md": generate_card.page(Card.read()),
        "reference/apis.md": apis(),
        "reference/configs.md": configs(),
        "reference/errors.md": errors(),
        "reference/log-fields.md": log_fields(),
        "reference/metrics.md": metrics(),
    }


def apis() -> str:
    lines = [
        "# APIs",
        "",
        MADE,
        "",
        "| key | API | versions | flexible from | what it does | needs | left out |",
        "|---|---|---|---|---|---|---|",
    ]
    for api in sorted(TABLE.values(), key=lambda api: api.key):
        low, high = api.versions
        purpose, left_out = described(api)
        needs = "; ".join(map(str, api.needs))
        versions = f"{low}-{high} | {FLEXIBLE_SINCE[api.key]}"
        lines.append(f"| {api.key} | {api.title} | {versions} | {purpose} | {needs} | {left_out} |")
    lines += [
        "",
        "Produce is advertised from version 0, because older clients look for it; 0 to 2 are refused.",
        "",
        "*Needs* is what a principal must be allowed where the broker has an authorizer (design note 018).",
        "What is needed on topics, groups and transactional ids is needed on each that the request names.",
        "A connection that has proved to be another broker's (design note 009) may do everything.",
        "",
    ]
    return "\n".join(lines)


def described(api: Api) -> tuple[str, str]:
    """From the handler's opening: the sentence after the title, and what follows `Left out:`."""
    source = (ROOT / "src" / "ottla" / "api" / f"{api.name}.py").read_text()
    opening = ast.get_docstring(ast.parse(source)) or ""
    first, _, rest = opening.partition("\n\n")
    purpose = " ".join(first.split()).partition("): ")[2]
    _, _, left_out = rest.partition("Left out:")
    return purpose.removesuffix("."), " ".join(left_out.split()).removesuffix(".")


def configs() -> str:
    lines = ["# Configuration", "", MADE, ""]
    lines += ["A key marked *live* can be changed while the broker runs (`ottla configs`).", ""]
    for config_class, title in TITLES.items():
        own = "group" if rows_by_group_key(config_class) else "topic"
        lines += [
            f"## {title}",
            "",
            f"| key | {own} key | type | default | live | what it does |",
            "|---|---|---|---|---|---|",
        ]
        lines += [config_line(row) for row in sorted(rows(config_class), key=lambda row: row.name)]
        lines.append("")
    return "\n".join(lines)


def alerts() -> str:
    lines = [
        "# Alerts",
        "",
        MADE,
        "",
        "The rules are in `ops/prometheus/alerts.yml`: a `page` wakes somebody up, a `ticket` can wait.",
        "",
    ]
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            lasting = f", for {rule['for']}" if "for" in rule else ""
            lines += [
                f"## {rule['alert']} ({rule['labels']['severity']})",
                "",
                _plain(rule["annotations"]["summary"]),
                "",
                f"*When* `{rule['expr']}`{lasting}.",
                "",
                f"*What to do.* {_plain(rule['annotations']['runbook'])}",
                "",
            ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """With a word in the place of what Prometheus fills in."""
    return re.sub(r"\{\{ \$(?:labels\.)?(\w+).*?\}\}", lambda variable: variable[1].upper(), text)


def metrics() -> str:
    lines = ["# Metrics", "", MADE, ""]
    lines += ["| metric | type | labels | what it says |", "|---|---|---|---|"]
    for metric in sorted(all_metrics(), key=lambda metric: metric.name):
        labels = ", ".join(metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind.value} | {labels} | {metric.help} |")
    return "\n".join([*lines, ""])


def config_line(row: Row) -> str:
    names = "<br>".join(f"`{name}`" for name in (row.name, *(synonym for synonym, _ in row.synonyms)))
    own = f"`{row.topic or row.group}`" if row.topic or row.group else ""
    live = "live" if row.dynamic else ""
    return f"| {names} | {own} | {row.type.name.lower()} | {row.text(row.default)} | {live} | {row.doc} |"


def errors() -> str:
    lines = ["# Error codes", "", MADE, "", "| code | name |", "|---|---|"]
    return "\n".join([*lines, *(f"| {code.value} | {code.name} |" for code in ErrorCode), ""])


def log_fields() -> str:
    lines = ["# Fields of log lines", "", MADE, ""]
    lines += [
        "With `--log-format json` every line has `time`, `level`, `logger`, `message` and `broker`, with an",
        "exception `exception`, and of these what it is about:", "", "| field | what it says |", "|---|---|",
    ]  # fmt: skip
    return "\n".join([*lines, *(f"| `{name}` | {meaning} |" for name, meaning in sorted(FIELDS.items())), ""])


def main() -> None:
    for name, text in pages().items():
        (TARGET / name).write_text(text)
    generate_dashboard.TARGET.write_text(generate_dashboard.dashboard())
    generate_cli.SUMMARIES.write_text(generate_cli.summaries())
    generate_card.write()


if __name__ == "__main__":
    main()
