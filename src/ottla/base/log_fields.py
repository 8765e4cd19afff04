"""What a log line carries beside its sentence, for whoever searches logs: names with values.

    log.info("%s is deleted", topic, extra=fields(topic=topic))

The sentence says everything to a person; a field repeats what a machine filters by. Lines of JSON show the
fields (`--log-format json`), lines of text only the sentence.

Rule: a field is declared here before a line has it, so that one thing has one name in all lines. The id of
the broker that speaks is in every line of JSON and need not be given.
"""

from typing import Any, Final

FIELDS: Final = {
    "allowed": "Whether the audit log speaks of something that was allowed.",
    "api": "The API of a request, by Kafka's name.",
    "at": "Which kind of line of the audit log it is.",
    "bytes": "How large something is.",
    "checks": "What the audit log says was checked: operation, type, name, whether it is allowed.",
    "client": "The client id that a request came with.",
    "correlation": "The correlation id that a request came with.",
    "directory": "A log directory.",
    "epoch": "A leader epoch, or the epoch of the controller.",
    "error": "An error code, by Kafka's name.",
    "generation": "The generation of a group, or its epoch (KIP-848).",
    "group": "A consumer group.",
    "host": "The address that a connection came from.",
    "isr": "The ids of the replicas that are in sync.",
    "leader": "The id of the broker that leads a partition; -1 if none does.",
    "left_out": "How many refusals are in no line of the audit log since the last one.",
    "listener": "A listener, by its name.",
    "member": "The id of a member of a group.",
    "members": "How many members a group has.",
    "more_checks": "How many checks are not in this line of the audit log.",
    "offset": "An offset.",
    "on": "What an administrative request in the audit log is about.",
    "partition": "The number of a partition.",
    "partitions": "How many partitions a line is about.",
    "peer": "The id of another broker.",
    "principal": "Who asked, as in User:alice.",
    "reason": "Why, in a few words.",
    "records": "How many records a line is about.",
    "segments": "How many segments of logs a line is about.",
    "setting": "The name of a setting, or of a logger whose level was set.",
    "settings": "The names of settings.",
    "steps_ms": "How long each step of a start or a stop took, in milliseconds.",
    "suppressed": "How many more such lines there were, and were left out.",
    "took_ms": "How long it took, in milliseconds.",
    "topic": "The name of a topic.",
    "topics": "How many topics a line is about.",
    "transactional_id": "The transactional id of a producer.",
    "version": "The version of an API.",
}


# For lines whose number has a limit of its own (one per repaired log, one a second), and of which none may be
# left out.
UNLIMITED: Final = {"is_unlimited": True}


def fields(**named: Any) -> dict[str, Any]:
    """The `extra` of a log call. Values are what JSON can hold; those that are None are left out."""
    return {"fields": named}
