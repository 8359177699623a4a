"""A collector that prints commands instead of carrying them out. Usage: python collector.py URL STATE_FOLDER

The environment has the collector's token and secret: COLLECTOR_TOKEN and COLLECTOR_SECRET.
"""

import os
import sys
from pathlib import Path

from restante_client import BlockingCollectorClient, CollectorOptions, Command, Result


def execute(command: Command) -> Result:
    print(command.command_type, command.target_ids, command.params, flush=True)
    return Result(message="printed")


if __name__ == "__main__":
    options = CollectorOptions(secrets=[os.environ["COLLECTOR_SECRET"]])
    with BlockingCollectorClient(sys.argv[1], os.environ["COLLECTOR_TOKEN"], Path(sys.argv[2]), options) as collector:
        collector.run(execute)
