"""The texts of notices after an action: the page that follows it is opened with `?done=<code>`."""

DONE = {
    "signed-out": "You are signed out.",
    "device-revoked": "The device is revoked. Its tokens no longer work.",
    "config-stored": "The new version of the install config is stored. The device gets a signal.",
    "signal-sent": "The signal is in the outbox.",
    "certificate-assigned": "The certificate is assigned. The device gets a signal when its key is wrapped.",
    "certificate-unassigned": "The certificate is unassigned. The device gets a signal.",
    "authority-assigned": "The certificate authority is assigned. The device gets a signal.",
    "authority-unassigned": "The certificate authority is unassigned. The device gets a signal.",
    "group-saved": "The filter is saved.",
    "group-deleted": "The saved filter is deleted. The devices stay as they are.",
    "tag-added": "The tag is added.",
    "tag-removed": "The tag is removed.",
    "job-created": "The job is created. It runs on the server, and this page shows how far it is.",
    "job-paused": "The job is paused.",
    "job-resumed": "The job goes on.",
    "job-aborted": "The job is aborted. What it has done stays done.",
    "job-approved": "The job is approved and runs soon.",
    "job-denied": "The job is denied.",
    "rollout-created": "The rollout is created. Its first wave begins soon.",
    "rollout-changed": "The thresholds are changed. They count at once.",
    "rollout-paused": "The rollout is paused. What is handed out stays.",
    "rollout-resumed": "The rollout goes on.",
    "rollout-advanced": "The next wave begins.",
    "rollout-aborted": "The rollout is aborted. What it has done stays done.",
    "rollout-rolled-back": "The change is being undone.",
    "rollout-approved": "The rollout is approved. Its first wave begins soon.",
    "rollout-denied": "The rollout is denied.",
    "row-retried": "The row is pending again.",
    "rows-retried": "All failed rows are pending again.",
    "person-changed": "The grants are changed. They count at once.",
    "person-suspended": "The person is suspended. All their sessions have ended.",
    "person-resumed": "The person can sign in again.",
    "person-removed": "The person is removed.",
    "key-changed": "The grants of the key are changed. They count at once.",
    "key-suspended": "The key is suspended.",
    "key-resumed": "The key works again.",
    "key-revoked": "The key is revoked.",
}


def done_text(code: str | None) -> str | None:
    """The text of a notice; None if there is none with this code."""
    return None if code is None else DONE.get(code)
