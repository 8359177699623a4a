"""The configuration of the device agent: its reference is docs/agent-device.md, made from the descriptions here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Annotated, Literal, Optional

from msgspec import Meta

from restante_client.agent.config import AgentConfig, Section
from restante_client.agent.device.install.windows import parse_window

Mode = Annotated[str, Meta(pattern="^0?[0-7]{3}$")]
Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
AbsolutePath = Annotated[str, Meta(pattern=r"^/[^\x00]*$")]


class Apply(Section, frozen=True, kw_only=True):
    auto_apply: Annotated[
        Literal["on", "off", "window"],
        Meta(
            description="When a new install config is applied: `on`: at once; `window`: within `apply.windows`; "
            "`off`: when a person calls `restante-agent device apply`."
        ),
    ] = "on"
    windows: Annotated[
        list[str],
        Meta(description='Local times for `auto_apply = "window"`: `"02:00-04:00"`, `"Sat,Sun 22:00-06:00"`.'),
    ] = []
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=86_400, description="The time limit of a command whose item has no `timeout_ms`.")
    ] = 30.0
    search_path: Annotated[str, Meta(min_length=1, description="`PATH` of commands, and where they are searched.")] = (
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    )
    backups_kept: Annotated[
        int, Meta(ge=1, le=100, description="The number of runs whose backups of replaced files are kept.")
    ] = 3
    report_output: Annotated[
        bool,
        Meta(
            description="Whether the end of a failed command's output is reported to the server. It is always logged."
        ),
    ] = False


class Allow(Section, frozen=True, kw_only=True):
    paths: Annotated[
        list[AbsolutePath],
        Meta(
            description="Folders and files that items may write, with everything below. Symbolic links below a folder "
            "are not followed."
        ),
    ] = []
    sources: Annotated[
        list[AbsolutePath],
        Meta(
            description="Folders and files that `copy` items without an object may read. Relative paths in `from` are "
            "always read below `files/` of the state folder."
        ),
    ] = []
    commands: Annotated[
        list[str],
        Meta(
            description='Commands with arguments, word by word: `"systemctl reload nginx"`. In a word `*` stands for '
            "any characters, and a last word `**` for any further words."
        ),
    ] = []
    shell: Annotated[
        list[str],
        Meta(
            description="Shell commands (`cmd` as a text) that are allowed, exactly as items have them. `*` allows all."
        ),
    ] = []
    environment: Annotated[
        list[str], Meta(description="Names of environment variables that items may set. `*` stands for any characters.")
    ] = []
    users: Annotated[list[str], Meta(description="Users that commands may run as (`run_as`).")] = []
    after_update_scripts: Annotated[
        list[Sha256],
        Meta(description="SHA-256 of each `after_update_script` that may run. `restante-agent device show` prints it."),
    ] = []


class FileRule(Section, frozen=True, kw_only=True):
    path: str
    mode: Optional[Mode] = None
    owner: Optional[str] = None
    group: Optional[str] = None


class Trust(Section, frozen=True, kw_only=True):
    auto_import: Annotated[
        bool,
        Meta(
            description="Whether an authority is trusted as soon as the server assigns it (`ca.assigned`). Otherwise "
            "only an `import_ca` item does it."
        ),
    ] = True
    store: Annotated[
        Literal["auto", "debian", "rhel", "suse", "arch", "none"],
        Meta(description="The kind of the system's trust store. `auto` finds it by its folder."),
    ] = "auto"
    folder: Annotated[
        Optional[AbsolutePath], Meta(description="The folder of trusted authorities, instead of the store's.")
    ] = None
    update_command: Annotated[
        Optional[list[str]],
        Meta(description="The command that makes a change of the folder count, instead of the store's."),
    ] = None
    nss_profiles: Annotated[
        list[AbsolutePath],
        Meta(
            description="NSS databases that get the authorities too, with `*`: "
            '`"/home/*/.pki/nssdb"`, `"/home/*/.mozilla/firefox/*.default-release"`.'
        ),
    ] = []
    certutil: Annotated[str, Meta(min_length=1, description="The `certutil` program of NSS.")] = "certutil"
    timeout_seconds: Annotated[
        float, Meta(gt=0, le=3600, description="The time limit of the update command and of `certutil`.")
    ] = 60.0


class Certificates(Section, frozen=True, kw_only=True):
    pfx_password_file: Annotated[
        Optional[AbsolutePath],
        Meta(
            description="A file with the password of `bundle.pfx`. Without it the file has no password, and mode 0600."
        ),
    ] = None
    releases_kept: Annotated[
        int, Meta(ge=1, le=100, description="The number of releases kept in `resources/certs/ID/releases`.")
    ] = 2


class Handlers(Section, frozen=True, kw_only=True):
    folder: Annotated[
        Optional[AbsolutePath],
        Meta(description="A folder of executables named like the signal types that they handle: `shop.price`."),
    ] = None
    timeout_seconds: Annotated[float, Meta(gt=0, le=86_400, description="The time limit of a handler.")] = 60.0
    attempts_max: Annotated[
        int, Meta(ge=1, le=1000, description="After so many failures a signal is given up, and reported as failed.")
    ] = 10


class DeviceConfig(AgentConfig, frozen=True, kw_only=True):
    name: Annotated[
        Optional[str], Meta(description="The name of the device at its registration. Default: the host name.")
    ] = None
    model: Annotated[str, Meta(description="The model of the device at its registration.")] = ""
    files: Annotated[
        list[FileRule],
        Meta(
            description="Modes and owners of written files, by path with `*`; the first that matches counts: "
            '`[[files]]` `path = "/etc/nginx/*.key"` `mode = "0640"` `owner = "root"` `group = "www-data"`.'
        ),
    ] = []
    apply: Annotated[Apply, Meta(description="When and how.")] = Apply()
    allow: Annotated[Allow, Meta(description="What is allowed. Everything else is refused.")] = Allow()
    trust: Annotated[Trust, Meta(description="The trust stores.")] = Trust()
    certificates: Annotated[Certificates, Meta(description="The staged certificates.")] = Certificates()
    handlers: Annotated[Handlers, Meta(description="Handlers for signals of your own types.")] = Handlers()

    def problems(self) -> Iterator[tuple[str, str]]:
        for number, window in enumerate(self.apply.windows):
            if parse_window(window) is None:
                yield f"apply.windows[{number}]", f'times like "02:00-04:00" or "Sat,Sun 22:00-06:00", not {window!r}'
        if self.apply.auto_apply == "window" and not self.apply.windows:
            yield "apply.windows", 'at least one, since apply.auto_apply is "window"'
        for field, paths in (("allow.paths", self.allow.paths), ("allow.sources", self.allow.sources)):
            for number, path in enumerate(paths):
                if ".." in path.split("/"):
                    yield f"{field}[{number}]", "a path without .."
        for number, command in enumerate(self.allow.commands):
            if not _words(command):
                yield f"allow.commands[{number}]", f"words, with quotes in pairs, not {command!r}"
        if self.trust.update_command == []:
            yield "trust.update_command", "a command and its arguments"


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return []
