"""A receiver: every event is stored before it is acknowledged, and arrives in its table once and in order."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from restante.server.data_folder import DATABASE_NAME
from tests.faults.clients.campaign import ClientCampaign, Plan


class ReceiverCampaign(ClientCampaign):
    flags = ("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000")

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder, plan)
        self._table = folder / "events.db"
        self._client_id = ""
        self._jtis: list[str] = []

    def prepare(self) -> list[str]:
        made = self.post(
            "/admin/clients",
            name="shop",
            token_endpoint_auth_method="client_secret_basic",
            set_signing_alg="ES256",
            scope="eventpolling",
        )
        self._client_id = made["client_id"]
        (self.folder / "secret").write_text(made["client_secret"])
        config = self.folder / "receiver.toml"
        config.write_text(
            f'server = "{self.url}"\nstate = "{self.folder / "state"}"\nclient_id = "{self._client_id}"\n'
            f'authentication = "client_secret_basic"\nsecret_file = "{self.folder}/secret"\n'
            f'[sink]\nkind = "sqlite"\nfile = "{self._table}"\n'
        )
        return ["receiver", "run", "--config", str(config)]

    def send(self, number: int) -> None:
        events = {"urn:example:payment": {"number": number}}
        made = self.post(
            "/admin/events", client_id=self._client_id, sub=f"https://bank.example/{number}", events=events
        )
        self._jtis.append(made["jti"])

    def done_count(self) -> int:
        return len(self.delivered())

    def is_all_done(self) -> bool:
        """Everything that the server still has is delivered and acknowledged."""
        return self.acknowledged() == set(self._jtis)

    def delivered(self) -> list[str]:
        return self._rows(self._table, "SELECT jti FROM events ORDER BY rowid")

    def stored(self) -> set[str]:
        return set(self._rows(self.folder / "state" / "state.db", "SELECT jti FROM events"))

    def acknowledged(self) -> set[str]:
        database = self.prepared.data / DATABASE_NAME
        return set(self._rows(database, "SELECT jti FROM event_inbox WHERE status = 'acknowledged'"))

    def look_at_dead_client(self) -> None:
        # First what the server has: a request in flight may acknowledge more meanwhile, of what is stored.
        for jti in sorted(self.acknowledged() - self.stored()):
            self.found.add("not_stored", f"{jti} is acknowledged and not stored")

    def summary(self) -> str:
        return f"{len(self.acknowledged())} events acknowledged, {len(self.delivered())} delivered"

    def check(self) -> None:
        self.look_at_dead_client()
        # What was stored when the client was killed is delivered by its next start: deliver it here the same way.
        delivered = self.delivered()
        for jti in self._jtis:
            if jti not in delivered and jti not in self.stored():
                self.found.add("lost", f"{jti} was never delivered")
        if delivered != [jti for jti in self._jtis if jti in set(delivered)]:
            self.found.add("out_of_order", str(delivered))

    @staticmethod
    def _rows(file: Path, query: str) -> list[Any]:
        if not file.exists():
            return []
        with closing(sqlite3.connect(file, timeout=30)) as database:
            try:
                return [row[0] for row in database.execute(query)]
            except sqlite3.OperationalError as error:
                # The client has created the file and not yet the table.
                if "no such table" in str(error):
                    return []
                raise
