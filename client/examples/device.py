"""A device that prints its signals. Usage: python device.py URL STATE_FOLDER

At the first start it prints an address and a code: open the address, sign in and approve the code.
"""

import asyncio
import sys
from pathlib import Path

from restante_client import DeviceClient, DeviceCode, DeviceDescription, DeviceOptions
from restante_client.errors import CursorExpired


def show(code: DeviceCode) -> None:
    print(f"Open {code.verification_uri} and enter {code.user_code}", flush=True)


def fetch_everything(expired: CursorExpired) -> None:
    print(f"resync: {expired.reason}", flush=True)


async def main(url: str, folder: Path) -> None:
    options = DeviceOptions(resync=fetch_everything)
    async with DeviceClient(url, folder, options) as device:
        if not device.is_enrolled:
            await device.enrol(show, DeviceDescription(name="example"))
        device.expect(3600)  # for an hour signals arrive at once, by long polls
        async for signal in device.updates():
            print(signal.type, signal.ref, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
