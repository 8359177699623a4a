"""The sections of the console, in the order of the menu, and who sees them."""

from dataclasses import dataclass

from restante.console.scopes import allowed_in
from restante.identity.callers import Person
from restante.identity.grants import Area, Role

ROOT = "/console"


@dataclass(frozen=True, slots=True)
class Section:
    """`area`: only people with a grant there see the section. `is_for_admins`: only people with the role admin
    somewhere; `is_for_all_admins`: only administrators of everything; `is_for_whole_area`: only people whose grant
    includes the whole area."""

    key: str
    title: str
    path: str
    area: Area | None = None
    is_for_admins: bool = False
    is_for_all_admins: bool = False
    is_for_whole_area: bool = False

    def is_open_to(self, person: Person) -> bool:
        if self.is_for_all_admins:
            return person.grants.has_all
        if self.is_for_admins:
            return person.grants.role is Role.admin
        if self.area is None:
            return True
        allowed = allowed_in(person, self.area, Role.viewer)
        return allowed is not None and (allowed.are_all or not self.is_for_whole_area)


SECTIONS = (
    Section("overview", "Overview", ROOT),
    Section("devices", "Devices", f"{ROOT}/devices", Area.updates),
    Section("certificates", "Certificates", f"{ROOT}/certificates", Area.updates),
    Section("outbox", "Outbox", f"{ROOT}/outbox", Area.updates),
    Section("sites", "Sites", f"{ROOT}/sites", Area.commands),
    Section("commands", "Commands", f"{ROOT}/commands", Area.commands),
    Section("approvals", "Approvals", f"{ROOT}/approvals", Area.commands),
    Section("clients", "Clients", f"{ROOT}/clients", Area.events),
    Section("events", "Events", f"{ROOT}/events", Area.events),
    Section("event-keys", "Signing keys", f"{ROOT}/event-keys", Area.events, is_for_whole_area=True),
    Section("audit", "Audit", f"{ROOT}/audit", Area.commands),
    Section("jobs", "Jobs", f"{ROOT}/jobs"),
    Section("rollouts", "Rollouts", f"{ROOT}/rollouts"),
    Section("people", "People", f"{ROOT}/people", is_for_admins=True),
    Section("keys", "API keys", f"{ROOT}/keys", is_for_admins=True),
    Section("settings", "Settings", f"{ROOT}/settings", is_for_all_admins=True),
)


def sections_for(person: Person) -> list[Section]:
    return [section for section in SECTIONS if section.is_open_to(person)]
