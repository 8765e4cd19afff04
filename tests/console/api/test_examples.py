"""The commands for scripts in docs/console.md are run as they stand, against a console that runs."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ottla import Broker

PAGE = (Path(__file__).parents[3] / "docs" / "console.md").read_text()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
def test_the_commands_of_the_page_work_one_after_the_other(broker: Broker) -> None:
    section = PAGE.partition("\n## The same for scripts\n")[2].partition("\n## ")[0]
    commands = section.partition("```bash\n")[2].partition("```")[0].splitlines()
    assert len(commands) == 8
    shown = []
    with broker.console() as console:
        address = urlsplit(console.url)
        environment = {"CONSOLE": f"http://{address.netloc}", "TOKEN": address.fragment}
        for command in commands:
            done = subprocess.run(
                ["bash", "-c", command],
                capture_output=True,
                text=True,
                timeout=60,
                env={"PATH": "/usr/bin:/bin"} | environment,
            )
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            shown.append(json.loads(done.stdout or "null"))
    document, _, created, sent, read, changed, groups, deleted = shown
    assert document["openapi"] == "3.1.0"
    assert created == {"name": "orders", "created": True}
    (place,) = sent["records"]
    (record,) = read["records"]
    assert (record["key"], record["value"], record["offset"]) == ("a", {"id": 7}, place["offset"])
    assert [change["after"] for change in changed["changes"]] == ["3600000"]
    assert "groups" in groups
    assert deleted is None
