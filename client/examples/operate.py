"""Prints the sites of a server and their commands that still wait, and why.

Usage: RESTANTE_API_KEY=rk_… python operate.py URL
"""

import os
import sys

from restante_client import BlockingOperatorClient


def main(url: str, key: str) -> None:
    with BlockingOperatorClient(url, key) as client:
        for site in client.sites.list():
            print(f"site {site['id']}: {site['name']}")
            for command in client.commands.list(site_id=site["id"], status="pending"):
                why = client.commands.why(command["command_id"])
                print(f"  {command['command_type']} {command['command_id']}: {why['sentence']}")


if __name__ == "__main__":
    main(sys.argv[1], os.environ["RESTANTE_API_KEY"])
