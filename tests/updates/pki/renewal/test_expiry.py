import pytest

from restante.identity.grants import ALL_IDS, AllowedIds
from restante.updates.pki import authorities, certificates
from restante.updates.pki.renewal import expiry
from tests.conftest import START_MS, ManualClock
from tests.updates.updates_fixture import DeviceFleet, UpdatesApi

DAY = 86_400


def issued(fleet: DeviceFleet, *days: int) -> list[int]:
    account = fleet.add_account(fleet.add_authority().id)
    ids = [fleet.add_certificate(account.id, f"d{each}.example").id for each in days]
    for cert_id, each in zip(ids, days, strict=True):
        fleet.issue(cert_id, each * DAY)
    return ids


async def names(api: UpdatesApi, query: str = "", path: str = "/apiv1/certificates") -> list[str]:
    response = await api.call("GET", f"{path}?{query}")
    assert response.status_code == 200, response.text
    return [each.get("domain_name") or each["name"] for each in response.json()["data"]["items"]]


async def test_certificates_are_listed_by_their_end(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ids = issued(fleet, 30, 10, 20)
    fleet.add_certificate()
    assert await names(api) == ["d10.example", "d20.example", "d30.example"]
    response = await api.call("GET", "/apiv1/certificates?limit=1")
    [first] = response.json()["data"]["items"]
    assert (first["certificate_id"], first["user_id"], first["auto_renew"]) == (ids[1], fleet.user_id, True)
    assert (first["not_after"], first["renewal_failures"]) == ("2027-01-25T08:00:00.000Z", 0)
    assert first["renews_at"] == "2027-01-21T22:24:00.000Z"
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, ids[1])
    assert await names(api) == ["d20.example", "d30.example"]


async def test_pages_follow_each_other_also_for_equal_ends(api: UpdatesApi, fleet: DeviceFleet) -> None:
    issued(fleet, 10, 10, 10, 20)
    found, after = [], ""
    while True:
        page = (await api.call("GET", f"/apiv1/certificates?limit=2{after}")).json()["data"]
        found += [each["certificate_id"] for each in page["items"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert len(found) == len(set(found)) == 4


async def test_filters_narrow_the_list(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ids = issued(fleet, 10, 20, 30)
    limit = "2027-01-30T00:00:00Z"
    assert await names(api, f"expiring={limit}") == ["d10.example"]
    assert await names(api, "expiring=99999d") == ["d10.example", "d20.example", "d30.example"]
    assert await names(api, "name=d2") == ["d20.example"]
    assert await names(api, f"user_id={fleet.user_id + 1000}") == []
    fleet.database.write_now(certificates.set_auto_renew, fleet.user_id, ids[2], False, 66)
    assert await names(api, "renewal=off") == ["d30.example"]
    assert await names(api, "renewal=on") == ["d10.example", "d20.example"]
    fleet.query("UPDATE cert_records SET renewal_failures = 2 WHERE id = :id", id=ids[1])
    assert await names(api, "renewal=failed") == ["d20.example"]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("expiring=soon", "expiring"),
        ("renewal=maybe", "renewal"),
        ("after=x", "after"),
        ("expiry=1d", "expiry"),
        ("user_id=0", "user_id"),
        ("limit=0", "limit"),
        ("name=", "name"),
        ("after=99999999999999999999", "after"),
    ],
)
async def test_malformed_filter_is_refused(api: UpdatesApi, query: str, field: str) -> None:
    response = await api.call("GET", f"/apiv1/certificates?{query}")
    assert response.status_code == 400
    assert field in response.json()["error"]["what"]


async def test_authorities_are_listed_by_their_end(api: UpdatesApi, fleet: DeviceFleet) -> None:
    for name, days in (("late", 200), ("soon", 20), ("gone", 10)):
        ca = fleet.add_authority(name=name, valid_days=days)
    fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca.id)
    assert await names(api, path="/apiv1/cas") == ["soon", "late"]
    assert await names(api, "expiring=2027-03-01T00:00:00Z", "/apiv1/cas") == ["soon"]


def test_caller_sees_and_counts_certificates_of_its_users_only(fleet: DeviceFleet, clock: ManualClock) -> None:
    ids = issued(fleet, 5, 10)
    fleet.database.write_now(certificates.set_auto_renew, fleet.user_id, ids[0], False, 66)
    fleet.query("UPDATE cert_records SET renewal_failures = 1 WHERE id = :id", id=ids[1])
    end = START_MS + 20 * DAY * 1000
    counted = fleet.database.read_now(expiry.counts, end, START_MS + 4000 * DAY * 1000, ALL_IDS)
    assert (counted.failed_renewals, counted.certificates, counted.authorities) == (1, 1, 1)
    none = fleet.database.read_now(expiry.counts, end, end, AllowedIds(frozenset([fleet.user_id + 1000])))
    assert (none.failed_renewals, none.certificates, none.authorities) == (0, 0, 0)
