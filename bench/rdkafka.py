"""librdkafka without a Python call per record.

`Producer.produce` of confluent-kafka makes about 0.7 M calls a second and its `produce_batch` 1.2 M,
less than a good broker takes; one `rd_kafka_produce_batch` through ctypes hands over thousands of
records with the GIL released, and reaches 2.6 M with the very library that confluent-kafka ships.
Payloads are not copied (one buffer, alive as long as the producer), and only failed deliveries are
reported, so a success costs no Python either.
"""

import ctypes
import ctypes.util
import importlib.util
import json
import os
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any

_PRODUCER = 0
_ERROR_BYTES = 512
_EVENT_DELIVERY = 1  # RD_KAFKA_EVENT_DR


class _Message(ctypes.Structure):
    """rd_kafka_message_t."""

    _fields_ = (
        ("err", c_int),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_void_p),
        ("len", c_size_t),
        ("key", c_void_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
    )


_DeliveryFailed = CFUNCTYPE(None, c_void_p, POINTER(_Message), c_void_p)
_Statistics = CFUNCTYPE(c_int, c_void_p, c_void_p, c_size_t, c_void_p)

_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (c_void_p, _DeliveryFailed)),
    "rd_kafka_conf_set_events": (None, (c_void_p, c_int)),
    "rd_kafka_conf_set_stats_cb": (None, (c_void_p, _Statistics)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_init_transactions": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_begin_transaction": (c_void_p, (c_void_p,)),
    "rd_kafka_commit_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
}


def load_library() -> ctypes.CDLL:
    """The librdkafka inside the confluent-kafka wheel, or the system's."""
    spec = importlib.util.find_spec("confluent_kafka")
    places = [] if spec is None or spec.origin is None else [os.path.dirname(os.path.dirname(spec.origin))]
    found = [
        os.path.join(folder, name)
        for place in places
        for folder in (os.path.join(place, "confluent_kafka.libs"),)
        if os.path.isdir(folder)
        for name in sorted(os.listdir(folder))
        if name.startswith("librdkafka")
    ]
    path = found[0] if found else ctypes.util.find_library("rdkafka")
    if path is None:
        raise RuntimeError("no librdkafka: neither beside confluent_kafka nor in the system")
    library = ctypes.CDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class BulkProducer:
    """Sends one payload over and over to partition 0 of one topic."""

    def __init__(
        self,
        config: dict[str, str],
        topic: str,
        payload: bytes,
        chunk_records: int,
        *,
        wakes_at_once: bool = False,
    ) -> None:
        """`wakes_at_once`: a flush returns with the last acknowledgement. Otherwise it looks every 10 ms, but
        `failed` counts what was not delivered."""
        self._lib = load_library()
        self._topic = topic.encode()
        self.failed = 0
        self.batches = 0
        self.batch_bytes = 0
        self._callbacks = (_DeliveryFailed(self._on_failed), _Statistics(self._on_statistics))
        self._wakes_at_once = wakes_at_once
        self._handle = self._open({**config, "delivery.report.only.error": "true"})
        self._topic_handle = self._lib.rd_kafka_topic_new(self._handle, self._topic, None)
        self._payload = ctypes.create_string_buffer(payload, len(payload))
        self._chunk = (_Message * chunk_records)()
        for message in self._chunk:
            message.payload, message.len = ctypes.addressof(self._payload), len(payload)

    def _open(self, config: dict[str, str]) -> int:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        conf = self._lib.rd_kafka_conf_new()
        for key, value in config.items():
            if self._lib.rd_kafka_conf_set(conf, key.encode(), value.encode(), error, _ERROR_BYTES):
                raise ValueError(error.value.decode())
        if self._wakes_at_once:
            self._lib.rd_kafka_conf_set_events(conf, _EVENT_DELIVERY)
        else:
            self._lib.rd_kafka_conf_set_dr_msg_cb(conf, self._callbacks[0])
        self._lib.rd_kafka_conf_set_stats_cb(conf, self._callbacks[1])
        handle: int | None = self._lib.rd_kafka_new(_PRODUCER, conf, error, _ERROR_BYTES)
        if not handle:
            raise RuntimeError(error.value.decode())
        return handle

    def _on_failed(self, _handle: int, _message: Any, _opaque: int) -> None:
        self.failed += 1

    def _on_statistics(self, _handle: int, text: int, length: int, _opaque: int) -> int:
        topic = json.loads(ctypes.string_at(text, length))["topics"].get(self._topic.decode())
        if topic:
            window = topic["batchsize"]
            self.batches += window["cnt"]
            self.batch_bytes += window["sum"]
        return 0

    def send(self, records: int) -> int:
        """Queue up to one chunk; returns how many were taken."""
        count = min(records, len(self._chunk))
        taken: int = self._lib.rd_kafka_produce_batch(self._topic_handle, 0, 0, self._chunk, count)
        return taken

    def send_all(self, records: int) -> None:
        """Queue them, however many chunks that takes."""
        while records:
            records -= self.send(records)

    def poll(self, timeout_ms: int) -> None:
        self._lib.rd_kafka_poll(self._handle, timeout_ms)

    def queued(self) -> int:
        length: int = self._lib.rd_kafka_outq_len(self._handle)
        return length

    def flush(self, timeout_ms: int) -> None:
        """Return once every record is acknowledged; raise if one was not."""
        if self._lib.rd_kafka_flush(self._handle, timeout_ms) or self.failed:
            raise RuntimeError(f"{self.failed} deliveries failed, {self.queued()} still waiting")

    def init_transactions(self, timeout_ms: int) -> None:
        self._check(self._lib.rd_kafka_init_transactions(self._handle, timeout_ms))

    def begin_transaction(self) -> None:
        self._check(self._lib.rd_kafka_begin_transaction(self._handle))

    def commit_transaction(self, timeout_ms: int) -> None:
        """Return once every record is acknowledged and the transaction committed; raise if not."""
        self._check(self._lib.rd_kafka_commit_transaction(self._handle, timeout_ms))

    def _check(self, error: int | None) -> None:
        if error:
            raise RuntimeError(self._lib.rd_kafka_error_string(error).decode())

    def high_watermark(self, timeout_ms: int) -> int:
        low, high = c_int64(), c_int64()
        code = self._lib.rd_kafka_query_watermark_offsets(
            self._handle, self._topic, 0, ctypes.byref(low), ctypes.byref(high), timeout_ms
        )
        if code:
            raise RuntimeError(f"the broker did not tell the high watermark (librdkafka error {code})")
        return high.value
