"""A receiver that prints event tokens as JSON lines. Usage: python receiver.py URL CLIENT_ID STATE_FOLDER

The environment has the client's secret: CLIENT_SECRET. In production use `PrivateKeyJwt` or `TlsCertificate`.
"""

import json
import os
import sys
from pathlib import Path

from restante_client import BlockingEventReceiver, ClientSecret, Event


def show(event: Event) -> None:
    print(json.dumps(event.claims), flush=True)


if __name__ == "__main__":
    credentials = ClientSecret(sys.argv[2], os.environ["CLIENT_SECRET"])
    with BlockingEventReceiver(sys.argv[1], credentials, Path(sys.argv[3])) as receiver:
        receiver.run(show)
