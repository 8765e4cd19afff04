"""`Client`: everything this package can ask of a cluster, in one object with one bootstrap string.

It connects on first use. Every method is done when it returns, or raises `ClientError`.

Not obvious: what a method needs is loaded when it is first called. A command that sends one line has no use
for groups and transactions, and loading these takes longer than sending it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from ottla.base.errors import ErrorCode
from ottla.base.files import Buffer
from ottla.base.ids import TopicPartition
from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.retry import Deadline, until
from ottla.client.security.names import check_names
from ottla.client.security.settings import NO_SECURITY, ClientSecurity, client_security

if TYPE_CHECKING:
    from ottla.client.first_batches import Begun
    from ottla.client.groups import Committed
    from ottla.client.security.sasl_settings import Provider
    from ottla.client.transaction_states import Described
    from ottla.client.transactions import Transaction
    from ottla.records.fetched import Fetched

FETCH_BYTES_MAX = 32 << 20


class Client:
    """A context manager. `timeout_s` bounds a call without success, and a read without progress."""

    def __init__(
        self,
        bootstrap: str,
        *,
        client_id: str = "ottla",
        timeout_s: float = 30.0,
        security: ClientSecurity | Mapping[str, str] = NO_SECURITY,
        token: "Provider | None" = None,
    ) -> None:
        """`security` are Kafka's properties for it (security.protocol, ssl.*, sasl.*), and `token` gives one
        for OAUTHBEARER whenever it is needed."""
        if not isinstance(security, ClientSecurity):
            check_names(security)
            security = client_security(security, token)
        self._cluster = Cluster(bootstrap, client_id, security)
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._cluster.close()

    def reach(self, within_s: float) -> None:
        """Until a broker has answered, if none ever has; ClientError after `within_s`."""
        if not self._cluster.brokers:
            deadline = self._deadline(within_s)
            until(deadline, "asking for the brokers", lambda: self._cluster.refresh([], deadline))

    # -- topics ----------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """The names of all topics, internal ones too, in order."""
        from ottla.client import topics

        return topics.topics(self._cluster, self._deadline())

    def partitions(self, topics_: Iterable[str], *, may_create: bool = False) -> dict[str, list[int]]:
        """The partitions of topics. One that does not exist is left out, and is not created.

        With `may_create` it is created, if brokers create topics (auto.create.topics.enable), and is an error
        if they do not.
        """
        from ottla.client import topics

        return topics.partitions(self._cluster, topics_, self._deadline(), may_create=may_create)

    def create_topics(
        self,
        partitions: Mapping[str, int],
        *,
        config: Mapping[str, str] | None = None,
        replicas: int = -1,
    ) -> None:
        """Create topics with so many partitions each. -1, also of replicas, is the broker's default."""
        from ottla.client import topics

        topics.create_topics(self._cluster, partitions, config or {}, replicas, self._deadline())

    def delete_topics(self, names: Iterable[str]) -> None:
        from ottla.client import topics

        topics.delete_topics(self._cluster, names, self._deadline())

    # -- offsets ---------------------------------------------------------------------------------------------

    def ends(
        self, partitions: Iterable[TopicPartition], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """The offset after the last record that a reader may see."""
        return self._offsets(dict.fromkeys(partitions, LATEST), read_committed=read_committed)

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset that is still there."""
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset whose record has this time (ms) or a later one; None where there is none."""
        for topic_partition, time_ms in times.items():
            if time_ms < 0:
                raise ValueError(f"{topic_partition}: {time_ms} is no time in ms since 1970")
        offsets = self._offsets(times)
        return {
            topic_partition: offset if offset >= 0 else None for topic_partition, offset in offsets.items()
        }

    def _offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        from ottla.client.offsets import list_offsets

        return list_offsets(self._cluster, times, read_committed=read_committed, deadline=self._deadline())

    # -- records ---------------------------------------------------------------------------------------------

    def fetch(
        self,
        partition: TopicPartition,
        start: int,
        end: int,
        *,
        read_committed: bool = False,
        max_bytes: int = FETCH_BYTES_MAX,
    ) -> "Iterator[Fetched]":
        """The record batches that cover the offsets from `start` up to, not including, `end`.

        Each `Fetched` holds whole batches. The first may begin before `start` and the last end after `end`:
        the caller trims. Holes are no error. With `read_committed` each also names the aborted transactions
        whose records the caller drops. `max_bytes` bounds an answer, of which two are in memory at most; a
        single batch that is larger still comes whole. OffsetOutOfRange if `start` is not in the log, also
        half way through.
        """
        from ottla.client.fetch import Fetch

        reader = Fetch(
            self._cluster,
            TopicPartition(*partition),
            start,
            end,
            read_committed=read_committed,
            max_bytes=max_bytes,
            timeout_s=self._timeout_s,
        )
        return iter(reader)

    def fetch_together(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        max_bytes: int = FETCH_BYTES_MAX,
    ) -> "dict[TopicPartition, Begun]":
        """A head start for the reads of many partitions: the first record batches of each, in one request
        per leader, and where to go on with `fetch`. What could not be had at once is left out."""
        from ottla.client.first_batches import fetch_together

        return fetch_together(
            self._cluster,
            starts,
            read_committed=read_committed,
            max_bytes=max_bytes,
            deadline=self._deadline(),
        )

    def produce(
        self,
        batches: Mapping[TopicPartition, Buffer],
        *,
        acks: int = -1,
        transaction: "Transaction | None" = None,
        timeout_s: float | None = None,
        refusals: dict[TopicPartition, ClientError] | None = None,
    ) -> dict[TopicPartition, int]:
        """Append one record batch to each partition; their base offsets (-1 with acks=0).

        What may pass is tried again with the same bytes, so a batch should have a producer id and a sequence:
        without them it can end up in the log twice. In a transaction the partitions are added first. A batch
        that a broker does not want, or that is given up, is a ClientError; with `refusals` it goes there, and
        others are appended.
        """
        from ottla.client import produce

        return produce.produce(
            self._cluster,
            batches,
            acks=acks,
            transactional_id=transaction and transaction.transactional_id,
            deadline=self._deadline(timeout_s),
            refusals=refusals,
        )

    def producer_id(self) -> tuple[int, int]:
        """The id and epoch of a new idempotent producer."""
        from ottla.client import produce

        return produce.producer_id(self._cluster, self._deadline())

    # -- groups ----------------------------------------------------------------------------------------------

    def commit_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, metadata: str = ""
    ) -> None:
        """Commit for a group without members."""
        from ottla.client import groups

        groups.commit_offsets(self._cluster, group, offsets, metadata, self._deadline())

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """All offsets that a group has committed."""
        from ottla.client import groups

        entries = groups.committed(self._cluster, group, self._deadline())
        return {topic_partition: entry.offset for topic_partition, entry in entries.items()}

    def committed_entries(
        self, group: str, *, require_stable: bool = False
    ) -> "dict[TopicPartition, Committed]":
        """The same with its metadata. With `require_stable` a transaction that has committed an offset anew
        is waited for."""
        from ottla.client import groups

        return groups.committed(self._cluster, group, self._deadline(), require_stable=require_stable)

    # -- transactions ----------------------------------------------------------------------------------------

    def begin_transaction(self, transactional_id: str, timeout_ms: int) -> "Transaction":
        """A transaction with an epoch of its own. What is open under this id is aborted, and whoever began it
        is fenced."""
        from ottla.client import transactions

        return transactions.begin(self._cluster, transactional_id, timeout_ms, self._deadline())

    def add_partitions(self, transaction: "Transaction", partitions: Iterable[TopicPartition]) -> None:
        from ottla.client import transactions

        transactions.add_partitions(self._cluster, transaction, partitions, self._deadline())

    def commit_offsets_in(
        self, transaction: "Transaction", group: str, offsets: "Mapping[TopicPartition, Committed]"
    ) -> None:
        """Commit for a group without members, when the transaction is."""
        from ottla.client import transactions

        transactions.commit_offsets(self._cluster, transaction, group, offsets, self._deadline())

    def end_transactions(
        self, ended: "Sequence[Transaction]", *, committed: bool
    ) -> "dict[Transaction, ErrorCode]":
        """Commit or abort, also what another process began: those that were refused, and why. It may be
        repeated."""
        from ottla.client import transactions

        return transactions.end(self._cluster, ended, self._deadline(), committed=committed)

    def describe_transactions(self, transactional_ids: Iterable[str]) -> "dict[str, Described]":
        """What their coordinators know of transactional ids; one that nobody knows is left out."""
        from ottla.client.transaction_states import described_all

        return described_all(self._cluster, transactional_ids, self._deadline())

    def _deadline(self, timeout_s: float | None = None) -> Deadline:
        return Deadline(self._timeout_s if timeout_s is None else timeout_s)
