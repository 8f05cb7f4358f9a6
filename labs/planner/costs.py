"""What a run costs beyond its days: accelerator hours, money, energy, and the carbon dioxide of that energy.

No property of a model or layout is in here but the days. The rest are assumptions about a place, and they are named:
what an accelerator costs an hour, what power it draws, how much more the building draws for each watt of the machines
(PUE, power usage effectiveness), and how many grams of CO2 the grid emits for a kWh. Touvron et al. 2023 (section 6)
and Luccioni et al. 2022 (section 4) compute the same way.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

DAY = 86400


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run is: price of an accelerator hour in any currency, PUE (1: the machines alone), grams of CO2 a kWh."""

    price: float | None = None
    pue: float = 1.0
    grid: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """A run: hours of all its accelerators together, money, kWh of the accelerators and of the site, kg of CO2."""

    hours: float
    money: float | None
    energy_kwh: float | None
    site_kwh: float | None
    co2_kg: float | None

    def as_json(self) -> dict[str, float | None]:
        return asdict(self)


def costs(*, gpus: int, days: float, watts: float | None, place: Place) -> Cost:
    """The whole account. None where something it needs is not known."""
    hours = gpu_hours(gpus=gpus, days=days)
    own = None if watts is None else energy_kwh(hours=hours, watts=watts)
    site = None if watts is None else energy_kwh(hours=hours, watts=watts, pue=place.pue)
    return Cost(
        hours=hours,
        money=None if place.price is None else hours * place.price,
        energy_kwh=own,
        site_kwh=site,
        co2_kg=None if site is None or place.grid is None else co2_kg(kwh=site, grid=place.grid),
    )


# --- single numbers, also for questions


def tokens_a_day(*, sequences: int, length: int, seconds: float, goodput: float = 1.0) -> float:
    """Tokens of a day whose steps take so many sequences and seconds; `goodput` is the share of it that is progress."""
    return sequences * length / seconds * DAY * goodput


def gpu_hours(*, gpus: int, days: float) -> float:
    """Hours that are paid for, whether an accelerator computes or waits."""
    return 24 * days * gpus


def energy_kwh(*, hours: float, watts: float, pue: float = 1.0) -> float:
    """kWh of so many accelerator hours, with what the building adds."""
    return hours * watts / 1000 * pue


def co2_kg(*, kwh: float, grid: float) -> float:
    """kg of CO2-equivalent, at so many grams a kWh."""
    return kwh * grid / 1000
