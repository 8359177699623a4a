"""The page of a command: attempts with leases and signatures, steps in words, snapshots; and the inbox of approvals."""

import re

from tests.console.console_server import ConsoleServer
from tests.console.sample_data import add_sample


def text_of(page: str, part: str) -> str:
    """The text of the part with this id, without tags."""
    found = re.search(rf'id="{part}".*?</section>', page, re.S)
    assert found, part
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[0]))


def test_command_shows_its_attempts_steps_and_snapshots(server: ConsoleServer) -> None:
    sample = add_sample(server, device_count=2)
    with server.client("site") as client:
        page = client.get(sample.paths["command"]).text
    attempts = text_of(page, "command-attempts")
    assert re.search(r"1 collector \d+ .* succeeded .* not signed OK", attempts), attempts
    life = text_of(page, "command-life")
    for words in ("Created by ada@example.com", "Fetched by collector", "Reported as succeeded by collector"):
        assert words in life
    assert '<tr class="diff-removed">' in page
    assert "&#34;power_mode&#34;: &#34;LOW&#34;" in page


def test_jobs_and_rollouts_wait_in_the_inbox_beside_commands(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    with server.client("approver") as approver:
        page = approver.get("/console/approvals").text
        assert f'aria-label="Approve {edge.approval_id}"' in page
        assert f"/console/jobs/{edge.held_job_id}" in page
        assert f"/console/rollouts/{edge.held_rollout_id}" in page
    with server.client("bank") as bank:
        page = bank.get("/console/approvals").text
        assert edge.approval_id not in page
        assert edge.held_job_id not in page
