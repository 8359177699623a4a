"""Records the heads of all chains in the main chain, stores the head of that, and anchors it. Runs as a service.

    every interval: heads changed? ─▶ row in chain 0 ─▶ data folder: audit.head ─▶ anchor, if one is due

If the database does not have the remembered row any more, the trail was set back: the recorder says so in the log and
in a metric, and keeps the file, so that `restante audit verify` says so too. Only an operator removes the file.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from restante.commands.audit import chain_heads
from restante.commands.audit.audit_trail import ROOT_CHAIN, AuditTrail
from restante.commands.audit.chain_heads import Heads
from restante.commands.audit.signed_heads import AnchorFailed, AnchorTarget, RememberedHead, SignedHead
from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsOptions:
    """`folder`: where the head of the main chain is stored."""

    interval_seconds: int
    folder: Path
    anchor: AnchorTarget | None
    anchor_seconds: int


class HeadsRecorder:
    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        options: HeadsOptions,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._trail = trail
        self._options = options
        self._monotonic = monotonic
        self.remembered = RememberedHead(options.folder, trail.mac)
        self.is_set_back = False
        self.anchored_count = 0
        self.failed_anchors_count = 0
        self._known: Heads = {}
        self._own_row: int | None = None
        self._written: SignedHead | None = None
        self._anchor_due = 0.0

    async def run(self) -> None:
        while True:
            await self.try_once()
            await asyncio.sleep(self._options.interval_seconds)

    async def try_once(self) -> None:
        """Record once. What cannot be written now is written in the next round."""
        try:
            await self.run_once()
        except (DatabaseError, OSError) as error:
            log.error("heads of the audit trail not recorded", error=str(error))

    async def run_once(self) -> None:
        if await self._database.read(self._has_changed):
            recent_ms = self._options.interval_seconds * 500
            self._known, self._own_row = await self._database.write(
                chain_heads.record_heads, self._trail, self._known, recent_ms, self._own_row
            )
        # Read after the commit: the stored head is certainly in the database.
        head = await self._database.read(signed_head)
        if head is None:
            return
        self._trail.refuse_below({chain: known.n for chain, known in self._known.items()} | {ROOT_CHAIN: head.n})
        await self._remember(head)
        await self._anchor(head)

    async def record_all(self) -> SignedHead | None:
        """Record the heads of all chains now, and return the head of the main chain."""
        if await self._database.read(chain_heads.read_heads, self._trail):
            await self._database.write(chain_heads.record_heads, self._trail, {})
        head = await self._database.read(signed_head)
        if head is not None:
            await self._remember(head)
        return head

    def _has_changed(self, conn: Connection) -> bool:
        return chain_heads.read_heads(conn, self._trail) != self._known

    async def _remember(self, head: SignedHead) -> None:
        self.is_set_back = not await self._database.read(is_remembered, self.remembered)
        if self.is_set_back:
            log.error(
                "the audit trail was set back: it lacks the row that this server has stored",
                file=str(self.remembered.path),
                advice="if you restored a backup, remove this file",
            )
        elif head != self._written:
            await asyncio.to_thread(self.remembered.write, head)
            self._written = head

    async def _anchor(self, head: SignedHead) -> None:
        target = self._options.anchor
        if target is None or self.is_set_back or self._monotonic() < self._anchor_due:
            return
        try:
            await asyncio.to_thread(target.send, head)
        except AnchorFailed as error:
            self.failed_anchors_count += 1
            log.error("head of the audit trail not anchored", target=str(target), error=str(error))
            return
        self.anchored_count += 1
        self._anchor_due = self._monotonic() + self._options.anchor_seconds


def signed_head(conn: Connection) -> SignedHead | None:
    found = chain_heads.root_checkpoint(conn)
    return None if found is None else SignedHead.of(*found)


def is_remembered(conn: Connection, remembered: RememberedHead) -> bool:
    """Whether the trail still has the remembered row, if there is one. A file that was changed proves nothing: it is
    replaced."""
    try:
        checkpoint = remembered.read()
    except BadInput as error:
        log.warning("stored head of the audit trail ignored", error=str(error))
        return True
    return checkpoint is None or chain_heads.has_row(conn, checkpoint)
