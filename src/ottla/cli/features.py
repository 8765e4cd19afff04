"""`ottla features`: the levels that a cluster agreed on, to be raised after an upgrade of its brokers."""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.properties import parse_settings
from ottla.client.admin import features as feature_requests
from ottla.client.admin.features import Feature
from ottla.client.admin.requests import Cluster
from ottla.controller.feature_levels import Levels, UpgradeType

app = typer.Typer(
    name="features",
    help="Feature levels of a cluster, to be raised after an upgrade: list, upgrade, downgrade.",
    no_args_is_help=True,
)

DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask the brokers, and change nothing.")]


@app.command("list")
@connects()
def list_(json: Json = False, where: WhereOption = HERE) -> None:
    """List the features, with the level the cluster is at and the levels that its brokers know.

    \b
    Examples:
      ottla features list
      ottla features list --json | jq '.[] | select(.level < .highest)'
    """
    features = feature_requests.listed(Cluster.reached(where))
    if json:
        output.show_json(
            [
                {
                    "feature": feature.name,
                    "level": feature.level,
                    "highest": feature.highest,
                    "brokers": {str(node): levels._asdict() for node, levels in feature.brokers.items()},
                }
                for feature in features
            ]
        )
    elif features:
        output.show_table(
            ("feature", "level", "known to brokers"),
            [(feature.name, str(feature.level), _known(feature)) for feature in features],
        )
    else:
        output.say("the brokers know no features")


@app.command()
@connects()
def upgrade(
    pairs: Annotated[
        list[str] | None,
        typer.Argument(metavar="FEATURE=LEVEL...", help="Which; if none is named, all that can be raised."),
    ] = None,
    dry_run: DryRun = False,
    where: WhereOption = HERE,
) -> None:
    """Raise levels, when every broker runs the release that knows them.

    Brokers of an earlier release cannot come back before the level is lowered again.

    \b
    Examples:
      ottla features upgrade --dry-run
      ottla features upgrade transaction.version=2
    """
    cluster = Cluster.reached(where)
    features = {feature.name: feature for feature in feature_requests.listed(cluster)}
    levels = _levels(pairs) or {
        name: feature.highest for name, feature in features.items() if feature.highest > feature.level
    }
    if not levels:
        output.say("every feature is at the highest level that all brokers know")
        return
    _change(cluster, features, levels, UpgradeType.UPGRADE, dry_run=dry_run)


@app.command()
@connects()
def downgrade(
    pairs: Annotated[
        list[str], typer.Argument(metavar="FEATURE=LEVEL...", help="Which.", show_default=False)
    ],
    dry_run: DryRun = False,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Also where something that was written is lost by it.")
    ] = False,
    where: WhereOption = HERE,
) -> None:
    """Lower levels, before brokers go back to an earlier release.

    \b
    Examples:
      ottla features downgrade transaction.version=1
    """
    cluster = Cluster.reached(where)
    features = {feature.name: feature for feature in feature_requests.listed(cluster)}
    upgrade_type = UpgradeType.UNSAFE_DOWNGRADE if unsafe else UpgradeType.SAFE_DOWNGRADE
    _change(cluster, features, _levels(pairs), upgrade_type, dry_run=dry_run)


def _change(
    cluster: Cluster,
    features: dict[str, Feature],
    levels: dict[str, int],
    upgrade_type: UpgradeType,
    *,
    dry_run: bool,
) -> None:
    unknown = sorted(levels.keys() - features.keys())
    if unknown:
        raise CommandError(
            f"there is no feature {', '.join(unknown)}; brokers know {', '.join(features) or 'none'}"
        )
    feature_requests.change(cluster, levels, upgrade_type, only_check=dry_run)
    for name, level in levels.items():
        before = features[name].level
        if before == level:
            output.say(f"{name}: is at {level} already")
        else:
            output.say(f"{name}: {before} {'would become' if dry_run else 'became'} {level}")


def _levels(pairs: list[str] | None) -> dict[str, int]:
    levels = {}
    for name, text in parse_settings(pairs or [], "features").items():
        if not text.isascii() or not text.isdigit() or int(text) > 0x7FFF:
            raise CommandError(f"{name}: {text!r} is not a level, which is a number from 0", USAGE)
        levels[name] = int(text)
    return levels


def _known(feature: Feature) -> str:
    """One range, or one for each broker where they differ."""
    ranges = feature.brokers
    if len(set(ranges.values())) == 1:
        return _range(next(iter(ranges.values())))
    return ", ".join(f"{_range(levels)} (broker {node})" for node, levels in ranges.items())


def _range(levels: Levels) -> str:
    return f"{levels.lowest} to {levels.highest}" if levels.highest else "none"
