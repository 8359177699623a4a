"""Up to which commit this node has heard of changes of sites' queues; so, whether a look by another node saw them all.

A look tells its horizon: every transaction with a lower number was over when it began, or could not change what it
looked at, which it had locked. A look whose horizon lies beyond every change that this node has heard of since it is in
touch, and beyond all there was when it came in touch, is as good as one of its own at this moment.

Must always hold: while nothing is known of what others commit, no look of theirs counts. Where nodes do not share a
database nobody tells numbers, and no look ever counts. Runs in the event loop's thread only; knows nothing of I/O.
"""

from restante.commands.site_bell import SITES_MAX


class SiteChanges:
    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        # Every transaction with a lower number was committed, or not, before this node was in touch.
        self._floor: int | None = None

    @property
    def are_known(self) -> bool:
        return self._floor is not None

    def changed(self, site_id: int, commit_id: int) -> None:
        """A commit with this number has changed the site's queue."""
        if commit_id <= self._newest.get(site_id, -1):
            return
        if len(self._newest) >= SITES_MAX and site_id not in self._newest:
            if self._floor is not None:
                self._floor = max(self._floor, 1 + max(self._newest.values()))
            self._newest.clear()
        self._newest[site_id] = commit_id

    def lost_touch(self) -> None:
        """Anything may have been changed by what was committed until now."""
        self._floor = None

    def told_number(self, commit_id: int) -> None:
        """What was committed before this was read has a lower number. Told again and again, by whoever would also tell
        that touch is lost, so that what comes after that was read after it."""
        if self._floor is None:
            self._floor = commit_id

    def were_seen(self, site_id: int, horizon: int) -> bool:
        """Whether a look with this horizon saw every change of the site that this node knows of."""
        return self._floor is not None and horizon >= self._floor and horizon > self._newest.get(site_id, -1)
