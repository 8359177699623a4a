"""The sections of the console, in the order of the menu, and who sees them."""

from dataclasses import dataclass

from restante.console.scopes import allowed_in
from restante.identity.callers import Person
from restante.identity.grants import Area, Role

ROOT = "/console"


@dataclass(frozen=True, slots=True)
class Section:
    """`area`: only people with a grant there see the section. `is_for_admins`: only people with the role admin
    somewhere; `is_for_all_admins`: only administrators of everything."""

    key: str
    title: str
    path: str
    area: Area | None = None
    is_for_admins: bool = False
    is_for_all_admins: bool = False

    def is_open_to(self, person: Person) -> bool:
        if self.is_for_all_admins:
            return person.grants.has_all
        if self.is_for_admins:
            return person.grants.role is Role.admin
        return self.area is None or allowed_in(person, self.area, Role.viewer) is not None


SECTIONS = (
    Section("overview", "Overview", ROOT),
    Section("devices", "Devices", f"{ROOT}/devices", Area.updates),
    Section("outbox", "Outbox", f"{ROOT}/outbox", Area.updates),
    Section("jobs", "Jobs", f"{ROOT}/jobs"),
    Section("rollouts", "Rollouts", f"{ROOT}/rollouts"),
    Section("people", "People", f"{ROOT}/people", is_for_admins=True),
    Section("keys", "API keys", f"{ROOT}/keys", is_for_admins=True),
    Section("settings", "Settings", f"{ROOT}/settings", is_for_all_admins=True),
)


def sections_for(person: Person) -> list[Section]:
    return [section for section in SECTIONS if section.is_open_to(person)]
