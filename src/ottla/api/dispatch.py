"""From a frame to an answer: header, row of the table, decoder, handler, encoder.

Rules: malformed bytes, unknown keys and unknown versions are a `ProtocolError`, and the connection is
closed without an answer; only ApiVersions is answered whatever its version. A disk that fails under a
request takes its log directory offline, and costs the connection of whoever cannot be told otherwise. A
handler that fails in a way nobody planned is a bug: it is logged with the request that caused it, and costs
that connection, not the broker.

No request keeps others waiting (design note 011). Produce, small fetches and small commits of offsets are
answered as they come. Everything else is done at once only while this round of the loop has time left. It is
a job of `broker/long_work`: decoding, if the request is large; the handler, if it is a generator; encoding,
which is where lazy lists are made (`wire/lazy`). What an answer has so far counts as unsent; one that gets
too large is given up.
"""

import logging
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from types import GeneratorType
from typing import Any

from ottla.api.call import Call, CloseConnection, LastAnswer, Silence
from ottla.api.single_commit import commit_single
from ottla.api.single_produce import produce_single
from ottla.api.table import TABLE, Api
from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.base.log_fields import fields
from ottla.broker.broker import Broker
from ottla.broker.effects import Close, Reply
from ottla.broker.kept_answers import keep_answer
from ottla.broker.long_work import LARGE, SMALL_BYTES, Steps
from ottla.broker.parked import Parked
from ottla.broker.request_counts import FOLLOWER_FETCH, ApiCounts
from ottla.broker.request_meter import RequestMeter
from ottla.wire.codec import decode_in_slices, decoder, encode_in_slices, encoder
from ottla.wire.frame import LENGTH
from ottla.wire.header import (
    API_VERSIONS,
    RequestHeader,
    UnknownApiError,
    decode_request_header,
    response_is_flexible,
    response_start,
)
from ottla.wire.lazy import Encoded
from ottla.wire.messages import VERSIONS
from ottla.wire.primitives import OverLimitError, ProtocolError

log = logging.getLogger(__name__)

PRODUCE, FETCH, OFFSET_COMMIT = 0, 1, 8
CACHED_REQUEST_BYTES_MAX = 4_096
REQUEST_BYTES_MAX = 16 * 1024 * 1024
LARGE_REQUEST_BYTES = 64 * 1024  # some 2,000 partitions: decoded in two milliseconds
LARGE_ANSWER_BYTES = 256 * 1024
SMALL_COMMIT_BYTES = 512  # some 20 partitions: committed in a fifth of a millisecond
SMALL_FETCH_BYTES = 2 * 1024  # some 60 partitions: answered in half a millisecond, without their records
SMALL_AT_ONCE = {FETCH: SMALL_FETCH_BYTES, OFFSET_COMMIT: SMALL_COMMIT_BYTES}
FETCH_PARTITION_BYTES = 32  # of a request, for each partition it names
SHARED_BYTES = 16 * 1024  # a cached answer is sent to many: what is larger is not copied for each
ANSWER_BYTES_MAX = 100 * 1024 * 1024  # librdkafka receives no more, either
_has_flexible_answer = cache(response_is_flexible)
_loaded: dict[int, tuple[type[Any], Callable[..., Any]]] = {}


def on_request(
    broker: Broker,
    connection: int,
    frame: memoryview,
    now_ms: int,
    client_host: str = "",
    meter: RequestMeter | None = None,
) -> list[Buffer] | Silence:
    """The answer to one frame, ready to be sent. ProtocolError or CloseConnection: close the connection. Who
    has a `meter` tells it when the answer was sent."""
    try:
        header, at = decode_request_header(frame)
    except UnknownApiError as unknown:
        _count_unserved(broker, unknown.header, None, client_host)
        raise
    api = TABLE.get(header.api_key)
    low, high = VERSIONS[header.api_key]
    if api is None or not low <= header.api_version <= high:
        return _refuse_version(broker, api, header, client_host)
    if len(frame) > REQUEST_BYTES_MAX and api.key != PRODUCE:
        # Small items cost many times their bytes as objects; only record batches stay bytes.
        raise OverLimitError(f"{api.title} with {len(frame)} bytes, more than {REQUEST_BYTES_MAX}")
    meter = meter or RequestMeter(broker.requests.clock_ns)
    exchange = Exchange(broker, connection, api, header, client_host, len(frame), meter)
    meter.usage = None
    if broker.quotas.is_active and not broker.identities.is_broker(connection):
        user = broker.access.session(connection).principal.name
        meter.usage = broker.quotas.usage(user, header.client_id or "", now_ms)
    if api.key == PRODUCE:
        return exchange.produce_at_once(frame, at, now_ms)
    if len(frame) <= SMALL_AT_ONCE.get(api.key, 0):
        answer = (exchange.fetch_at_once if api.key == FETCH else exchange.commit_at_once)(frame, at, now_ms)
        if answer is not None:
            return answer
    broker.outbox.is_stirred = True
    is_cached = api.cached and meter.usage is None  # whose answers may have to say that it is throttled
    exchange.is_broker = broker.identities.is_broker(connection)
    if is_cached and not broker.proofs.is_awaited and len(frame) - at <= CACHED_REQUEST_BYTES_MAX:
        answers = broker.answers
        scope = broker.access.scope(connection, client_host, is_broker=exchange.is_broker)
        key = (scope, header.api_key, header.api_version, bytes(frame[at:]))
        kept = answers.get(key)
        if kept is not None:
            return exchange.answer_again(kept)
        exchange.keep = partial(keep_answer, answers, broker.proofs, key, broker.proofs.doubts)
    if len(frame) > LARGE_REQUEST_BYTES or not broker.slices.may_begin(
        exchange.weight, is_broker=exchange.is_broker
    ):
        exchange.queue(memoryview(bytes(frame)), at)  # a copy: the frame is void when we return
        return Silence.QUEUED
    return exchange.answer_in_share(frame, at, now_ms)


@dataclass  # without slots: what few requests need stays on the class, and is not set for each
class Exchange:
    """One request of `size` bytes, and the connection its answer goes to. `meter` is told what becomes of it,
    and says how long its client has to be silent then. `keep` is told the answer, if it is made without
    waiting for anything. `last`: the connection ends with this answer, if it still says so once it is made;
    then `ends_because` says why."""

    broker: Broker
    connection: int
    api: Api
    header: RequestHeader
    client_host: str
    size: int
    meter: RequestMeter
    session_bytes: int = field(default=0, init=False)  # more, if it named what its fetch session is about
    is_broker: bool = field(default=False, init=False)
    keep: Callable[[Encoded], None] | None = field(default=None, init=False)
    last: LastAnswer | None = field(default=None, init=False)
    ends_because: str = field(default="", init=False)
    handler: Callable[..., Any] | None = field(default=None, init=False)  # that was chosen for it

    @property
    def weight(self) -> int:
        """What it counts as, among others that wait."""
        return self.size + self.session_bytes

    def decoded(self, frame: memoryview, at: int) -> Any:
        return decoder(_load(self.api)[0], self.header.api_version)(frame, at, self.api.items_max)

    def answer_at_once(self, request: Any, now_ms: int) -> list[Buffer] | Silence:
        try:
            handler = self.handler or _load(self.api)[1]
            answer = handler(self._begin(request, now_ms), request)
        except CloseConnection:
            raise
        except Exception as error:
            raise self._failure(error) from error
        if answer is None:
            mute_ms = self.meter.finish_unanswered(self.size)
            return self._put([], mute_ms) if mute_ms else Silence.NO_REPLY
        if isinstance(answer, GeneratorType):
            self.broker.outbox.is_stirred = True
            return self._run(self._answered(answer))
        if isinstance(answer, Parked):
            if self.park(answer) or self.api.key != FETCH or self.broker.proofs.is_awaited:
                self.broker.outbox.is_stirred = True  # else the fetch changes nothing of what is due next
            return Silence.PARKED
        chunks = self._encoded_at_once(answer)
        return chunks if self.meter.usage is None else self._finished(chunks)

    def produce_at_once(self, frame: memoryview, at: int, now_ms: int) -> list[Buffer] | Silence:
        """A Produce: in a way of its own if it has one batch, as far as that goes."""
        if self.meter.usage is None:
            single = produce_single(self.broker, self.header, frame, at, now_ms, self.meter)
            if isinstance(single, bytes):
                return [single]
            if single is not None:
                self.handler = single.handler
                return self.answer_at_once(single.request, now_ms)
        return self.answer_at_once(self.decoded(frame, at), now_ms)

    def fetch_at_once(self, frame: memoryview, at: int, now_ms: int) -> list[Buffer] | Silence | None:
        """A Fetch, unless its session makes it large: it is as large as if it named all that it is about."""
        fetch = self.decoded(frame, at)
        if fetch.session_id:
            self.session_bytes = FETCH_PARTITION_BYTES * self.broker.sessions.partitions(fetch.session_id)
            if self.weight > SMALL_FETCH_BYTES:
                return None
        return self.answer_at_once(fetch, now_ms)

    def commit_at_once(self, frame: memoryview, at: int, now_ms: int) -> list[Buffer] | Silence | None:
        """An OffsetCommit, unless somebody has to be asked whether it is allowed. Of what is due, it can only
        change when the coordinators are called next."""
        if self.broker.access.authorizer is not None:
            return None
        due_ms = self.broker.coordinators.next_ms()
        try:
            outcome = commit_single(self.broker, self.header, frame, at, now_ms, self.meter)
            if isinstance(outcome, bytes):
                return [outcome]
            self.handler = outcome
            return self.answer_at_once(self.decoded(frame, at), now_ms)
        finally:
            if self.broker.coordinators.next_ms() != due_ms:
                self.broker.outbox.is_stirred = True

    def answer_again(self, kept: Encoded) -> list[Buffer] | Silence:
        """With what others were told who asked the same."""
        counts = self.broker.requests.of(self.api.key, self.api.title)
        self.meter.begin(counts, self.header.api_version, self.size)
        counts.add_errors(kept.errors)
        return _framed(self.header, [kept.body], counts)

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
            self.connection, steps, self._late, size=self.weight, is_broker=self.is_broker
        )
        if not is_done:
            self.meter.pause()
            return Silence.PARKED
        if self.meter.usage is not None and result is not Silence.PARKED:
            result = self._finished(result)
        self._end()
        return result  # type: ignore[no-any-return]

    def queue(self, frame: memoryview, at: int) -> None:
        self.meter.enqueue()
        self.broker.slices.put(
            self.connection,
            self._late(self._decoded(frame, at)),
            size=self.weight,
            is_large=self.weight > LARGE_REQUEST_BYTES,
            is_broker=self.is_broker,
        )

    def park(self, parked: Parked) -> bool:
        """Let an answer wait. What it is answered with in the end may have to wait for something else. Is it
        the first whose time will be up?"""
        self.keep = None
        self.meter.park(parked)
        parked.operation = self.api.key
        parked.owner, parked.reply = self.connection, self._reply
        return self.broker.waiting.park(parked)

    def _reply(self, answer: Any) -> None:
        self.meter.wake()
        if isinstance(answer, Parked):
            self.broker.outbox.is_stirred = True
            self.park(answer)
            return
        if answer is Silence.NO_REPLY:
            self._put([], self.meter.finish_unanswered(self.size))
            return
        if isinstance(answer, CloseConnection):
            self._close(answer)
            return
        if self.api.key not in {PRODUCE, FETCH} or isinstance(answer, GeneratorType):
            self.broker.outbox.is_stirred = True
            self.broker.slices.run(
                self.connection,
                self._late(self._answered(answer)),
                lambda rest: rest,
                size=self.weight,
                is_broker=self.is_broker,
            )
            return
        try:
            self.meter.resume()
            chunks = self._encoded_at_once(answer)
        except CloseConnection as error:
            self._close(error)
            return
        self._put(chunks, self.meter.finish())

    def _finished(self, chunks: list[Buffer]) -> list[Buffer] | Silence:
        """An answer that is made at once, to a client with a quota. What it sent behind its request waits,
        too, if it is over that."""
        mute_ms = self.meter.finish()
        return self._put(chunks, mute_ms) if mute_ms else chunks

    def _put(self, chunks: list[Buffer], mute_ms: int) -> Silence:
        """An answer that leaves through the outbox."""
        size = sum(map(len, chunks))
        self.broker.allowance.unsent_bytes += size
        self.broker.outbox.put(Reply(self.connection, chunks, size, mute_ms))
        return Silence.PARKED

    def _close(self, error: Exception) -> None:
        over_limit = isinstance(error, OverLimitError)
        self.broker.outbox.put(
            Close(self.connection, str(error), over_limit=over_limit, sender=self.header.sender)
        )

    def _encoded_at_once(self, answer: Any) -> list[Buffer]:
        if self.meter.usage is not None:
            self.meter.charge(answer, self.size if self.api.key == PRODUCE else 0)
        counts = self.meter.counts
        assert counts is not None, "it was begun"
        try:
            body = encoder(type(answer), self.header.api_version)(answer, counts.errors)
            return _framed(self.header, body, counts)
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            raise self._failure(error) from error

    # -- the steps of a job: in the end they return chunks, or why there are none --

    def _late(self, steps: Steps) -> Steps:
        """The same when nobody is there to take what it returns."""
        try:
            result = yield from self.meter.time_steps(steps, self.broker.slices)
        except (ProtocolError, CloseConnection) as error:
            self._close(error)
            return
        if result is not Silence.PARKED:
            self._put(result, self.meter.finish())
            self._end()

    def _end(self) -> None:
        if self.ends_because:
            self.broker.outbox.put(Close(self.connection, self.ends_because, after_answers=True))

    def _decoded(self, frame: memoryview, at: int) -> Steps:
        self.meter.dequeue()
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
        call = self._begin(request, now_ms)
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
        self.meter.charge(answer, self.size if self.api.key == PRODUCE else 0)
        counts = self.meter.counts
        assert counts is not None, "it was begun"
        chunks: list[Buffer] = []
        errors: dict[int, int] = {}  # of an answer that may be given up
        size = 0
        try:
            for chunk in encode_in_slices(answer, self.header.api_version, errors):
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
            body = b"".join(chunks)
            chunks = [body]
            self.keep(Encoded(body, errors))
        counts.add_errors(errors)
        return _framed(self.header, chunks, counts)

    def _begin(self, request: Any, now_ms: int) -> Call:
        header, meter, key = self.header, self.meter, self.api.key
        if key == FETCH and _is_follower(request):
            key, self.broker.outbox.is_stirred = FOLLOWER_FETCH, True  # there may be another ISR to ask for
        counts = self.broker.requests.by_key.get(key) or self.broker.requests.of(key, self.api.title)
        meter.begin(counts, header.api_version, self.size)
        return Call(
            self.broker, now_ms, header.api_version, header.client_id or "", self.client_host,
            self.connection, meter.usage, self.api, header.correlation_id,
        )  # fmt: skip

    def _failure(self, error: Exception) -> CloseConnection:
        """What became of a request that cannot be answered."""
        if isinstance(error, OSError):
            self.broker.storage.failed(error)
            return CloseConnection(f"{self.api.title} failed on the disk: {error}")
        header = self.header
        log.error(
            "bug: %s v%d from client %r failed, correlation id %d",
            self.api.title, header.api_version, header.client_id or "", header.correlation_id, exc_info=error,
            extra=fields(
                api=self.api.title, version=header.api_version, client=header.client_id,
                correlation=header.correlation_id, host=self.client_host.removeprefix("/"),
            ),
        )  # fmt: skip
        return CloseConnection(f"{self.api.title} failed")


def _load(api: Api) -> tuple[type[Any], Callable[..., Any]]:
    loaded = _loaded.get(api.key)
    if loaded is None:
        loaded = _loaded[api.key] = api.load()
    return loaded


def _is_follower(fetch: Any) -> bool:
    state = fetch.replica_state
    replica_id: int = fetch.replica_id if state is None else state.replica_id
    return replica_id >= 0


def _count_unserved(broker: Broker, header: RequestHeader, title: str | None, client_host: str) -> None:
    broker.requests.unserved.on_asked(
        header.api_key, header.api_version, title, header.client_id or "", client_host
    )


def _refuse_version(broker: Broker, api: Api | None, header: RequestHeader, client_host: str) -> list[Buffer]:
    """ProtocolError, except for ApiVersions: its answer says what there is."""
    _count_unserved(broker, header, None if api is None else api.title, client_host)
    if api is None:
        raise ProtocolError(f"API {header.api_key} is not served")
    if api.key != API_VERSIONS:
        raise ProtocolError(f"{api.title} has no version {header.api_version}")
    from ottla.api.api_versions import served
    from ottla.wire.messages.api_versions import ApiVersionsResponse

    counts = broker.requests.of(api.key, api.title)
    answer = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=served())
    return _framed(header, encoder(ApiVersionsResponse, 0)(answer, counts.errors), counts)


def _framed(header: RequestHeader, chunks: list[Buffer], counts: ApiCounts) -> list[Buffer]:
    size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
    flexible = _has_flexible_answer(header.api_key, header.api_version)
    start = response_start(header.correlation_id, size, flexible)
    counts.answer_bytes += len(start) - LENGTH.size + size
    if size <= SHARED_BYTES:
        return [b"".join((start, *chunks))]  # to copy so little takes less than to send several pieces
    if len(chunks[0]) > SHARED_BYTES:
        return [start, *chunks]
    chunks[0] = start + chunks[0]
    return chunks
