"""Which commits have changed each site's queue, as far as this node knows.

With this the node decides whether a claim that ran on another node saw every change: that claim is then as good as one
that this node would run now. A claim has a horizon: every transaction with a lower id had ended when the claim began,
or could not change what the claim had locked. The claim saw every change if its horizon is above every commit of the
site that this node has received since it connected, and not below the floor, which is above all commits before that.

Invariant: while this node is disconnected from the others, no claim of theirs counts. Nodes that do not share a
database exchange no commit ids, so no claim of another node ever counts there.

Runs in the event loop's thread only. Does no I/O.
"""

from restante.commands.polling.site_waiters import SITES_MAX


class QueueVersions:
    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        # Every transaction with a lower id had ended before this node was connected.
        self._floor: int | None = None

    @property
    def are_known(self) -> bool:
        return self._floor is not None

    def changed(self, site_id: int, commit_id: int) -> None:
        """The commit with this id has changed the site's queue."""
        if commit_id <= self._newest.get(site_id, -1):
            return
        if len(self._newest) >= SITES_MAX and site_id not in self._newest:
            if self._floor is not None:
                self._floor = max(self._floor, 1 + max(self._newest.values()))
            self._newest.clear()
        self._newest[site_id] = commit_id

    def forget_all(self) -> None:
        """Commits of other nodes may be missed from now on."""
        self._floor = None

    def set_floor(self, commit_id: int) -> None:
        """Every commit made so far has a lower id. Called after every scan of the node bus, so the first call after a
        reconnect sets a safe floor."""
        if self._floor is None:
            self._floor = commit_id

    def were_seen(self, site_id: int, horizon: int) -> bool:
        """Whether a claim with this horizon saw every change of the site that this node knows of."""
        return self._floor is not None and horizon >= self._floor and horizon > self._newest.get(site_id, -1)
