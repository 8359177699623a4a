"""The sections of the console, in the order of the menu, and who sees them."""

from dataclasses import dataclass

from restante.console.scopes import allowed_in
from restante.identity.callers import Person
from restante.identity.grants import Area, Role

ROOT = "/console"


@dataclass(frozen=True, slots=True)
class Section:
    """`area`: only people with a grant there, or in one of several, see the section. `is_for_admins`: only people with
    the role admin somewhere; `is_for_all_admins`: only administrators of everything; `is_for_whole_area`: only people
    whose grant includes the whole area."""

    key: str
    title: str
    path: str
    area: Area | tuple[Area, ...] | None = None
    is_for_admins: bool = False
    is_for_all_admins: bool = False
    is_for_whole_area: bool = False
    # A line separates the groups.
    group: str = ""

    def is_open_to(self, person: Person) -> bool:
        if self.is_for_all_admins:
            return person.grants.has_all
        if self.is_for_admins:
            return person.grants.role is Role.admin
        if self.area is None:
            return True
        areas = self.area if isinstance(self.area, tuple) else (self.area,)
        allowed = [found for area in areas if (found := allowed_in(person, area, Role.viewer)) is not None]
        return any(each.are_all or not self.is_for_whole_area for each in allowed)


DEVICES, SITES, EVENTS, WORK, SERVER = "devices", "sites", "events", "work", "server"
SECTIONS = (
    Section("overview", "Overview", ROOT),
    Section("devices", "Devices", f"{ROOT}/devices", Area.updates, group=DEVICES),
    Section("certificates", "Certificates", f"{ROOT}/certificates", Area.updates, group=DEVICES),
    Section("outbox", "Outbox", f"{ROOT}/outbox", Area.updates, group=DEVICES),
    Section("sites", "Sites", f"{ROOT}/sites", Area.commands, group=SITES),
    Section("commands", "Commands", f"{ROOT}/commands", Area.commands, group=SITES),
    Section("clients", "Clients", f"{ROOT}/clients", Area.events, group=EVENTS),
    Section("events", "Events", f"{ROOT}/events", Area.events, group=EVENTS),
    Section("event-keys", "Signing keys", f"{ROOT}/event-keys", Area.events, is_for_whole_area=True, group=EVENTS),
    Section("approvals", "Approvals", f"{ROOT}/approvals", group=WORK),
    Section("jobs", "Jobs", f"{ROOT}/jobs", group=WORK),
    Section("rollouts", "Rollouts", f"{ROOT}/rollouts", group=WORK),
    Section("audit", "Audit", f"{ROOT}/audit", (Area.commands, Area.events), group=WORK),
    Section("people", "People", f"{ROOT}/people", is_for_admins=True, group=SERVER),
    Section("keys", "API keys", f"{ROOT}/keys", is_for_admins=True, group=SERVER),
    Section("settings", "Settings", f"{ROOT}/settings", is_for_all_admins=True, group=SERVER),
)


def sections_for(person: Person) -> list[Section]:
    return [section for section in SECTIONS if section.is_open_to(person)]
