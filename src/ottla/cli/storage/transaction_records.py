"""The records of `__transaction_state`, as `ottla dump` shows them."""

from typing import Any

from ottla.cli.storage.group_records import decode_record
from ottla.records.record import Record
from ottla.txn.records import parse
from ottla.txn.states import BY_NUMBER


def decode_transaction_record(record: Record) -> tuple[dict[str, Any], str]:
    """The fields of a record, with the name of the transaction's state; and what is wrong with it."""
    fields, problem = decode_record(record, parse)
    if value := fields.get("value"):
        value["transaction_status"] = BY_NUMBER[value["transaction_status"]].value
    return fields, problem
