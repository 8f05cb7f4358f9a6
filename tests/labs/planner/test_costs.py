"""What a run costs: hours, money, energy, carbon dioxide."""

import pytest

from labs.planner import costs, throughput
from labs.planner.hardware import accelerator
from labs.planner.layouts import trained


def test_the_published_account_of_bloom_comes_out() -> None:
    """Luccioni et al. 2022: 1,082,990 GPU hours of 400 W at 57 g a kWh are 433,196 kWh and 24.7 t."""
    kwh = costs.energy_kwh(hours=1_082_990, watts=400)
    assert kwh == pytest.approx(433_196)
    assert costs.co2_kg(kwh=kwh, grid=57) == pytest.approx(24_700, rel=1e-3)


def test_the_account_is_the_product_of_its_parts() -> None:
    place = costs.Place(price=2.0, pue=1.25, grid=100)
    found = costs.costs(gpus=16, days=10, watts=500, place=place)
    assert found.hours == 16 * 240
    assert found.money == 2 * found.hours
    assert found.energy_kwh == pytest.approx(found.hours / 2)
    assert found.site_kwh == pytest.approx(found.hours / 2 * 1.25)
    assert found.co2_kg == pytest.approx(found.hours / 2 * 1.25 / 10)
    assert found.as_json()["money"] == found.money


def test_what_is_not_known_is_not_made_up() -> None:
    found = costs.costs(gpus=16, days=10, watts=None, place=costs.Place())
    assert (found.money, found.energy_kwh, found.site_kwh, found.co2_kg) == (None, None, None, None)
    assert costs.costs(gpus=1, days=1, watts=400, place=costs.Place()).co2_kg is None


def test_tokens_a_day_and_days_are_each_others_inverse() -> None:
    run = trained("bloom-176b")
    found = throughput.throughput(run.plan, gpu=accelerator("a100-80"), tokens=366e9, price=1.0)
    assert found.days is not None
    assert found.tokens_a_day * found.days == pytest.approx(366e9)
    assert found.gpu_hours == pytest.approx(found.cost)
    assert found.co2_kg is None
    halved = costs.tokens_a_day(sequences=8, length=64, seconds=2.0, goodput=0.5)
    assert halved == pytest.approx(8 * 64 / 2 * 86400 / 2)
