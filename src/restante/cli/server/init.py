"""`restante init`: create a data folder with a database, and the first user and API key if wanted.

Only this command and `restante serve` create a data folder. It refuses a folder that has a database with users: the
server adds further ones.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.database import load_settings, open_database_for
from restante.cli.fleet.users import PasswordFromStdin, new_password
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import print_result
from restante.cli.remote.arguments import RoleOption
from restante.core.errors import Conflict
from restante.database.connection import Connection
from restante.identity import api_keys, signing_keys
from restante.identity.grants import Grants, Role
from restante.identity.people import passwords, users
from restante.identity.signing_keys import unlock
from restante.server.data_folder import DataFolder
from restante.server.engines import master_key_source

ACTOR = "init"


def init(
    user: Annotated[str | None, typer.Option("--user", metavar="EMAIL", help="Also add the first user.")] = None,
    role: RoleOption = None,
    password_stdin: PasswordFromStdin = False,
    key: Annotated[str | None, typer.Option("--key", metavar="NAME", help="Also make an API key, role admin.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Create a data folder, and the first user.

    The folder gets a database and a master key. The first user, if one is given, is an admin by default.
    """
    settings = load_settings(data)
    folder = DataFolder(settings.data)
    if settings.database is None:
        folder.refuse_if_running()
    if user is not None:
        user = users.checked_email(user)
    password_hash = None if user is None else passwords.hash_password(new_password(password_stdin))
    with open_database_for(settings, create=True) as database:
        master = unlock(database, master_key_source(settings))
        if not database.read_now(signing_keys.list_verifying):
            # With a key under the master key, the database recognises the master key from now on.
            database.write_now(signing_keys.rotate, signing_keys.make(master), 0)
        grants = Grants.everywhere(Role[role] if role else Role.admin)
        made = database.write_now(_first, user, password_hash, grants, key)
    print_result({"data": str(folder.path), **made}, _text(folder.path, made), json)


def _first(conn: Connection, user: str | None, password_hash: str | None, grants: Grants, key: str | None) -> Any:
    made: dict[str, Any] = {}
    if (user or key) and (users.list_all(conn) or api_keys.list_all(conn)):
        raise Conflict("there are users or keys already: start the server, then use `restante user create`")
    if user is not None and password_hash is not None:
        user_id = users.add(conn, user, password_hash, grants, ACTOR)
        made["user"] = {"id": user_id, "email": user, "role": grants.role.name}
    if key is not None:
        key_id, token = api_keys.create(conn, key, Grants.everywhere(Role.admin), None, None, ACTOR)
        made["key"] = {"id": key_id, "name": key, "token": token}
    return made


def _text(path: Path, made: Any) -> str:
    lines = [f"The data folder is {path}."]
    if "user" in made:
        lines.append(f"Added {made['user']['email']} as {made['user']['role']}, user {made['user']['id']}.")
    if "key" in made:
        lines.append(f"API key {made['key']['id']}, shown this once:\n{made['key']['token']}")
    return "\n".join(lines)
