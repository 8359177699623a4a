"""`python -m bench peers`: the same work by Restante and by other servers, in the same minutes on the same cores.

servers.py          starts each server, pinned to the server's core
fastapi_redis.py    the service that one would write by hand; runs in its own environment (environments.py)
polls.py            idle polls and woken long polls
leases.py           lease and acknowledgement
scaling.py          the idle poll by number of devices, connections and workers
run.py              runs all of it and writes bench/results/peers.json, which `python -m bench charts` draws
"""
