"""The one screen in the terminal that says what to look at."""

from pathlib import Path

from restante.demo.operators import Operators
from restante.demo.setup import Made
from restante.demo.world import World


def screen(url: str, link: str, operators: Operators, world: World, made: Made, rollout: str, folder: Path) -> str:
    console = f"{url}/console"
    miners = sum(len(site.miner_ids) for site in world.sites)
    late = f"{console}/devices?overdue=true"
    lines = [
        f"Restante demo: {len(world.devices) + 1} devices, {len(world.sites)} sites with {miners} miners, "
        f"{len(world.clients)} event clients.",
        "",
        f"  Signed in, once, within ten minutes   {link}",
        f"  Console                               {console}",
        f"  Folder                                {folder}",
        "",
        f"Sign in as another person, password {operators.password}:",
        *(f"  {person.email:<22} {_grants(person.grants):<20} {person.does}" for person in world.people),
        "",
        "Look at",
        f"  1  what needs attention              {console}",
        f"  2  a rollout that pauses itself      {console}/rollouts/{rollout}",
        "     (in about a minute: old card readers report failures; resume it, or roll it back)",
        f"  3  a command that waits, and why     {console}/commands/{made.waiting_command}",
        f"  4  the approval inbox, as {world.people[3].email}  {console}/approvals",
        f"  5  miners, rules, safety events      {console}/sites/{made.site_ids[world.sites[0].name]}",
        f"  6  devices that are late (in 2 min)  {late}",
        f"  7  a client that is slow, one that sends errors  {console}/clients",
        f"  8  a signal for an unknown device    {console}/outbox?status=FAILED",
        "",
        "Ctrl-C ends everything and removes the folder.",
    ]
    return "\n".join(lines)


def _grants(grants: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{role}@{scope}" for role, scope in grants)
