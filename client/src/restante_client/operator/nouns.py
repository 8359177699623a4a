"""The nouns of the operator API as attributes of a client, for asyncio and for blocking programs.

Generated from the server's routes by `scripts/generate-operator-client`; do not edit.
"""

from __future__ import annotations

from restante_client.operator.access_api import BlockingKeys, BlockingPeople, BlockingUserKeys, Keys, People, UserKeys
from restante_client.operator.commands_api import Audit, BlockingAudit, BlockingCommands, Commands
from restante_client.operator.core import Api
from restante_client.operator.edge_api import (
    BlockingCollectors,
    BlockingMiners,
    BlockingSites,
    BlockingZones,
    Collectors,
    Miners,
    Sites,
    Zones,
)
from restante_client.operator.events_api import (
    BlockingClients,
    BlockingEventKeys,
    BlockingEvents,
    BlockingStreams,
    Clients,
    EventKeys,
    Events,
    Streams,
)
from restante_client.operator.fleet_api import (
    BlockingConfigs,
    BlockingDevices,
    BlockingGroups,
    BlockingJobs,
    BlockingOutbox,
    BlockingPollBoost,
    BlockingRollouts,
    BlockingSignals,
    Configs,
    Devices,
    Groups,
    Jobs,
    Outbox,
    PollBoost,
    Rollouts,
    Signals,
)
from restante_client.operator.pki_api import (
    Accounts,
    Authorities,
    BlockingAccounts,
    BlockingAuthorities,
    BlockingCertificates,
    Certificates,
)
from restante_client.operator.rules_api import (
    BlockingRules,
    BlockingSafetyEvents,
    BlockingTelemetry,
    Rules,
    SafetyEvents,
    Telemetry,
)


class Nouns:
    def __init__(self, api: Api) -> None:
        self.devices = Devices(api)
        self.configs = Configs(api)
        self.signals = Signals(api)
        self.outbox = Outbox(api)
        self.groups = Groups(api)
        self.jobs = Jobs(api)
        self.rollouts = Rollouts(api)
        self.poll_boost = PollBoost(api)
        self.certificates = Certificates(api)
        self.authorities = Authorities(api)
        self.accounts = Accounts(api)
        self.people = People(api)
        self.keys = Keys(api)
        self.user_keys = UserKeys(api)
        self.sites = Sites(api)
        self.zones = Zones(api)
        self.miners = Miners(api)
        self.collectors = Collectors(api)
        self.commands = Commands(api)
        self.audit = Audit(api)
        self.rules = Rules(api)
        self.telemetry = Telemetry(api)
        self.safety_events = SafetyEvents(api)
        self.clients = Clients(api)
        self.events = Events(api)
        self.event_keys = EventKeys(api)
        self.streams = Streams(api)


class BlockingNouns:
    def __init__(self, nouns: Nouns) -> None:
        self.devices = BlockingDevices(nouns.devices)
        self.configs = BlockingConfigs(nouns.configs)
        self.signals = BlockingSignals(nouns.signals)
        self.outbox = BlockingOutbox(nouns.outbox)
        self.groups = BlockingGroups(nouns.groups)
        self.jobs = BlockingJobs(nouns.jobs)
        self.rollouts = BlockingRollouts(nouns.rollouts)
        self.poll_boost = BlockingPollBoost(nouns.poll_boost)
        self.certificates = BlockingCertificates(nouns.certificates)
        self.authorities = BlockingAuthorities(nouns.authorities)
        self.accounts = BlockingAccounts(nouns.accounts)
        self.people = BlockingPeople(nouns.people)
        self.keys = BlockingKeys(nouns.keys)
        self.user_keys = BlockingUserKeys(nouns.user_keys)
        self.sites = BlockingSites(nouns.sites)
        self.zones = BlockingZones(nouns.zones)
        self.miners = BlockingMiners(nouns.miners)
        self.collectors = BlockingCollectors(nouns.collectors)
        self.commands = BlockingCommands(nouns.commands)
        self.audit = BlockingAudit(nouns.audit)
        self.rules = BlockingRules(nouns.rules)
        self.telemetry = BlockingTelemetry(nouns.telemetry)
        self.safety_events = BlockingSafetyEvents(nouns.safety_events)
        self.clients = BlockingClients(nouns.clients)
        self.events = BlockingEvents(nouns.events)
        self.event_keys = BlockingEventKeys(nouns.event_keys)
        self.streams = BlockingStreams(nouns.streams)
