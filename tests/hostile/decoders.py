"""The decoders of what clients and disks bring: a function of bytes each.

It may raise what its decoder declares, which is passed over here, and nothing else.
"""

import random
from collections.abc import Callable
from contextlib import suppress

from tests.hostile.generate import PAIRS, Generator, Pool
from tests.hostile.mutate import batches

from ottla.api.table import TABLE
from ottla.base.errors import ApiError
from ottla.coordinator.records import CorruptRecordError
from ottla.coordinator.turn import StoredRecord
from ottla.group import protocol
from ottla.group.consumer import regex
from ottla.group.records import parse
from ottla.log import checkpoint_format, config_copy, partition_metadata, snapshots
from ottla.log.index import IndexFileError, OffsetIndex, TimeIndex
from ottla.records.batch import split
from ottla.records.check import check_records
from ottla.records.compression import Codec, decompress
from ottla.records.record import open_body, read_records
from ottla.security import jaas
from ottla.security.credentials import MECHANISMS
from ottla.security.sasl.exchange import NONCE_BYTES, AuthenticationError, Mechanism
from ottla.security.sasl.oauthbearer import OAuthBearer, Token, TokenError
from ottla.security.sasl.plain import Plain
from ottla.security.sasl.scram import Scram
from ottla.wire.codec import Decoder, decoder
from ottla.wire.frame import Splitter
from ottla.wire.header import decode_request_header
from ottla.wire.primitives import ProtocolError

UNPACKED_BYTES_MAX = 1 << 20
_compiled: dict[tuple[int, int], Decoder[object]] = {
    (key, version): decoder(TABLE[key].load()[0], version) for key, version in PAIRS
}


def _no_token(_text: str, _wall_ms: int) -> Token:
    raise TokenError("it is none")


_SASL: list[Mechanism] = [
    Plain({"alice": "secret"}),
    OAuthBearer(_no_token),
    *(Scram(mechanism, {}.get, lambda: b"the cluster's secret") for mechanism in MECHANISMS.values()),
]


def instrument(wrap: Callable[[Decoder[object]], Decoder[object]]) -> None:
    """Code that was compiled at run time escapes whoever instruments imports."""
    for pair, decode in list(_compiled.items()):
        _compiled[pair] = wrap(decode)


def requests(data: bytes) -> None:
    with suppress(ProtocolError):
        header, at = decode_request_header(memoryview(data))
        decode = _compiled.get((header.api_key, header.api_version))
        if decode is not None:
            decode(memoryview(data), at)


def record_batches(data: bytes) -> None:
    with suppress(ApiError):
        for header, view in split(data):
            check_records(open_body(view, header, limit=UNPACKED_BYTES_MAX), header.count)
            read_records(view, header, limit=UNPACKED_BYTES_MAX)


def compression(data: bytes) -> None:
    with suppress(ApiError):
        decompress(Codec(data[0] % 5), data[1:], UNPACKED_BYTES_MAX)


def groups(data: bytes) -> None:
    size = data[0]
    with suppress(CorruptRecordError):
        parse(StoredRecord(data[1 : 1 + size], data[1 + size :] or None))
    with suppress(ApiError):
        protocol.read_subscription(data)


def disk(data: bytes) -> None:
    with suppress(IndexFileError):
        OffsetIndex.from_bytes(data, 1 << 20)
    with suppress(IndexFileError):
        TimeIndex.from_bytes(data)
    with suppress(snapshots.SnapshotError):
        snapshots.decode(data, 100)
    with suppress(ValueError):
        checkpoint_format.parse_offsets(data.decode())
    partition_metadata.parse_partition_metadata(data)
    config_copy.parse_copy(data)


def frames(data: bytes) -> None:
    splitter, left = Splitter(1 << 12, bytearray(64)), data
    with suppress(ProtocolError):
        while left:
            room = splitter.buffer()
            count = min(len(room), len(left))
            room[:count] = left[:count]
            splitter.received(count)
            left = left[count:]
            while splitter.next() is not None:
                pass
            splitter.keep()


def patterns(data: bytes) -> None:
    with suppress(ApiError):
        names = ["orders-1", "a" * 249, "x.y_z-0"]
        regex.resolve(data.decode(errors="replace"), names, regex.Budget())


def sasl_tokens(data: bytes) -> None:
    """The first byte says for which mechanism; what follows is cut into messages."""
    exchange = _SASL[data[0] % len(_SASL)].begin(bytes(NONCE_BYTES))
    with suppress(AuthenticationError):
        for token in data[1:].split(b"\xff"):
            exchange.step(token, 0)


def jaas_lines(data: bytes) -> None:
    with suppress(jaas.JaasError):
        jaas.parse(data.decode(errors="replace"))


DECODERS = {
    decode.__name__: decode
    for decode in (
        requests,
        record_batches,
        compression,
        groups,
        disk,
        frames,
        patterns,
        sasl_tokens,
        jaas_lines,
    )
}


def any_decoder(data: bytes) -> None:
    """The first byte says which."""
    if len(data) > 1:
        _ALL[data[0] % len(_ALL)](data[1:])


_ALL = tuple(DECODERS.values())


def all_examples(chance: random.Random) -> list[bytes]:
    """Inputs to begin with."""
    return [
        bytes((number,)) + data for number, name in enumerate(DECODERS) for data in examples(name, chance)
    ]


def examples(name: str, chance: random.Random) -> list[bytes]:
    sound = [case.frame for case in batches(chance) if case.what.endswith("sound")]
    match name:
        case "requests":
            return [Generator(chance, Pool(records=sound)).sample(*pair).frame() for pair in PAIRS]
        case "record_batches":
            return sound
        case "compression":
            return [bytes((number,)) + data[61:] for number, data in enumerate(sound)]
        case "groups":
            return [b"\x08\x00\x02\x00\x05group" + bytes(40), *Pool().blobs[1:]]
        case "disk":
            return [b"0\n1\nt 0 5\n", b"version: 0\ntopic_id: " + b"A" * 22 + b"\n", bytes(24)]
        case "frames":
            return [b"\x00\x00\x00\x03abc\x00\x00\x00\x00", b"\x00\x00\x10\x00" + bytes(100)]
        case "sasl_tokens":
            bearer = b"\x01n,,\x01auth=Bearer a.b.c\x01\x01\xff\x01"
            return [b"\x00\x00alice\x00secret", bearer, b"\x02n,,n=alice,r=abc\xffc=biws,r=abcdef,p=AAAA"]
        case "jaas_lines":
            return [b'org.apache.kafka.common.security.plain.PlainLoginModule required user_a="b\\"c";']
    return [b"(orders|x)-[0-9]{1,3}.*", b"(?i)a+?[[:alpha:]]"]
