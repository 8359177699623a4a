"""Creates goosebit's database with so many registered devices. Runs in goosebit's environment. Argument: the number."""

import asyncio
import sys

from goosebit.db.config import TORTOISE_CONF
from goosebit.db.models import Device, Hardware, UpdateStateEnum
from tortoise import Tortoise


async def main() -> None:
    await Tortoise.init(config=TORTOISE_CONF)
    await Tortoise.generate_schemas()
    try:
        hardware = await Hardware.create(model="default", revision="default")
        devices = [
            Device(id=f"device-{number}", hardware=hardware, last_state=UpdateStateEnum.REGISTERED)
            for number in range(1, int(sys.argv[1]) + 1)
        ]
        await Device.bulk_create(devices, batch_size=1000)
    finally:
        # An open connection keeps the process alive.
        await Tortoise.close_connections()


asyncio.run(main())
