import re
from pathlib import Path

from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log.signals import Signal
from restante.updates import signal_types

PAGE = Path(__file__).parents[2] / "docs" / "device-updates.md"


def test_every_signal_type_is_documented() -> None:
    documented = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \|", PAGE.read_text(), re.MULTILINE)
    declared = [value for name, value in vars(signal_types).items() if name.isupper() and isinstance(value, str)]
    assert sorted(documented) == sorted(declared)


def test_aliases_are_left_out_and_all_other_signals_are_sent_in_order(database: Database) -> None:
    sent: list[tuple[int, str]] = []

    def emit(_conn: Connection, device_id: int, signal: Signal) -> None:
        sent.append((device_id, signal.type))

    def send_all(conn: Connection) -> None:
        for type in ("cert.wrap_ready", "cert.updated", "cert.revoked", "cert.unassigned", "ca.unassigned"):
            signal_types.without_aliases(emit)(conn, 7, Signal(type, 1, {}))

    database.write_now(send_all)
    assert sent == [(7, "cert.wrap_ready"), (7, "cert.revoked"), (7, "ca.unassigned")]
