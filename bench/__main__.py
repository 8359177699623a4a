"""`make bench` or `python -m bench [NAME …]`: measure and print each figure beside its reference.

`python -m bench profile NAME` prints where the time of a hot path goes.
"""

import sys
from collections.abc import Callable

from bench.charts import draw
from bench.commands import commands, queues, telemetry
from bench.delivery import delivery, outbox_to_poll
from bench.events import event_publishing, events, signing
from bench.fan_out import publishing as fan_out
from bench.footprint import agent, memory, start_up
from bench.operators import bulk, console_pages, consoles, fleet_list
from bench.peers import run as peers
from bench.polls import idle_poll, log_size, parked, redis_reads
from bench.profiles import profiles
from bench.tools.machine import machine
from bench.wire import first_contact, new_connections, tls

BENCHMARKS: dict[str, Callable[[], dict[str, float]]] = {
    "agent-footprint": agent.footprint,
    "idle-poll": idle_poll.against_nginx,
    "system-calls": idle_poll.system_calls,
    "fleet-size": idle_poll.by_fleet_size,
    "consoles": consoles.beside_consoles,
    "console-pages": console_pages.first_bytes,
    "new-connections": new_connections.against_nginx,
    "tls": tls.against_nginx,
    "first-polls": first_contact.first_polls,
    "restart": first_contact.restart,
    "parked-polls": parked.parked_polls,
    "memory": memory.memory,
    "log-size": log_size.reading_by_log_size,
    "redis-reads": redis_reads.reading_twenty,
    "redis-idle-poll": redis_reads.idle_poll,
    "fleet-list": fleet_list.pages,
    "bulk-config": bulk.bulk_config,
    "fan-out": fan_out.fan_out,
    "peers": peers.peers,
    "charts": draw.charts,
    "start-up": start_up.start_up,
    "outbox-to-poll": outbox_to_poll.outbox_to_poll,
    "latency": delivery.latency,
    "publishing": delivery.publishing,
    "command-pairs": commands.pairs_over_http,
    "command-claims": commands.claims_by_queue_length,
    "command-idle-poll": commands.idle_poll,
    "telemetry": telemetry.ingesting,
    "postgres-leases": queues.leases,
    "postgres-open-transaction": queues.beside_an_open_transaction,
    "signing": signing.signing,
    "events": events.fetched_over_http,
    "event-idle-poll": events.idle_poll,
    "event-publishing": event_publishing.publishing,
    "event-inbox-size": events.polls_by_inbox_size,
}


def main() -> None:
    if sys.argv[1:2] == ["profile"]:
        profiles.main(sys.argv[2:])
        return
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"unknown benchmarks: {', '.join(unknown)}; available: {', '.join(BENCHMARKS)}")
    print(machine())
    for name in names:
        print(f"\n{name}", flush=True)
        for label, value in BENCHMARKS[name]().items():
            print(f"  {label:<52} {value:,.3f}", flush=True)


if __name__ == "__main__":
    main()
