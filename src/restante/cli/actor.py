"""The name of the person at the command line in audit trails: `cli:<system user>`.

Two people on one machine are two actors only if they are two system users. The name identifies; it proves nothing, so
no command decides anything by it.
"""

import os
import pwd


def cli_actor() -> str:
    user_id = os.geteuid()
    try:
        return f"cli:{pwd.getpwuid(user_id).pw_name}"
    except KeyError:
        return f"cli:{user_id}"
