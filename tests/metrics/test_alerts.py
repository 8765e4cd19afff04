"""The alert rules: promtool accepts them, each fires on what it is about alone, each says what to do."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.metrics.rules import ALERTS, OPS, rules
from tests.support import prometheus
from typer.testing import CliRunner

from ottla.cli.app import app

MINUTES = 45
BROKER = 'job="ottla",instance="1"'


def steady(value: float) -> str:
    return f"{value}x{MINUTES}"


def rising(step: float) -> str:
    return f"0+{step}x{MINUTES}"


# What a broker shows that is well; then, for each alert, what is different when it should fire.
WELL = {
    f"up{{{BROKER}}}": steady(1),
    f"ottla_ready{{{BROKER}}}": steady(1),
    f"ottla_keeper_connected{{{BROKER}}}": steady(1),
    f"kafka_controller_kafkacontroller_activecontrollercount{{{BROKER}}}": steady(1),
    f"kafka_controller_kafkacontroller_offlinepartitionscount{{{BROKER}}}": steady(0),
    f"kafka_controller_controllerstats_uncleanleaderelections_total{{{BROKER}}}": steady(3),
    f"kafka_server_replicamanager_underminisrpartitioncount{{{BROKER}}}": steady(0),
    f"kafka_server_replicamanager_underreplicatedpartitions{{{BROKER}}}": steady(0),
    f"kafka_server_replicamanager_isrshrinks_total{{{BROKER}}}": rising(0.1),
    f"kafka_server_replicamanager_isrexpands_total{{{BROKER}}}": rising(0.1),
    f"kafka_server_replicamanager_partitionswithlatetransactionscount{{{BROKER}}}": steady(0),
    f"kafka_log_logmanager_offlinelogdirectorycount{{{BROKER}}}": steady(0),
    f'kafka_log_logcleanermanager_uncleanable_partitions_count{{{BROKER},logDirectory="d"}}': steady(0),
    f"ottla_log_flush_seconds_sum{{{BROKER}}}": rising(0.5),
    f"ottla_log_flush_seconds_count{{{BROKER}}}": rising(60),
    f'ottla_stall_seconds_total{{{BROKER},cause="Fetch"}}': rising(0.6),
    f"process_open_fds{{{BROKER}}}": steady(100),
    f"process_max_fds{{{BROKER}}}": steady(1024),
    f'ottla_log_directory_free_bytes{{{BROKER},logDirectory="d"}}': steady(5e9),
    f'ottla_log_directory_size_bytes{{{BROKER},logDirectory="d"}}': steady(1e10),
    f'kafka_network_requestmetrics_errors_total{{{BROKER},request="Produce",error="KAFKA_STORAGE_ERROR"}}': (
        steady(7)
    ),
    f'kafka_network_requestmetrics_errors_total{{{BROKER},request="Fetch",error="OFFSET_OUT_OF_RANGE"}}': (
        rising(9)
    ),
    f'kafka_consumergroup_lag_sum{{{BROKER},consumergroup="g",topic="t"}}': (f"90000-1000x{MINUTES}"),
    f'kafka_consumergroup_lag_sum{{{BROKER},consumergroup="small",topic="t"}}': rising(10),
    f'kafka_server_socket_server_metrics_failed_authentication_total{{{BROKER},listener="L"}}': rising(10),
    f'ottla_unserved_requests_total{{{BROKER},request="X",version="99"}}': steady(3),
    # A client that is newer than the broker asks in its own version first, and learns which to use (KIP-511).
    f'ottla_unserved_requests_total{{{BROKER},request="ApiVersions",version="99"}}': rising(10),
}
WRONG: dict[str, dict[str, str]] = {
    "OttlaBrokerDown": {"up": steady(0)},
    "OttlaBrokerNotReady": {"ottla_ready": steady(0)},
    "OttlaOfflinePartitions": {"kafka_controller_kafkacontroller_offlinepartitionscount": steady(2)},
    "OttlaNoController": {"kafka_controller_kafkacontroller_activecontrollercount": steady(0)},
    "OttlaSeveralControllers": {"kafka_controller_kafkacontroller_activecontrollercount": steady(2)},
    "OttlaUncleanElection": {
        "kafka_controller_controllerstats_uncleanleaderelections_total": f"3x{MINUTES - 5} 4x5"
    },
    "OttlaUnderMinIsr": {"kafka_server_replicamanager_underminisrpartitioncount": steady(1)},
    "OttlaUnderReplicated": {"kafka_server_replicamanager_underreplicatedpartitions": steady(1)},
    "OttlaIsrFlaps": {
        "kafka_server_replicamanager_isrshrinks_total": rising(2),
        "kafka_server_replicamanager_isrexpands_total": rising(2),
    },
    "OttlaLogDirectoryOffline": {"kafka_log_logmanager_offlinelogdirectorycount": steady(1)},
    "OttlaKeeperLost": {"ottla_keeper_connected": steady(0)},
    "OttlaSlowDisk": {"ottla_log_flush_seconds_sum": rising(60)},
    "OttlaStalls": {"ottla_stall_seconds_total": rising(6)},
    "OttlaFewDescriptors": {"process_open_fds": steady(1000)},
    "OttlaDiskFills": {"ottla_log_directory_free_bytes": f"5e9-1e8x{MINUTES}"},
    "OttlaCleanerStuck": {"kafka_log_logcleanermanager_uncleanable_partitions_count": steady(1)},
    "OttlaInternalErrors": {"kafka_network_requestmetrics_errors_total": rising(1)},
    "OttlaGroupFallsBehind": {"kafka_consumergroup_lag_sum": rising(1000)},
    "OttlaLateTransactions": {"kafka_server_replicamanager_partitionswithlatetransactionscount": steady(1)},
    "OttlaAuthenticationFailures": {
        "kafka_server_socket_server_metrics_failed_authentication_total": rising(120)
    },
    "OttlaRefusedRequests": {"ottla_unserved_requests_total": rising(1)},
}


def firing(tmp_path: Path, alerts: list[str], changed: dict[str, str]) -> str:
    """What promtool says against exactly these alerts firing in the end."""
    series = [
        {"series": name, "values": changed.get(name.partition("{")[0], values)}
        for name, values in WELL.items()
    ]
    expected = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in alerts]
    query = 'group by (alertname) (ALERTS{alertstate="firing"})'
    case = {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": query, "eval_time": f"{MINUTES}m", "exp_samples": expected}],
    }
    path = tmp_path / "case.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [case]}))
    said = prometheus.promtool("test", "rules", str(path))
    return "" if said.returncode == 0 else said.stdout + said.stderr


def test_promtool_accepts_the_rules_and_the_example_of_a_configuration() -> None:
    for words in (("rules", str(ALERTS)), ("config", str(OPS / "prometheus" / "prometheus.yml"))):
        said = prometheus.promtool("check", *words)
        assert said.returncode == 0, said.stdout + said.stderr


def test_no_alert_fires_while_all_is_well(tmp_path: Path) -> None:
    assert firing(tmp_path, [], {}) == ""


@pytest.mark.parametrize("alert", WRONG)
def test_an_alert_fires_on_what_it_is_about_and_no_other_does(alert: str, tmp_path: Path) -> None:
    assert firing(tmp_path, [alert], WRONG[alert]) == ""


def test_every_alert_is_tried_and_says_what_it_means_and_what_to_do() -> None:
    assert {rule["alert"] for rule in rules()} == set(WRONG)
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert set(rule["annotations"]) == {"summary", "runbook"}
        assert all(len(text) > 20 for text in rule["annotations"].values())


def test_the_commands_that_runbooks_name_exist() -> None:
    named = [
        command
        for rule in rules()
        for command in re.findall(r"`ottla ([^`]+)`", rule["annotations"]["runbook"])
    ]
    assert len(named) > 4
    for command in named:
        words = shlex.split(re.sub(r"\{\{.*?\}\}", "x", command))
        path = [word for word in words[:2] if re.fullmatch(r"[a-z-]+", word) and word != "x"]
        shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
        assert shown.exit_code == 0, command
        for option in (word for word in words if word.startswith("--")):
            assert option in shown.output, command
