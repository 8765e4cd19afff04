"""One broker: what it is made of, and which part hears of what.

    image, settings               what it knows of the cluster, and what it is set to
    storage, moves                its logs on their disks
    partitions, replicas, isr     its partitions: which are here, what happens to them, what leaders propose
    coordinators                  what is stored in internal topics, for groups and transactions
    seat, controller_writes       the controller, on the broker that has its seat
    liveness, report, departure   what it tells other brokers, and hears of them
    waiting, slices, allowance    requests that wait, that take long, and how much may be done at once
    traffic, requests             what went in and out, counted by topic; what was asked for, by API
    cluster_events, digest        what it says of the cluster in its log
    readiness                     whether it can answer for what it leads
    outbox                        what it asks of the world

Rules: one thread owns all of this. Every input takes `now_ms`; nothing here reads a clock, opens a socket or
waits. Effects are left in `outbox` in the order they arose, and whoever gave the input carries them out. A
part is given what it needs and nothing else; what concerns one part alone goes to that part without passing
here. Parts are made from the bottom up: where one calls back a part that is made later, a lambda stands in.
Handlers in `api` are given the whole broker, since each needs other parts of it.
"""

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from ottla.base.config import load
from ottla.base.files import Files
from ottla.broker import adoption
from ottla.broker.access import Access
from ottla.broker.adoption import Adoption
from ottla.broker.allowance import Allowance
from ottla.broker.audit import Audit
from ottla.broker.cluster_events import ClusterEvents
from ottla.broker.config import BrokerConfig
from ottla.broker.config_copies import ConfigCopies
from ottla.broker.controller_events import ControllerEvents
from ottla.broker.controller_seat import Seat
from ottla.broker.controller_writes import ControllerWrites
from ottla.broker.coordinators import Coordinators
from ottla.broker.departure import Departure
from ottla.broker.effects import ConfirmTree, Halt, Sign
from ottla.broker.event_digest import EventDigest
from ottla.broker.fetchers import Fetchers
from ottla.broker.identities import Identities
from ottla.broker.isr import IsrChanges
from ottla.broker.kept_answers import KeptAnswers, KeptTopics
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.listeners import listeners_of, settings_of
from ottla.broker.liveness import Liveness
from ottla.broker.long_work import Slices
from ottla.broker.moves import Moves
from ottla.broker.offline import OfflineNotice, assume_lost
from ottla.broker.outbox import Outbox
from ottla.broker.own_report import OwnReport
from ottla.broker.parked import Waiting
from ottla.broker.partitions import Partitions
from ottla.broker.ports import Enter, Random, TransactionVerifier, unmeasured
from ottla.broker.producer_ids import ProducerIds
from ottla.broker.quotas import Quotas
from ottla.broker.readiness import Readiness
from ottla.broker.replica_counts import ReplicaCounts
from ottla.broker.replicas import Followers, Replicas
from ottla.broker.request_counts import RequestCounts
from ottla.broker.settings import Settings
from ottla.broker.storage import Storage
from ottla.broker.traffic import Traffic
from ottla.controller import image as images
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import NodeChanged
from ottla.replication.partition import HighWatermarks
from ottla.replication.sessions import Sessions
from ottla.replication.throttle import ReplicationThrottle
from ottla.security.authorizer_config import AuthorizerConfig

if TYPE_CHECKING:
    from ottla.broker.authentication import Authentication
    from ottla.broker.group_lag import GroupLag
    from ottla.broker.marker_writes import MarkerWrites
    from ottla.broker.transaction_markers import MarkerSender
    from ottla.broker.transactions import OnWritten
    from ottla.security.peer_login import Login


class Broker:
    def __init__(self, files: Files, random: Random, properties: dict[str, str]) -> None:
        self.random = random
        self.image = image = Image()
        self.settings = settings = Settings(properties, image)
        self.id = settings.broker_id
        self.outbox = outbox = Outbox()
        self.digest = EventDigest()
        self.waiting = waiting = Waiting()
        self.slices = Slices()
        self.allowance = Allowance(waiting, self.slices)
        self.storage = storage = Storage(
            files, settings, outbox, lambda log: self.partitions.last_stable_offset(log)
        )
        self.store = storage.store
        self.producer_ids = ProducerIds(self.id, image, outbox.write)
        self.coordinators = Coordinators(
            properties, image, waiting,
            lambda *batch: self.replicas.append_internal(*batch),
            lambda *marker: self.replicas.append_marker(*marker), storage.wall_ms,
            self.producer_ids, self._new_markers, outbox.do,
        )  # fmt: skip
        self.traffic = Traffic(lambda: settings.metrics_config.topics_max)
        self._replicate()
        self.copies = ConfigCopies(self.id, image, storage.store, storage.failed)
        self.partitions = Partitions(
            settings, image, storage, waiting, self.replicas, self.followers, self.coordinators, self.copies,
            self.traffic,
        )  # fmt: skip
        self.moves = Moves(image, storage, outbox, self.partitions.on_moved)
        self._control()
        self.notice = OfflineNotice(self.id, image, storage.store, outbox)
        self.listeners = listeners_of(properties)
        self.identities = Identities(self.id, image, random, self._login(properties))
        self.audit = Audit()
        self.access = Access(load(AuthorizerConfig, properties), image)
        self.quotas = Quotas(settings, image, self.slices)
        self.sessions = Sessions(
            settings.config.fetch_session_slots, new_id=lambda: random.randrange(1, 2**31)
        )
        self.adoption = Adoption()
        self.answers: KeptAnswers = {}
        self.kept_topics = KeptTopics(image, storage.store.lost, self.proofs)
        self.requests = RequestCounts()
        self.is_clean = True
        self.readiness = Readiness(
            self.id, image, storage.store.progress, self.partitions, self.partitions.log_queue,
            self.coordinators, self.proofs,
        )  # fmt: skip

    def _login(self, properties: dict[str, str]) -> "Login | None":
        """With which this broker logs in to others."""
        listener = self.listeners.between_brokers
        if not listener.has_sasl:
            return None
        from ottla.security.peer_login import login_of  # many brokers have no SASL

        return login_of(settings_of(properties, listener.name), listener.name)

    def _replicate(self) -> None:
        """What partitions need to lead and to follow."""
        settings, image, outbox, waiting = self.settings, self.image, self.outbox, self.waiting
        self.followers = Followers(self.id, waiting)
        self.proofs = Proofs(waiting, lambda now_ms: outbox.put(ConfirmTree(now_ms)), self.followers.hurry)
        self.leader_throttle = ReplicationThrottle(
            self.id,
            lambda config: config.leader_replication_throttled_replicas,
            lambda: settings.config.leader_throttled_rate,
        )
        follower_throttle = ReplicationThrottle(
            self.id,
            lambda config: config.follower_replication_throttled_replicas,
            lambda: settings.config.follower_throttled_rate,
        )
        self.replica_counts = counts = ReplicaCounts()
        self.isr = IsrChanges(
            self.id, image, outbox.send,
            lambda partition, proposal, now_ms: self.replicas.on_refused(partition, proposal, now_ms), counts,
        )  # fmt: skip
        fetchers = Fetchers(
            self.id, image, lambda: settings.config, outbox.send,
            lambda progress, now_ms: self.replicas.on_fetched(progress, now_ms), follower_throttle, counts,
        )  # fmt: skip
        self.replicas = Replicas(
            image=image, waiting=waiting, followers=self.followers, fetchers=fetchers,
            isr=self.isr, proofs=self.proofs, coordinators=self.coordinators, disks=self.storage,
            traffic=self.traffic,
            lag_ms_max=lambda: settings.config.replica_lag_time_ms_max, counts=counts, digest=self.digest,
        )  # fmt: skip

    def _control(self) -> None:
        """What brokers need to be a cluster."""
        image, outbox = self.image, self.outbox
        self.cluster_events = ClusterEvents(self.id, image, self.digest)
        self.liveness = liveness = Liveness(self.id)
        self.departure = Departure(self.id, image, liveness, outbox)
        self.seat = Seat(
            self.id, image, liveness, self.departure, outbox,
            on_taken=lambda now_ms: self.controller_writes.on_seat(now_ms),
        )  # fmt: skip
        self.controller_events = ControllerEvents(self.digest)
        self.controller_writes = ControllerWrites(
            image, self.settings, self.seat, liveness, outbox, self.controller_events
        )
        self.report = OwnReport(self.id, image, liveness, self.isr.unanswered, outbox)

    @cached_property
    def authentication(self) -> "Authentication":
        from ottla.broker.authentication import Authentication  # many brokers have no SASL

        return Authentication(self.settings.properties, self.image, self.access, self.random, self.outbox.put)

    @cached_property
    def marker_writes(self) -> "MarkerWrites":
        from ottla.broker.marker_writes import MarkerWrites  # many brokers never see a transaction

        return MarkerWrites(
            self.partitions, self.proofs, self.replicas.append_marker,
            lambda *end: self.coordinators.groups.end_transaction(*end), self.storage.wall_ms,
        )  # fmt: skip

    def _new_markers(self, on_written: "OnWritten") -> "MarkerSender":
        from ottla.broker.transaction_markers import MarkerSender  # likewise

        return MarkerSender(
            self.id, self.image, self.outbox.send, self.marker_writes, self.waiting, self.proofs,
            lambda now_ms: self.outbox.put(ConfirmTree(now_ms)), on_written,
        )  # fmt: skip

    @cached_property
    def verifier(self) -> TransactionVerifier:
        """Asks coordinators whether partitions take part in a transaction."""
        from ottla.broker.own_coordinator import OwnCoordinator  # likewise
        from ottla.broker.verification import Verifier

        transactions = self.coordinators.transactions
        return Verifier(
            self.id, self.image, self.outbox.send,
            OwnCoordinator(transactions, self.partitions, self.proofs, self.waiting),
            self.waiting, transactions.config.add_retry_ms, transactions.config.add_retry_ms_max,
        )  # fmt: skip

    @cached_property
    def group_lag(self) -> "GroupLag":
        from ottla.broker.group_lag import GroupLag  # only where somebody reads metrics

        return GroupLag(
            self.id, self.image, self.partitions, lambda: self.coordinators.group_ids,
            lambda shard, group_id: self.coordinators.groups.newest_offsets(shard, group_id),
            self.outbox.send, self.waiting, lambda: self.settings.metrics_config.groups_max,
            lambda: self.settings.metrics_config.lag_interval_ms,
        )  # fmt: skip

    @property
    def verifies_transactions(self) -> bool:
        """Is a coordinator asked about batches of clients that add partitions themselves? (V2 leaves that to
        us, and the coordinator is asked in any case.)"""
        return self.settings.transaction_config.partition_verification_enable

    @property
    def config(self) -> BrokerConfig:
        return self.settings.config

    # -- start and stop ---------------------------------------------------------------------------

    def open(self, nodes: Iterable[NodeChanged], now_ms: int) -> list[str]:
        """Take up what the keeper and the disk hold. Answers what had to be repaired, a line each."""
        self.partitions.opened_ms = now_ms
        # Our own nodes would be those of an earlier incarnation.
        own = {f"{top}{self.id}" for top in (znodes.BROKERS, znodes.OFFLINE, znodes.REPORTS)}
        for node in nodes:
            if node.path not in own:
                self.image.apply(node)
        store, topic_config = self.store, self.settings.topic_config
        if not self.image.cluster_id:
            self.adoption = Adoption.look(store.disks, self.id)
        self._load_settings(self.adoption)
        self.quotas.load()
        report = store.open_all(now_ms, topic_config, self.image.topic_id)
        self.is_clean = all(report.clean.values())
        reports = [*report.lines(), *self.adoption.lines]
        if self.image.cluster_id:
            reports += adoption.remove_strays(self.id, self.image, store, now_ms)
        else:
            reports += adoption.adopted_line(store)
        reports += adoption.untouched_line({topic for topic, _ in store.logs}, topic_config)
        assume_lost(self.id, self.image, store)
        self.copies.note_brokers()
        self.access.load()
        self.cluster_events.on_opened()
        for topic in self.image.topics:
            self.partitions.follow_topic(topic, now_ms)
        self.readiness.is_open = True
        return reports

    def _load_settings(self, adoption: Adoption | None = None) -> None:
        self.settings.load(adoption)
        self.storage.configure(self.settings)

    def begin_stop(self, now_ms: int) -> None:
        """This broker will stop: let others lead first."""
        self.departure.begin()
        self.controller_writes.work(now_ms)

    def close(self, now_ms: int, *, clean: bool = True) -> None:  # noqa: ARG002 - as every input
        """Not `clean`: close the files and write nothing: the next start looks at what the disk has."""
        self.digest.say()
        if not clean or not self.departure.may_stop_cleanly:
            for log in self.store.logs.values():
                log.abandon()
            return
        self.store.high_watermarks.update(HighWatermarks(self.partitions))
        self.store.close()

    # -- what happens -----------------------------------------------------------------------------

    def on_nodes(self, nodes: Iterable[NodeChanged], now_ms: int) -> None:
        """The tree changed: apply all of it, then open, close and configure what that touches."""
        changes = [change for node in nodes for change in self.image.apply(node)]
        self.answers = {}  # another: an answer that is being made out of what was known before is not kept
        self.cluster_events.on_changes(changes)
        self.partitions.log_queue.begin()
        for change in reversed(dict.fromkeys(reversed(changes))):  # the last word on each
            self._on_change(change, now_ms)
        self.replicas.on_brokers(now_ms)
        self.replicas.pump(now_ms)
        self.isr.pump(now_ms)
        self.notice.pump()
        self.liveness.on_brokers(self.image.brokers, now_ms)
        self.departure.on_changes()
        self.seat.on_changes(now_ms)
        self.controller_writes.on_changes(changes, now_ms)

    def _on_change(self, change: images.Change, now_ms: int) -> None:
        match change:
            case images.TopicChanged(topic):
                self.partitions.follow_topic(topic, now_ms)
            case images.TopicDeleted(topic):
                self.partitions.drop_topic(topic, now_ms)
            case images.TopicConfigChanged(topic):
                self.partitions.configure(topic, now_ms)
            case images.GroupConfigChanged(group):
                self.coordinators.on_group_config(group)
            case images.AclsChanged(key):
                self.access.on_acls(key)
            case images.EntityConfigChanged(entity):
                self.quotas.on_changed(entity)
            case images.BrokerConfigChanged():
                self.copies.note_brokers()
                self._load_settings()
                self.partitions.configure(None, now_ms)
            case images.BrokerChanged(broker) if broker == self.id:
                for name in list(self.image.topics):
                    self.partitions.follow_topic(name, now_ms)

    def on_directory_failed(self, directory: str, reason: str, now_ms: int) -> None:
        """A log directory goes offline; the others serve on. Told more than once, the first time counts: many
        a request may run into the same broken disk. Without any directory there is nothing to serve."""
        store = self.store
        if directory not in store.disks:
            return
        store.fail(directory, reason)
        if not store.disks:
            self.outbox.put(Halt(f"the last log directory failed: {reason}"))
            return
        self.answers = {}
        self.partitions.on_directory_failed(directory, reason, now_ms)
        self.notice.pump()

    def on_probed(self, peer: int, epoch: int, sign: Sign, now_ms: int) -> None:
        if self.liveness.on_probed(peer, epoch, sign, now_ms):
            self.controller_writes.on_suspicion(now_ms)
        self.outbox.effects += self.liveness.pump(now_ms)

    def on_closed(self, connection: int) -> None:
        """A connection is over, and with it what waited for an answer on it."""
        self.waiting.drop(connection)
        self.slices.drop(connection)
        self.identities.forget(connection)
        self.access.forget(connection)
        if "authentication" in self.__dict__:
            self.authentication.forget(connection)

    # -- time -------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """When `on_deadline` should be called, unless something happens before."""
        due = [
            self.waiting.next_deadline_ms(), self.slices.next_ms(), self.replicas.next_ms(),
            self.isr.next_ms(), self.partitions.log_queue.next_ms(), self.copies.next_ms(),
            self.liveness.next_ms(), self.proofs.next_ms(), self.coordinators.next_ms(),
            self.controller_writes.next_ms(), self.store.next_sync_ms,
        ]  # fmt: skip
        return min([due_ms for due_ms in due if due_ms is not None], default=None)

    def on_deadline(self, now_ms: int, enter: Enter = unmeasured) -> None:
        """Answers, timers and syncs whose time is up."""
        self._pump(now_ms, enter)
        enter("syncs")
        self.storage.start_syncs(now_ms)
        enter("")

    def _pump(self, now_ms: int, enter: Enter) -> None:
        """Whatever is due but syncs. What may find no file descriptor comes last."""
        enter("waiting requests")
        self.waiting.on_tick(now_ms)
        enter("long requests")
        self.slices.on_deadline(now_ms)
        enter("coordinators")
        self.coordinators.on_tick(now_ms)
        enter("replication")
        self.replicas.pump(now_ms)
        self.isr.pump(now_ms)
        self.proofs.pump(now_ms)
        self.outbox.effects += self.liveness.pump(now_ms)
        enter("controller")
        self.controller_writes.pump(now_ms)
        enter("new logs")
        self.copies.pump(now_ms)
        self.partitions.log_queue.pump(now_ms)

    def on_tick(self, now_ms: int, wall_offset_ms: int = 0, enter: Enter = unmeasured) -> None:
        """`enter` is told which part begins, for whoever measures how long each takes."""
        self.store.wall_offset_ms = wall_offset_ms
        enter("replication")
        self.replicas.on_tick(now_ms)
        self._pump(now_ms, enter)
        enter("controller")
        if "authentication" in self.__dict__:
            self.authentication.on_tick(now_ms)
        self.notice.pump()
        self.report.pump(now_ms)
        self.controller_writes.doubt(now_ms)
        self.seat.on_tick(now_ms)
        self.departure.announce()
        self.controller_writes.on_tick(now_ms)
        enter("retention")
        self.store.on_tick(now_ms, HighWatermarks(self.partitions))
        enter("quotas")
        self.quotas.on_tick(now_ms)
        self.digest.on_tick()
        enter("compaction and moves")
        self.storage.start_cleanings(now_ms)
        self.moves.start_copies(now_ms)
        enter("syncs")
        self.storage.start_syncs(now_ms)
        enter("")
