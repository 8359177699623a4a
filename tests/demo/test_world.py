"""The world of the demo: realistic, of the wanted size, and the same for the same seed."""

from collections import Counter

from restante.demo.world import World


def test_same_seed_makes_the_same_world() -> None:
    assert World.make(7, 199, 60) == World.make(7, 199, 60)


def test_other_seed_makes_other_ids() -> None:
    ids = [{device.public_id for device in World.make(seed, 199, 60).devices} for seed in (1, 2)]
    assert ids[0].isdisjoint(ids[1])


def test_world_has_the_wanted_size_and_unique_names() -> None:
    world = World.make(1, 999, 61)
    assert len({device.name for device in world.devices}) == 999
    assert [len(site.miner_ids) for site in world.sites] == [21, 20, 20]
    assert len({miner for site in world.sites for miner in site.miner_ids}) == 61


def test_old_card_readers_are_at_tills_outside_the_pilot_shops() -> None:
    devices = World.make(1, 199, 60).devices
    old = [device for device in devices if device.has_old_reader]
    assert {device.kind for device in old} == {"till"}
    assert not any("pilot" in device.tags for device in old)
    tills = Counter(device.kind for device in devices)["till"]
    assert len(old) / tills > 0.1


def test_smallest_world_has_pilots_and_old_card_readers() -> None:
    devices = World.make(1, 31, 6).devices
    assert any("pilot" in device.tags for device in devices)
    assert any(device.has_old_reader for device in devices)
