"""Leases and ACKs without the server: by direct calls of the database layer, and behind the barest protocol.

The bare protocol shows what two requests cost on this event loop whatever a server does with them: it cuts the token
and the id out of the bytes, makes the same calls, and writes a response of the usual size. It checks nothing, signs
nothing, and is for this benchmark only.

    python -m bench.commands.direct_pairs FOLDER PORT      FOLDER has the data folder `data` and the file `tokens`
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from restante.commands.acks import acks
from restante.commands.acks.ack_schema import AckBody, parse_ack
from restante.commands.acks.acks import AckOptions, AckRequest
from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimOptions, ClaimRequest
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.sites.collectors import SecretBox
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.database.writer.batching import Failed
from restante.identity.callers import CollectorCaller
from restante.identity.clients import collector_tokens
from restante.identity.master_key import MasterKeySource
from restante.server.data_folder import DataFolder
from restante.server.lifecycle import collect_garbage_rarely

DATA, TOKENS = "data", "tokens"
NO_LIMIT = RateRules({}, RateLimit(1_000_000, 60))
_BEARER, _POST = b"Bearer ", b"POST /api/edge/v1/commands/"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
# The rest of the body of a usual response with one command, and the body of a response to an ACK.
_OTHER_FIELDS = b"x" * 420
_ACKNOWLEDGED = _HEAD % (60, b"x" * 60)


class PairCalls:
    """The operations of the server on a database, so that calls are batched as there."""

    def __init__(self, folder: DataFolder, tokens: list[str]) -> None:
        self.database = Database(SqliteEngine(folder.database_path))
        master_key = MasterKeySource(folder.master_key_path, None).make()
        trail, box = AuditTrail(master_key.derive_key(KEY_PURPOSE)), SecretBox(master_key)
        claim_options = ClaimOptions(60, NO_LIMIT, is_signed=True, is_one_lease_per_miner=True)
        ack_options = AckOptions(box, is_nonce_required=False, is_signature_required=False)
        self.callers: dict[str, Any] = {token: self.database.read_now(collector_tokens.find, token) for token in tokens}
        self.ack = parse_ack(AckBody(status="succeeded", result_code=0), b"{}")
        self.claims = claims.claim_operation(trail, claim_options)
        self.acks = acks.ack_operation(trail, ack_options)


class DirectPairs:
    """The claims and ACKs of all collectors together, as calls of the database layer."""

    def __init__(self, calls: PairCalls) -> None:
        self._calls = calls

    def per_second(self, pairs: int) -> float:
        count = len(self._calls.callers)
        started = time.perf_counter()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._all_collectors(pairs // count))
        return pairs // count * count / (time.perf_counter() - started)

    async def _all_collectors(self, pairs: int) -> None:
        await asyncio.gather(*(self._collector(caller, pairs) for caller in self._calls.callers.values()))

    async def _collector(self, caller: Any, pairs: int) -> None:
        calls = self._calls
        run = calls.database.run_batched
        for _ in range(pairs):
            claimed = await run(calls.claims, ClaimRequest(caller, None, 1))
            result = await run(calls.acks, AckRequest(caller, claimed.commands[0].command_id, calls.ack))
            assert isinstance(result, acks.AckResult), result

    def close(self) -> None:
        self._calls.database.close()


class _BareProtocol(asyncio.Protocol):
    __slots__ = ("_callers", "_calls", "_transport")

    def __init__(self, calls: PairCalls, callers: dict[bytes, CollectorCaller]) -> None:
        self._calls = calls
        self._callers = callers

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        calls = self._calls
        begin = data.index(_BEARER) + len(_BEARER)
        caller = self._callers[data[begin : data.index(b"\r", begin)]]
        if data.startswith(_POST):
            command_id = data[len(_POST) : data.index(b"/ack")].decode()
            calls.database.submit_batched(calls.acks, AckRequest(caller, command_id, calls.ack), self._acknowledged)
        else:
            calls.database.submit_batched(calls.claims, ClaimRequest(caller, None, 1), self._claimed)

    def _claimed(self, outcome: Any) -> None:
        if isinstance(outcome, Failed) or not outcome.commands:
            # The load generator ends with an error.
            self._respond(_HEAD % (2, b"{}"))
            return
        command = outcome.commands[0]
        fields = command.command_id.encode(), _OTHER_FIELDS, command.nonce.encode()
        body = b'{"command_id":"%b","other":"%b","nonce":"%b"}' % fields
        self._respond(_HEAD % (len(body), body))

    def _acknowledged(self, outcome: Any) -> None:
        assert isinstance(outcome, acks.AckResult), outcome
        self._respond(_ACKNOWLEDGED)

    def _respond(self, response: bytes) -> None:
        # The connections of a round end while some requests have no response yet.
        if not self._transport.is_closing():
            self._transport.write(response)


async def _serve(calls: PairCalls, port: int) -> None:
    callers = {token.encode(): caller for token, caller in calls.callers.items()}
    server = await asyncio.get_running_loop().create_server(lambda: _BareProtocol(calls, callers), "127.0.0.1", port)
    await server.serve_forever()


def main(folder: Path, port: int) -> None:
    collect_garbage_rarely()
    calls = PairCalls(DataFolder(folder / DATA), (folder / TOKENS).read_text().split())
    uvloop.run(_serve(calls, port))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
