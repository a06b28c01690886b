from __future__ import annotations

import pytest

from air_sim import Switches
from air_sim._switches import parse_bytes, table, variable
from air_sim.errors import UnknownSwitch

pytestmark = pytest.mark.npu


def test_a_size_may_have_a_unit() -> None:
    assert [parse_bytes(text) for text in ("512", "64k", "3MiB", "2g", "1TiB")] == [
        512,
        65536,
        3 << 20,
        2 << 30,
        1 << 40,
    ]


@pytest.mark.parametrize("text", ["", "12x", "-1", "1.5g"])
def test_a_bad_size_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UnknownSwitch, match="64MiB"):
        parse_bytes(text)


def test_an_unknown_switch_names_the_nearest() -> None:
    with pytest.raises(UnknownSwitch, match="did you mean 'devices'"):
        Switches.of({"device": 2})


def test_a_value_of_the_wrong_type_is_refused_with_the_variable() -> None:
    with pytest.raises(UnknownSwitch, match=r"AIR_SIM_DEVICES.*int"):
        Switches.of({"devices": "two"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("devices", 0), ("devices", True), ("devices", 1.5), ("devices", "1e3"),
        ("streams", -1), ("delay_us", -5), ("delay_us", 10**12), ("replay_threads", 0),
        ("op_compiler_delay_s", float("nan")), ("op_compiler_delay_s", "inf"), ("install_delay_s", -0.5),
        ("memory", "0"), ("memory", "99999999999t"), ("cann", "../../x"), ("cann", ""),
    ],
)  # fmt: skip
def test_nonsense_is_refused_with_the_switch_and_its_variable(name: str, value: object) -> None:
    with pytest.raises(UnknownSwitch, match=variable(name)):
        Switches.of({name: value})


@pytest.mark.parametrize(
    "fault", ["oom", "oom@0", "panic@3", "stream_limit@3", "aclrtMemcpy", "aclrtMemcpy@0", "acl@3"]
)
def test_an_unknown_fault_is_refused(fault: str) -> None:
    with pytest.raises(UnknownSwitch, match="is not known"):
        Switches.of({"fault": fault})


def test_the_environment_gives_what_the_call_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIR_SIM_DEVICES", "4")
    monkeypatch.setenv("AIR_SIM_SOC", "Ascend910B4")
    chosen = Switches.of({"devices": 2})
    assert (chosen.devices, chosen.soc) == (2, "Ascend910B4")


def test_switches_survive_the_way_to_a_child_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Switches(devices=3, memory="5GiB", noop=True, fault="oom@2,stream_limit=7", seed=9, sticky=False)
    for name, value in before.environment().items():
        monkeypatch.setenv(name, value)
    after = Switches.of({})
    assert after.environment() == before.environment()
    assert parse_bytes(after.memory) == 5 << 30


def test_every_switch_has_a_variable_and_a_meaning() -> None:
    rows = table()
    assert [row[1] for row in rows] == [variable(row[0]) for row in rows]
    assert all(row[3] for row in rows)
