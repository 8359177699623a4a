"""Check the pages of the agents: their examples run unchanged, and their tables are those of the code."""

import re
from pathlib import Path

import pytest
from restante_client.agent.collector.cgminer import DIALECTS, OPERATIONS
from restante_client.agent.collector.inventory import MinerEntry
from restante_client.agent.collector.program import CollectorConfig
from restante_client.agent.config import Section, markdown
from restante_client.agent.receiver.program import ReceiverConfig

from tests.documented import DOCS, REPOSITORY, check_examples

COLLECTOR_PAGE = DOCS / "agent-collector.md"
RECEIVER_PAGE = DOCS / "agent-receiver.md"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "flags"),
    [(COLLECTOR_PAGE, ("--enable-command-signature",)), (RECEIVER_PAGE, ())],
    ids=["collector", "receiver"],
)
def test_examples_produce_the_documented_output(page: Path, flags: tuple[str, ...], tmp_path: Path) -> None:
    check_examples(tmp_path, page, [], *flags)


@pytest.mark.parametrize(
    ("page", "name", "kind"),
    [
        (COLLECTOR_PAGE, "configuration", CollectorConfig),
        (COLLECTOR_PAGE, "inventory", MinerEntry),
        (RECEIVER_PAGE, "configuration", ReceiverConfig),
    ],
)
def test_table_of_fields_is_that_of_the_code(page: Path, name: str, kind: type[Section]) -> None:
    """`restante-agent collector config` and `restante-agent receiver config` print the tables of configurations."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", page.read_text(), re.DOTALL)
    assert found is not None
    assert found.group(1) == markdown(kind)


def test_every_operation_of_every_dialect_is_documented() -> None:
    text = COLLECTOR_PAGE.read_text()
    for operation in OPERATIONS:
        spellings = [f"`{dialect[operation]}`".replace("|", "\\|") for dialect in DIALECTS.values()]
        assert " | ".join([f"| `{operation}`", *spellings]) + " |" in text


def test_every_result_code_is_documented() -> None:
    folder = REPOSITORY / "client" / "src" / "restante_client" / "agent" / "collector"
    source = "".join(path.read_text() for path in folder.glob("*.py"))
    found = re.findall(r'(?:code = |Result\(\w+, |Outcome\(\w+, \w+, )"([A-Z_]+)"', source)
    codes = set(found) | {"SIGNATURE_INVALID"}
    assert {"MINER_UNREACHABLE", "NOT_IN_INVENTORY", "WRONG_PARAMETER", "LEASE_ENDED"} <= codes
    assert [code for code in sorted(codes) if f"`{code}`" not in COLLECTOR_PAGE.read_text()] == []
