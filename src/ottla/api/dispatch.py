"""From a frame to an answer: header, row of the table, decoder, handler, encoder.

Rules: malformed bytes, unknown keys and unknown versions are a `ProtocolError`, and the connection is
closed without an answer; only ApiVersions is answered whatever its version. A disk that fails under a
request takes its log directory offline, and costs the connection of whoever cannot be told otherwise. A
handler that fails in a way nobody planned is a bug: it is logged with the request that caused it, and costs
that connection, not the broker.

No request keeps others waiting (design note 011). Produce and small fetches are answered as they come.
Everything else is done at once only while this round of the loop has time left. It is a job of
`broker/long_work`: decoding, if the request is large; the handler, if it is a generator; encoding, which is
where lazy lists are made (`wire/lazy`). What an answer has so far counts as unsent; one that gets too large
is given up.
"""

import logging
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.api.call import Call, CloseConnection, LastAnswer, Silence
from ottla.api.table import TABLE, Api
from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.broker.broker import Broker
from ottla.broker.effects import Close, Reply
from ottla.broker.long_work import LARGE, SMALL_BYTES, Steps
from ottla.broker.parked import Parked
from ottla.wire.codec import decode_in_slices, decoder, encode_in_slices, encoder
from ottla.wire.frame import LENGTH
from ottla.wire.header import (
    API_VERSIONS,
    RequestHeader,
    decode_request_header,
    response_header,
    response_is_flexible,
)
from ottla.wire.primitives import OverLimitError, ProtocolError

if TYPE_CHECKING:
    from ottla.broker.usage import Usage

log = logging.getLogger(__name__)

PRODUCE, FETCH = 0, 1
CACHED_ANSWERS_MAX = 256
CACHED_ANSWERS_BYTES_MAX = 32 * 1024 * 1024
CACHED_REQUEST_BYTES_MAX = 4_096
REQUEST_BYTES_MAX = 16 * 1024 * 1024
LARGE_REQUEST_BYTES = 64 * 1024  # some 2,000 partitions: decoded in two milliseconds
LARGE_ANSWER_BYTES = 256 * 1024
SMALL_FETCH_BYTES = 2 * 1024  # some 60 partitions: answered in half a millisecond, without their records
FETCH_PARTITION_BYTES = 32  # of a request, for each partition it names
SHARED_BYTES = 16 * 1024  # a cached answer is sent to many: what is larger is not copied for each
ANSWER_BYTES_MAX = 100 * 1024 * 1024  # librdkafka receives no more, either
Answers: TypeAlias = dict[tuple[Hashable, ...], bytes]
_loaded: dict[int, tuple[type[Any], Callable[..., Any]]] = {}


def on_request(
    broker: Broker, connection: int, frame: memoryview, now_ms: int, client_host: str = ""
) -> list[Buffer] | Silence:
    """The answer to one frame, ready to be sent. ProtocolError or CloseConnection: close the connection."""
    header, at = decode_request_header(frame)
    api = TABLE.get(header.api_key)
    if api is None:
        raise ProtocolError(f"API {header.api_key} is not served")
    if len(frame) > REQUEST_BYTES_MAX and api.key != PRODUCE:
        # Small items cost many times their bytes as objects; only record batches stay bytes.
        raise OverLimitError(f"{api.title} with {len(frame)} bytes, more than {REQUEST_BYTES_MAX}")
    low, high = api.versions
    if not low <= header.api_version <= high:
        return _refuse_version(api, header)
    exchange = Exchange(broker, connection, api, header, client_host, len(frame))
    if broker.quotas.is_active and not broker.identities.is_broker(connection):
        user = broker.access.session(connection).principal.name
        exchange.usage = broker.quotas.usage(user, header.client_id or "", now_ms)
    if api.key == PRODUCE:
        return exchange.answer_at_once(exchange.decoded(frame, at), now_ms)
    if api.key == FETCH and len(frame) <= SMALL_FETCH_BYTES:
        fetch = exchange.decoded(frame, at)
        if fetch.session_id:  # it is as large as if it named all that it is about
            exchange.size += FETCH_PARTITION_BYTES * broker.sessions.partitions(fetch.session_id)
        if exchange.size <= SMALL_FETCH_BYTES:
            return exchange.answer_at_once(fetch, now_ms)
    is_cached = api.cached and exchange.usage is None  # whose answers may have to say that it is throttled
    exchange.is_broker = broker.identities.is_broker(connection)
    if is_cached and not broker.proofs.is_awaited and len(frame) - at <= CACHED_REQUEST_BYTES_MAX:
        answers = broker.answers
        scope = broker.access.scope(connection, client_host, is_broker=exchange.is_broker)
        key = (scope, header.api_key, header.api_version, bytes(frame[at:]))
        answer = answers.get(key)
        if answer is not None:
            return _framed(header, [answer])
        exchange.keep = partial(_keep, broker, answers, key, broker.proofs.doubts)
    if len(frame) > LARGE_REQUEST_BYTES or not broker.slices.may_begin(
        exchange.size, is_broker=exchange.is_broker
    ):
        exchange.queue(memoryview(bytes(frame)), at)  # a copy: the frame is void when we return
        return Silence.QUEUED
    return exchange.answer_in_share(frame, at, now_ms)


@dataclass(slots=True)
class Exchange:
    """One request of `size` bytes, and the connection its answer goes to. `keep` is told the answer, if it is
    made without waiting for anything. `last`: the connection ends with this answer, if it still says so once
    it is made; then `ends_because` says why. `usage`: its client has a quota, and may have to be silent
    afterwards."""

    broker: Broker
    connection: int
    api: Api
    header: RequestHeader
    client_host: str
    size: int
    is_broker: bool = False
    keep: Callable[[list[Buffer]], None] | None = None
    last: LastAnswer | None = None
    ends_because: str = ""
    usage: "Usage | None" = None

    def decoded(self, frame: memoryview, at: int) -> Any:
        return decoder(_load(self.api)[0], self.header.api_version)(frame, at, self.api.items_max)

    def answer_at_once(self, request: Any, now_ms: int) -> list[Buffer] | Silence:
        try:
            answer = _load(self.api)[1](self._call(now_ms), request)
        except CloseConnection:
            raise
        except Exception as error:
            raise self._failure(error) from error
        if answer is None:
            return Silence.NO_REPLY if self.usage is None else self._end_unanswered(self.usage)
        if isinstance(answer, GeneratorType):
            return self._run(self._answered(answer))
        if isinstance(answer, Parked):
            self.park(answer)
            return Silence.PARKED
        chunks = self._encoded_at_once(answer)
        return chunks if self.usage is None else self._sent(chunks, self.usage)

    def answer_in_share(self, frame: memoryview, at: int, now_ms: int) -> list[Buffer] | Silence:
        """At once, as far as that goes; and what it takes counts."""
        slices = self.broker.slices
        start_us, spent_us = slices.elapsed_us(), slices.spent_us
        try:
            request = self.decoded(frame, at)
            answer = self.answer_at_once if self.api.key == FETCH else self.answer_in_slices
            return answer(request, now_ms)
        finally:
            if not self.is_broker:
                slices.spent_us = spent_us + slices.elapsed_us() - start_us

    def answer_in_slices(self, request: Any, now_ms: int) -> list[Buffer] | Silence:
        return self._run(self._handled(_load(self.api)[1], request, now_ms))

    def _run(self, steps: Steps) -> list[Buffer] | Silence:
        is_done, result = self.broker.slices.run(
            self.connection, steps, self._late, size=self.size, is_broker=self.is_broker
        )
        if not is_done:
            if self.usage is not None:
                self.usage.stop()
            return Silence.PARKED
        if self.usage is not None and result is not Silence.PARKED:
            result = self._sent(result, self.usage)
        self._end()
        return result  # type: ignore[no-any-return]

    def queue(self, frame: memoryview, at: int) -> None:
        if self.usage is not None:
            self.usage.stop()
        self.broker.slices.put(
            self.connection,
            self._late(self._decoded(frame, at)),
            size=self.size,
            is_large=self.size > LARGE_REQUEST_BYTES,
            is_broker=self.is_broker,
        )

    def park(self, parked: Parked) -> None:
        """Let an answer wait. What it is answered with in the end may have to wait for something else."""
        self.keep = None
        if self.usage is not None:
            self.usage.time_wait(parked)
        parked.owner, parked.reply = self.connection, self._reply
        self.broker.waiting.park(parked)

    def _reply(self, answer: Any) -> None:
        if isinstance(answer, Parked):
            self.park(answer)
            return
        if answer is Silence.NO_REPLY:
            mute_ms = 0 if self.usage is None else self._charge_unanswered(self.usage)
            self.broker.outbox.put(Reply(self.connection, [], mute_ms=mute_ms))
            return
        if isinstance(answer, CloseConnection):
            self.broker.outbox.put(Close(self.connection, str(answer)))
            return
        if self.api.key not in {PRODUCE, FETCH} or isinstance(answer, GeneratorType):
            self.broker.slices.run(
                self.connection,
                self._late(self._answered(answer)),
                lambda rest: rest,
                size=self.size,
                is_broker=self.is_broker,
            )
            return
        try:
            if self.usage is not None:
                self.usage.start()
            self._send(self._encoded_at_once(answer))
        except CloseConnection as error:
            self.broker.outbox.put(Close(self.connection, str(error)))

    def _send(self, chunks: list[Buffer]) -> None:
        size = sum(map(len, chunks))
        self.broker.allowance.unsent_bytes += size
        mute_ms = 0 if self.usage is None else self.usage.finish()
        self.broker.outbox.put(Reply(self.connection, chunks, size, mute_ms))

    # -- quotas: what a request has used, and what follows from it --

    def _charge(self, answer: Any, usage: "Usage") -> None:
        throttle_ms = usage.charge(produced_bytes=self.size if self.api.key == PRODUCE else 0)
        if throttle_ms and hasattr(answer, "throttle_time_ms"):
            answer.throttle_time_ms = throttle_ms

    def _charge_unanswered(self, usage: "Usage") -> int:
        """A produce with acks=0: its bytes count, the time does not, as in Kafka."""
        return usage.charge(produced_bytes=self.size, is_timed=False)

    def _end_unanswered(self, usage: "Usage") -> Silence:
        mute_ms = self._charge_unanswered(usage)
        if not mute_ms:
            return Silence.NO_REPLY
        self.broker.outbox.put(Reply(self.connection, [], mute_ms=mute_ms))
        return Silence.PARKED

    def _sent(self, chunks: list[Buffer], usage: "Usage") -> list[Buffer] | Silence:
        """An answer that is made at once. What a throttled client sent behind its request waits, too."""
        if usage.throttle_ms:
            self._send(chunks)
            return Silence.PARKED
        usage.finish()
        return chunks

    def _encoded_at_once(self, answer: Any) -> list[Buffer]:
        if self.usage is not None:
            self._charge(answer, self.usage)
        try:
            return _framed(self.header, encoder(type(answer), self.header.api_version)(answer))
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            raise self._failure(error) from error

    # -- the steps of a job: in the end they return chunks, or why there are none --

    def _late(self, steps: Steps) -> Steps:
        """The same when nobody is there to take what it returns."""
        if self.usage is not None:
            steps = self.usage.time_steps(steps, self.broker.slices)
        try:
            result = yield from steps
        except (ProtocolError, CloseConnection) as error:
            over_limit = isinstance(error, OverLimitError)
            self.broker.outbox.put(Close(self.connection, str(error), over_limit=over_limit))
            return
        if result is not Silence.PARKED:
            self._send(result)
            self._end()

    def _end(self) -> None:
        if self.ends_because:
            self.broker.outbox.put(Close(self.connection, self.ends_because, after_answers=True))

    def _decoded(self, frame: memoryview, at: int) -> Steps:
        request_class, handler = _load(self.api)
        if len(frame) <= SMALL_BYTES:
            request = self.decoded(frame, at)
        else:
            request = yield from decode_in_slices(
                request_class, self.header.api_version, frame, at, self.api.items_max
            )
        del frame  # its bytes need not be kept with the request
        return (yield from self._handled(handler, request, self.broker.slices.now_ms))

    def _handled(self, handler: Callable[..., Any], request: Any, now_ms: int) -> Steps:
        call = self._call(now_ms)
        call.pinned = self.broker.access.session(self.connection)  # also if the client hangs up meanwhile
        if self.api.audited and not self.is_broker:
            from ottla.api.targets import targets_of  # for administrative requests alone

            call.checks = []
            targets = targets_of(request, self.api.audited)
        try:
            answer = None
            if call.is_checked:
                from ottla.api.refusals import refusal  # many brokers refuse nothing

                answer = refusal(call, self.api, request)
            if answer is None:
                answer = handler(call, request)
        except CloseConnection:
            raise
        except Exception as error:
            raise self._failure(error) from error
        answered = yield from self._answered(answer)
        if call.checks is not None:
            self.broker.audit.on_administration(call.asker, targets, call.checks)
        return answered

    def _answered(self, answer: Any) -> Steps:
        """What a handler returned: the answer, or steps to it; or it waits."""
        try:
            while isinstance(answer, (GeneratorType, LastAnswer)):
                if isinstance(answer, LastAnswer):
                    self.last, answer = answer, answer.response
                else:
                    answer = yield from answer
        except CloseConnection:
            raise
        except Exception as error:
            raise self._failure(error) from error
        if isinstance(answer, Parked):
            self.park(answer)
            return Silence.PARKED
        return (yield from self._encoded(answer))

    def _encoded(self, answer: Any) -> Steps:
        """What is there of an answer counts as unsent until it is on its way."""
        if self.usage is not None:
            self._charge(answer, self.usage)
        chunks: list[Buffer] = []
        size = 0
        try:
            for chunk in encode_in_slices(answer, self.header.api_version):
                if chunk is None:
                    yield None
                    continue
                chunks.append(chunk)
                size += len(chunk)
                self.broker.allowance.unsent_bytes += len(chunk)
                if size > ANSWER_BYTES_MAX:
                    raise OverLimitError(
                        f"the answer to {self.api.title} has more than {ANSWER_BYTES_MAX} bytes; ask for less"
                    )
                yield LARGE if size > LARGE_ANSWER_BYTES else None
        except (CloseConnection, OverLimitError):
            raise
        except Exception as error:
            raise self._failure(error) from error
        finally:
            self.broker.allowance.unsent_bytes -= size
        if self.last is not None and self.last.is_last():
            self.ends_because = self.last.reason
        elif self.keep is not None:
            self.keep(chunks)
        return _framed(self.header, chunks)

    def _call(self, now_ms: int) -> Call:
        return Call(
            self.broker, now_ms, self.header.api_version, self.header.client_id or "", self.client_host,
            self.connection, self.usage, self.api,
        )  # fmt: skip

    def _failure(self, error: Exception) -> CloseConnection:
        """What became of a request that cannot be answered."""
        if isinstance(error, OSError):
            self.broker.storage.failed(error)
            return CloseConnection(f"{self.api.title} failed on the disk: {error}")
        client, version = self.header.client_id or "", self.header.api_version
        log.error("bug: %s v%d from client %r failed", self.api.title, version, client, exc_info=error)
        return CloseConnection(f"{self.api.title} failed")


def _load(api: Api) -> tuple[type[Any], Callable[..., Any]]:
    loaded = _loaded.get(api.key)
    if loaded is None:
        loaded = _loaded[api.key] = api.load()
    return loaded


def _keep(
    broker: Broker, answers: Answers, key: tuple[Hashable, ...], doubts: int, chunks: list[Buffer]
) -> None:
    """For whoever asks the same, until the image changes: `answers` is then no longer the broker's. Nothing
    is kept that was made while this broker waited for proof, or was in doubt, that it leads."""
    if broker.proofs.is_awaited or broker.proofs.doubts != doubts:
        return
    answer = b"".join(chunks)
    kept_bytes = sum(map(len, answers.values()))
    if len(answers) >= CACHED_ANSWERS_MAX or kept_bytes + len(answer) > CACHED_ANSWERS_BYTES_MAX:
        answers.clear()
    answers[key] = answer


def _refuse_version(api: Api, header: RequestHeader) -> list[Buffer]:
    if api.key != API_VERSIONS:
        raise ProtocolError(f"{api.title} has no version {header.api_version}")
    from ottla.api.api_versions import served
    from ottla.wire.messages.api_versions import ApiVersionsResponse

    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served())
    return _framed(header, encoder(ApiVersionsResponse, 0)(answer))


def _framed(header: RequestHeader, chunks: list[Buffer]) -> list[Buffer]:
    flexible = response_is_flexible(header.api_key, header.api_version)
    start = response_header(header.correlation_id, flexible)
    size = len(start) + sum(map(len, chunks))
    head = LENGTH.pack(size) + start
    if len(chunks[0]) > SHARED_BYTES:
        return [head, *chunks]
    return [head + chunks[0], *chunks[1:]]
