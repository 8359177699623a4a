"""The settings of schemathesis for this API, and the operations whose rules JSON Schema cannot express.

Everything else must hold for every operation: what the document allows is accepted, what it forbids is refused, and
every response is as described.
"""

from typing import Any

# Operations that refuse some requests that fit their schema, below the rule that JSON Schema cannot express, or not
# without a schema for each value of another field.
RULES_BEYOND_SCHEMA = [
    # tls_client_auth_subject_dn: grammar of RFC 4514; token_endpoint_auth_method decides the other fields
    "POST /admin/clients",
    # the method of the stored client decides which credential it takes
    "POST /admin/clients/{client_id}/rotate",
    # either client_id or all_subscribers; each event type has members of its own
    "POST /admin/events",
    # result and message: the same text; executed_at: ISO 8601 from 1970 on
    "POST /api/collector/commands/{command_id}/result",
    # record_count: the number of records; site_id: the site of the token
    "POST /api/collector/upload",
    "POST /api/edge/v1/telemetry/batch",
    "POST /api/edge/v1/telemetry/ingest",
    # email: an address; scopes: their grammar
    "POST /apiv1/people",
    # since: lines that are signed
    "POST /api/edge/v1/admin/audit/verify",
    # since, until: not before 1970; event: the name of an event
    "GET /api/edge/v1/admin/audit",
    *(
        f"GET {path}{part}"
        for path in (
            "/admin/clients",
            "/admin/events",
            "/api/edge/v1/admin/commands",
            "/api/edge/v1/admin/devices",
            "/api/edge/v1/admin/safety-events",
            "/apiv1/outbox",
        )
        for part in ("", "/counts", "/export")
    ),
    # name: no NUL
    "GET /api/edge/v1/admin/miners",
    "GET /api/edge/v1/admin/miners/counts",
    "GET /api/edge/v1/admin/miners/export",
    # command_type decides the parameters; ids must exist; commands excludes all other fields
    "POST /api/edge/v1/admin/commands",
    # a filter or all: true, not both; the action decides its params; ids must exist
    "POST /api/edge/v1/admin/commands/bulk",
    "POST /api/edge/v1/admin/miners/bulk",
    "POST /admin/events/bulk",
    "POST /apiv1/devices/bulk",
    # the target decides the actions and the fields of the filter; waves: one field each, rising percentages
    "POST /apiv1/rollouts",
    # at least one field
    "PATCH /apiv1/rollouts/{rollout_id}",
    "POST /apiv1/outbox/bulk",
    # site_id, zone_id: must exist and belong together
    "POST /api/edge/v1/admin/devices",
    "POST /api/edge/v1/admin/miners",
    "PATCH /api/edge/v1/admin/miners/{miner_id}",
    # name: printable, without spaces around it
    "POST /api/edge/v1/admin/miners/{miner_id}/replace",
    "PATCH /api/edge/v1/admin/sites/{site_id}",
    "PATCH /api/edge/v1/admin/zones/{zone_id}",
    # trigger_type decides which other fields it has; ids must exist
    "POST /api/edge/v1/admin/rules",
    # trigger_type of the stored rule decides which other fields it has
    "PATCH /api/edge/v1/admin/rules/{rule_id}",
    # site_id: the site of the rule; trigger_type decides which other fields it has
    "PUT /api/edge/v1/admin/rules/{rule_id}",
    # command_types: names or aliases of command types
    "PUT /api/edge/v1/admin/approval-policy",
    # name: printable, without spaces around it
    "POST /api/edge/v1/admin/sites",
    # site_id: must exist; name: printable, without spaces around it
    "POST /api/edge/v1/admin/zones",
    # executed_at: ISO 8601 from 1970 on; before and before_snapshot, after and after_snapshot: alike
    "POST /api/edge/v1/commands/{command_id}/ack",
    # registration_code: required without a session and a refresh_token; dev_pk: not of low order
    "POST /apiv1/device/registration",
    # No such rule: the coverage phase ignores the pattern of a header and sends If-None-Match: 0
    "GET /apiv1/devices/self/updates",
    # group: must exist; after: the `next` of a page; times: RFC 3339 or a duration
    "GET /apiv1/devices",
    "GET /apiv1/devices/counts",
    "GET /apiv1/devices/export",
    # expiring: RFC 3339 or a duration; after: the `next` of a page
    "GET /apiv1/certificates",
    "GET /apiv1/cas",
    # filter: at least one field, without group; config_version and times as in the query; user_id: must exist
    "POST /apiv1/groups",
    "PUT /apiv1/groups/{group_id}",
    # name: printable characters
    "POST /apiv1/keys",
    # leaf_key_algorithm decides between leaf_rsa_bits and leaf_ec_curve; ca_id: must exist
    "POST /apiv1/users/{user_id}/acme-accounts",
    # algorithm decides key_size and curve_name; key_usage: a list in one text
    "POST /apiv1/users/{user_id}/cas",
    # PEM of a certificate and its key
    "POST /apiv1/users/{user_id}/cas/import",
    # acct_id: must exist
    "POST /apiv1/users/{user_id}/certificates",
    # PEM of a certificate, its chain and its key
    "POST /apiv1/users/{user_id}/certificates/import",
    # the certificate must have an account (422)
    "POST /apiv1/users/{user_id}/certificates/{certificate_id}/issues",
    # user_id: the user of the path; dev_pk: not of low order
    "POST /apiv1/users/{user_id}/devices",
    # the type of an item decides its other fields; ids must exist
    "PUT /apiv1/users/{user_id}/devices/{device_id}/install-config",
    # type: printable; ref: bytes of JSON
    "POST /apiv1/users/{user_id}/devices/{device_id}/signals",
    # action decides which other fields are required
    "POST /auth/device",
    # CallbackUrl: a public https address, looked up in the DNS; EventTypes: a URN has a namespace, an https URI a
    # host
    "POST /event-subscriptions",
    "POST /open-banking/v3.1/event-subscriptions",
    "POST /open-banking/v4.0/event-subscriptions",
    # EventSubscriptionId: the id in the path; CallbackUrl and EventTypes as in POST
    "PUT /event-subscriptions/{event_subscription_id}",
    "PUT /open-banking/v3.1/event-subscriptions/{event_subscription_id}",
    "PUT /open-banking/v4.0/event-subscriptions/{event_subscription_id}",
    # delivery.method decides its other members; iss, aud and others: only the current value
    "PATCH /ssf/streams",
    "PUT /ssf/streams",
    # delivery.method decides its other members; endpoint_url: a public https address
    "POST /ssf/streams",
    # subject: its format decides its other members
    "POST /ssf/subjects:add",
    "POST /ssf/subjects:remove",
    # exactly one method of client authentication
    "POST /token",
]
# 422 and not 400: the state of a stored resource, or an Idempotency-Key of another request.
UNPROCESSABLE = [
    "POST /admin/events",
    "POST /admin/events/bulk",
    "POST /api/edge/v1/admin/commands",
    "POST /api/edge/v1/admin/commands/bulk",
    "POST /api/edge/v1/admin/miners/bulk",
    "POST /apiv1/devices/bulk",
    "POST /apiv1/outbox/bulk",
    "POST /apiv1/rollouts",
    "POST /apiv1/users/{user_id}/certificates/{certificate_id}/issues",
]
# Batches: an invalid record is counted in the response, and the valid ones are stored.
BATCHES = [
    "POST /api/collector/upload",
    "POST /api/edge/v1/events/safety/batch",
    "POST /api/edge/v1/telemetry/batch",
    "POST /api/edge/v1/telemetry/ingest",
]
# Long polls answer at once here.
LONG_POLLS = ["GET /api/edge/v1/commands/poll", "GET /apiv1/devices/self/updates"]

# These could take away the access of the admin that calls the others; they have tests of their own.
LOCKS_OUT = [
    "PUT /apiv1/keys/{key_id}/grants",
    "POST /apiv1/keys/{key_id}/suspend",
    "DELETE /apiv1/keys/{key_id}",
]

_ACCEPTED = ["2xx", "3xx", "401", "403", "404", "409", "429"]
# 413: an array with too many items.
_REFUSED = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "429"]


def config_toml() -> str:
    only_400 = [name for name in RULES_BEYOND_SCHEMA if name not in UNPROCESSABLE]
    parts = [
        "[checks]",
        f"negative_data_rejection.expected-statuses = {_toml(_REFUSED)}",
        "",
        "[phases.coverage]",
        'unexpected-methods = ["PATCH"]',
        *_operation(only_400, "positive_data_acceptance", [*_ACCEPTED, "400"]),
        *_operation(UNPROCESSABLE, "positive_data_acceptance", [*_ACCEPTED, "400", "422"]),
        *_operation(BATCHES, "negative_data_rejection", ["200", "207", *_REFUSED]),
        *_names(LONG_POLLS),
        "parameters = { wait = 0 }",
        *_names(LOCKS_OUT),
        "enabled = false",
    ]
    return "\n".join(parts)


def _operation(names: list[str], check: str, statuses: list[str]) -> list[str]:
    return [*_names(names), f"checks.{check}.expected-statuses = {_toml(statuses)}"]


def _names(names: list[str]) -> list[str]:
    return ["", "[[operations]]", f"include-name = {_toml(names)}"]


def _toml(values: list[Any]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"
