"""The device agent: installs what the server says, as far as the device's owner allows it.

    signal ──▶ task or own signal on disk ──▶ cursor on disk
                        │
                        ▼ worker, with retries
    fetch ──▶ staging (resources/) ──▶ consent ──▶ apply: copy, exec, import_ca ──▶ result and report on disk ──▶ notify
                                                     └─ failed: roll back ─┘

Invariants:
- A signal's cursor is stored after the signal's task is on disk. A task ends in the transaction that stores its result.
- Every change of a file is in the journal, with a backup, before it is made. A run that was interrupted is rolled back
  and made again.
- Nothing outside the allow-lists is read, written or executed. A config is checked as a whole before its first step.
"""
