"""`ottla cluster elect`: let partitions be led by the broker that should, or by one that still can."""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.cluster.local_cluster import in_directory
from ottla.cli.options import DIRECTORY, NOWHERE, Directory, WhereOrDirectory, connects
from ottla.cli.partitions import is_chosen, parse_partitions
from ottla.client.librdkafka import cluster, connections
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained, explain


@connects()
def elect(
    partitions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC[:0,2]]...", help="Topics or some of their partitions; all if none."),
    ] = None,
    unclean: Annotated[
        bool,
        typer.Option("--unclean", help="Let any replica lead where none that has all records is there."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    directory: Directory = DIRECTORY,
    where: WhereOrDirectory = NOWHERE,
) -> None:
    """Elect leaders now: the first replica of each partition, where it is in sync and another leads.

    With --unclean, partitions that have no leader get one that lacks records, and those records
    are lost for good. It is the last resort when the brokers that have them will not come back.

    \b
    Examples:
      ottla cluster elect
      ottla cluster elect orders payments:0,3
      ottla cluster elect --unclean orders:3
    """
    from confluent_kafka import ElectionType, KafkaError, TopicPartition

    if unclean and not partitions:
        raise CommandError("--unclean takes the partitions for which records may be given up", USAGE)
    client = connections.admin(in_directory(where, directory))
    chosen = parse_partitions(partitions or [], "elect")
    for name, numbers in chosen.items():
        cluster.partitions(client, name, numbers or ())
    if unclean:
        output.confirm("Give up the records that only missing replicas have?", yes=yes)
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    topic_partitions = [
        TopicPartition(topic, number)
        for topic, metadata in sorted(cluster.metadata(client).topics.items())
        for number in sorted(metadata.partitions)
        if not chosen or is_chosen(chosen, topic, number)
    ]
    if not topic_partitions:
        raise CommandError("there are no topics to elect leaders for")
    with errors_explained("no election"):
        answers = client.elect_leaders(kind, topic_partitions).result(REQUEST_S)
    errors = [(topic_partition, error) for topic_partition, error in answers.items() if error is not None]
    problems = [problem for problem in errors if problem[1].code() != KafkaError.ELECTION_NOT_NEEDED]
    for topic_partition, error in problems:
        output.say(f"{topic_partition.topic}-{topic_partition.partition}: {explain(error)}")
    elected = output.plural(len(answers) - len(errors), "partition")
    if problems:
        raise CommandError(f"{len(problems)} without an election; elected leaders for {elected}")
    output.say(f"elected leaders for {elected}; {len(errors)} had theirs")
