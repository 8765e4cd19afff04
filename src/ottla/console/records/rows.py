"""Records as the page and the API show them: what a list needs, and one record in full.

A list has previews: a value of a megabyte is for the page of that record.
"""

import json
from typing import Any

from ottla.base.times import show_ms
from ottla.client.formats import Decoders, Message, Shown
from ottla.client.formats.content import HEX, JSON, SCHEMA_FORMATS, escaped, show

PREVIEW_BYTES = 1_000
PREVIEW_SEEN, PREVIEW_BEFORE = 40, 20  # characters that a list has room for; that are before a match
FULL_BYTES = 1 << 20


def row(message: Message, decoders: Decoders, around: str = "") -> dict[str, Any]:
    """For a list. `value` and `key` are previews of text, with the format that they are in; that of the value
    begins shortly before `around`, if that is in it."""
    return {
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp_ms,
        "time": show_ms(message.timestamp_ms),
        "key": preview(decoders.key(message.topic, message.key, message.headers)),
        "value": preview(decoders.value(message.topic, message.value, message.headers), around),
        "headers": [[escaped(name), preview(show(value))["text"]] for name, value in message.headers],
        "size": size_of(message),
    }


def preview(shown: Shown, around: str = "") -> dict[str, Any]:
    """In one line, and no longer than somebody reads in a list."""
    text = shown.text
    if around and (at := text.lower().find(around.lower())) > PREVIEW_SEEN:
        text = "… " + text[at - PREVIEW_BEFORE :]
    text = " ".join(text[: PREVIEW_BYTES + 1].split()) if shown.format != HEX else text
    return {
        "format": shown.format,
        "text": text[:PREVIEW_BYTES] + ("…" if len(text) > PREVIEW_BYTES else ""),
        "problem": shown.problem,
    }


def full(shown: Shown) -> dict[str, Any]:
    """For a record alone: JSON in lines, and everything but what no page can show."""
    text = shown.text
    if shown.format == JSON or shown.format in SCHEMA_FORMATS:
        text = pretty(shown)
    elif shown.format == HEX:
        text = hex_lines(shown.text[: 2 * FULL_BYTES])
    return {
        "format": shown.format,
        "text": text[:FULL_BYTES],
        "is_cut": len(text) > FULL_BYTES,
        "schema": shown.schema,
        "problem": shown.problem,
    }


def pretty(shown: Shown) -> str:
    try:
        data = shown.data if shown.data is not None else json.loads(shown.text)
        return escaped(json.dumps(data, indent=2, ensure_ascii=False))
    except (ValueError, RecursionError):
        return shown.text


def hex_lines(text: str) -> str:
    """As `xxd` shows it: the offset, sixteen bytes, and what of them is text."""
    content = bytes.fromhex(text)
    lines = []
    for at in range(0, min(len(content), FULL_BYTES // 4), 16):
        line = content[at : at + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in line)
        pairs = " ".join(line[pair : pair + 2].hex() for pair in range(0, len(line), 2))
        lines.append(f"{at:08x}  {pairs:<39}  {letters}")
    return "\n".join(lines)


def size_of(message: Message) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in message.headers)
    return len(message.key or b"") + len(message.value or b"") + headers
