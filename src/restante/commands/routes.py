"""Every route for operators of edge commands, in one list. What collectors call is listed beside it, in `parts`.

Looking needs the role viewer; making and cancelling commands operator; approving and denying approver; sites, zones,
collectors and miners admin.
"""

from restante.commands.audit import AuditTrail
from restante.commands.collectors import SecretBox
from restante.commands.creation import CreationOptions
from restante.commands.routes_admin_audit import AdminAuditRoutes
from restante.commands.routes_admin_collectors import AdminCollectorRoutes
from restante.commands.routes_admin_commands import AdminCommandRoutes
from restante.commands.routes_admin_sites import AdminSiteRoutes
from restante.database.database import Database
from restante.web.routes import Route


def admin_routes(
    database: Database,
    trail: AuditTrail,
    box: SecretBox,
    options: CreationOptions,
    *,
    secret_overlap_seconds: int,
) -> list[Route]:
    collectors = AdminCollectorRoutes(database, trail, box, secret_overlap_seconds=secret_overlap_seconds)
    return [
        *AdminSiteRoutes(database, trail).routes(),
        *collectors.routes(),
        *AdminCommandRoutes(database, trail, options).routes(),
        *AdminAuditRoutes(database, trail).routes(),
    ]
