"""`shardwise goodput`: what failures cost a run on a cluster, by the formula and drawn, and how often to save."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer import Context, Option

from shardwise.plan_options import MOST, Json, Lang, Printer, positive
from shardwise.tables import show
from translations import CourseError, Translator, formats

if TYPE_CHECKING:
    from labs.planner.failures import Drawn
    from labs.planner.goodput import Account, Cluster

AROUND = (1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 8.0)
"""Intervals and clusters beside the one that is asked for, as its multiples."""
DAY, HOUR = 86400.0, 3600.0


def add(app: typer.Typer, *, print_json: Printer, right_use: Any) -> None:
    """The command, in the course's command line."""

    @app.command("goodput", help="cli-goodput")
    def goodput(
        context: Context,
        gpus: Annotated[int, Option("--gpus", help="cli-plan-gpus")],
        mtbf_hours: Annotated[float | None, Option("--mtbf-hours", help="cli-goodput-mtbf-hours")] = None,
        failures: Annotated[float | None, Option("--failures", help="cli-goodput-failures")] = None,
        days: Annotated[float, Option("--days", help="cli-goodput-days")] = 90.0,
        save_seconds: Annotated[float, Option("--save-seconds", help="cli-goodput-save-seconds")] = 30.0,
        interval_seconds: Annotated[float | None, Option("--interval-seconds", help="cli-goodput-interval")] = None,
        detection_seconds: Annotated[float, Option("--detection-seconds", help="cli-goodput-detection")] = 60.0,
        restart_seconds: Annotated[float, Option("--restart-seconds", help="cli-goodput-restart")] = 300.0,
        spares: Annotated[int | None, Option("--spares", help="cli-goodput-spares")] = None,
        repair_hours: Annotated[float, Option("--repair-hours", help="cli-goodput-repair")] = 24.0,
        elastic: Annotated[bool, Option("--elastic", help="cli-goodput-elastic")] = False,
        node: Annotated[int, Option("--node", help="cli-goodput-node")] = 8,
        replica: Annotated[int | None, Option("--replica", help="cli-goodput-replica")] = None,
        seed: Annotated[int, Option("--seed", help="cli-goodput-seed", min=0)] = 0,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from labs.planner.failures import simulate
        from labs.planner.goodput import DEVICE_MTBF, Cluster, account

        with right_use():
            positive(
                gpus=gpus, mtbf_hours=mtbf_hours, failures=failures, days=days, save_seconds=save_seconds,
                interval_seconds=interval_seconds, repair_hours=repair_hours,
            )  # fmt: skip
            for name, value in (("detection-seconds", detection_seconds), ("restart-seconds", restart_seconds)):
                if not 0 <= value <= MOST:
                    raise CourseError("shardwise.plan-not-negative", name=name, value=value)
            if mtbf_hours is not None and failures is not None:
                raise CourseError("shardwise.goodput-one-rate")
            device_mtbf = DEVICE_MTBF if mtbf_hours is None else mtbf_hours * HOUR
            if failures is not None:
                device_mtbf = days * DAY * gpus / failures
            cluster = Cluster(
                devices=gpus,
                device_mtbf=device_mtbf,
                cost=save_seconds,
                detection=detection_seconds,
                restart=restart_seconds,
                repair=repair_hours * HOUR,
                node=node,
                spares=spares,
                elastic=elastic,
                replica=node if replica is None else replica,
            ).checked()
            interval = cluster.best_interval if interval_seconds is None else interval_seconds
            drawn = simulate(cluster, interval=interval, seconds=days * DAY, seed=seed)
            told = account(cluster, interval=interval)
        if as_json:
            print_json(_as_json(cluster, told, drawn, interval=interval, days=days))
        else:
            _show(cluster, told, drawn, interval=interval, days=days, text=context.obj.text)


def by_interval(cluster: Cluster, *, interval: float) -> list[tuple[float, float]]:
    """Intervals around the one that is asked for, each with its goodput."""
    from labs.planner.goodput import account

    return [(factor * interval, account(cluster, interval=factor * interval).progress) for factor in AROUND]


def by_size(cluster: Cluster) -> list[tuple[int, float]]:
    """Clusters of other sizes, each with its goodput at its own best interval."""
    from dataclasses import replace

    from labs.planner.goodput import account

    replicas = cluster.devices // cluster.replica if cluster.elastic else cluster.devices
    unit = cluster.replica if cluster.elastic else 1
    sizes = sorted({max(1, round(factor * replicas)) * unit for factor in AROUND})
    others = [replace(cluster, devices=size) for size in sizes]
    return [(each.devices, account(each, interval=each.best_interval).progress) for each in others]


def _as_json(cluster: Cluster, told: Account, drawn: Drawn, *, interval: float, days: float) -> dict[str, object]:
    return {
        "gpus": cluster.devices,
        "mtbf_seconds": cluster.mtbf,
        "interval_seconds": interval,
        "best_interval_seconds": cluster.best_interval,
        "goodput": told.progress,
        "shares": told.as_dict(),
        "hours": {name: share * days * DAY / HOUR for name, share in told.as_dict().items()},
        "simulated": {
            "goodput": drawn.account.progress,
            "standard_error": drawn.error,
            "shares": drawn.account.as_dict(),
            "failures": drawn.failures,
            "runs": drawn.runs,
            "seed": drawn.seed,
        },
        "by_interval": [{"seconds": each, "goodput": share} for each, share in by_interval(cluster, interval=interval)],
        "by_size": [{"gpus": each, "goodput": share} for each, share in by_size(cluster)],
    }


def _show(cluster: Cluster, told: Account, drawn: Drawn, *, interval: float, days: float, text: Translator) -> None:
    """Where the time goes, and the neighbours of what was asked."""
    console, language = Console(), text.language

    def share(value: float) -> str:
        return formats.percent(round(value, 5), language)

    def time(seconds: float) -> str:
        return formats.duration(seconds, language)

    title = text("shardwise.goodput-title", gpus=formats.number(cluster.devices, language), every=time(cluster.mtbf))
    table = Table(title=title, title_justify="left")
    table.add_column(text("shardwise.goodput-where"))
    for heading in ("formula", "drawn"):
        table.add_column(text(f"shardwise.goodput-{heading}"), justify="right")
    table.add_column(text("shardwise.goodput-hours", days=formats.number(_whole(days), language)), justify="right")
    random = drawn.account.as_dict()
    for name, value in told.as_dict().items():
        if name in ("waiting", "missing") and cluster.limited is None:
            continue
        found = share(max(0.0, random[name]))
        if name == "progress":
            found += f" ± {share(drawn.error)}"
        hours = formats.number(round(value * days * DAY / HOUR, 2), language)
        words = text(f"shardwise.goodput-part-{name}")
        table.add_row(words, share(value), found, hours, style="bold" if name == "progress" else "")
    show(table, console, text.language)
    best = cluster.best_interval
    id = "saves-best" if interval == best else "saves"
    console.print(text(f"shardwise.goodput-{id}", interval=time(interval), best=time(best)), highlight=False)
    failures = formats.number(round(drawn.failures), language)
    console.print(
        text("shardwise.goodput-drawn-runs", runs=drawn.runs, failures=failures, seed=drawn.seed), highlight=False
    )
    around = Table(title=text("shardwise.goodput-around"), title_justify="left")
    around.add_column(text("shardwise.goodput-interval"), justify="right")
    around.add_column(text("shardwise.goodput-goodput"), justify="right")
    around.add_column("")
    for seconds, value in by_interval(cluster, interval=interval):
        around.add_row(time(seconds), share(value), _bar(value), style="bold" if seconds == interval else "")
    show(around, console, text.language)
    sizes = Table(title=text("shardwise.goodput-sizes"), title_justify="left")
    sizes.add_column(text("shardwise.goodput-accelerators"), justify="right")
    sizes.add_column(text("shardwise.goodput-goodput"), justify="right")
    sizes.add_column("")
    for devices, value in by_size(cluster):
        style = "bold" if devices == cluster.devices else ""
        sizes.add_row(formats.number(devices, language), share(value), _bar(value), style=style)
    show(sizes, console, text.language)


def _bar(value: float) -> str:
    return "█" * round(30 * value)


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value
