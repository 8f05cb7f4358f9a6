"""How long a training run takes: 6 N D (Kaplan et al. 2020, section 2.1; Narayanan et al. 2021, equation 3 without
the attention term).

Each of D tokens costs about 2 floating-point operations a parameter in forward and 4 in backward.
"""

from __future__ import annotations

SECONDS_A_YEAR = 365.25 * 24 * 3600


def training_flops(*, parameters: float, tokens: float) -> float:
    """6 N D floating-point operations."""
    return 6.0 * parameters * tokens


def training_seconds(
    *, parameters: float, tokens: float, peak_flops: float, utilization: float, devices: int = 1
) -> float:
    """Seconds on `devices` that each reach `utilization` (0 to 1) of `peak_flops` a second."""
    if not 0 < utilization <= 1:
        raise ValueError("utilization is a share between 0 and 1")
    if devices < 1:
        raise ValueError("there is at least one device")
    return training_flops(parameters=parameters, tokens=tokens) / (peak_flops * utilization * devices)


def training_years(
    *, parameters: float, tokens: float, peak_flops: float, utilization: float, devices: int = 1
) -> float:
    """The same in years of 365.25 days."""
    seconds = training_seconds(
        parameters=parameters, tokens=tokens, peak_flops=peak_flops, utilization=utilization, devices=devices
    )
    return seconds / SECONDS_A_YEAR
