"""What a broker shows of its process, its loop and its threads."""

import os
import platform
import resource
import threading
import time

import pytest
from tests.kafka_clients.wire_client import Wire, batch
from tests.support.waiting import wait_for

import ottla
from ottla import Broker
from ottla.shell.metrics import process


def test_the_process_is_shown_under_the_names_that_others_give_it() -> None:
    with Broker() as broker:
        metrics = broker.metrics()
    labels = f'version="{ottla.__version__}",python="{platform.python_version()}",loop="uvloop"'
    assert metrics[f'ottla_build_info{{broker="1",{labels}}}'] == 1
    assert 0 < metrics["process_cpu_seconds_total"] <= time.process_time()
    assert 0 < metrics["ottla_loop_cpu_seconds_total"] <= metrics["process_cpu_seconds_total"]
    assert 1 << 20 < metrics["process_resident_memory_bytes"] < metrics["process_virtual_memory_bytes"]
    assert metrics["process_max_fds"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert metrics["process_threads"] > threading.active_count()
    assert time.time() - 86_400 < metrics["process_start_time_seconds"] < time.time()
    assert metrics['python_gc_collections_total{generation="2"}'] >= 0


def test_the_start_of_the_process_does_not_move() -> None:
    with Broker() as broker:
        first, second = (broker.metrics()["process_start_time_seconds"] for _ in range(2))
    assert first == second


def test_open_descriptors_are_counted() -> None:
    with Broker() as broker:
        before = broker.metrics()["process_open_fds"]
        files = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
        try:
            assert broker.metrics()["process_open_fds"] >= before + 40
        finally:
            for file in files:
                os.close(file)


def test_a_system_without_proc_shows_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "PROC", "/proc/none")
    with Broker() as broker:
        metrics = broker.metrics()
    assert "process_resident_memory_bytes" not in metrics
    assert metrics["process_cpu_seconds_total"] > 0


def test_syncs_are_timed_in_their_threads() -> None:
    with Broker({"log.flush.interval.messages": 1}) as broker:
        broker.create_topic("orders")
        with Wire(int(broker.bootstrap_servers.rpartition(":")[2])) as wire:
            wire.produce("orders", bytes(batch(b"x")))
        metrics = wait_for(
            lambda: (
                (metrics := broker.metrics()).get('ottla_worker_job_seconds_count{worker="sync"}') and metrics
            )
        )
        assert metrics['ottla_worker_job_seconds_sum{worker="sync"}'] > 0
        wait_for(lambda: broker.metrics()['ottla_worker_jobs{worker="sync"}'] == 0)
