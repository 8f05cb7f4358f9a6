"""The home page: the next step, the ways through the course, the map of its units, and the other languages."""

from __future__ import annotations

from html import escape

from quiz.policy import policy
from shardwise import pages, unit_map, workspace
from shardwise.practice import waiting
from shardwise.progress import Overview, Stop, overview
from shardwise.record import Record
from shardwise.tracks import Track, tracks
from translations import CourseError, Language, Translator, formats, languages, translator

HOME = "home.ipynb"
NEXT, DONE = {"ltr": "→", "rtl": "←"}, "✓"


def html(record: Record, language: Language) -> str:
    """The page as one fragment; links are from the language's folder of the workspace."""
    text, shown = translator(language), overview(record, language)
    return (
        f"{_languages(language, text)}{_next(shown, text)}{_review(record, text)}{_tracks(shown, text)}"
        f"{unit_map.html(shown, text)}{_table(shown, text)}{_rule(text)}"
    )


def _next(shown: Overview, text: Translator) -> str:
    following = next((each for each in shown.stops if each.unit.id == shown.next), None)
    if following is None:
        return f'<p class="step">{escape(text("shardwise.home-all-done"))}</p>'
    key = "home-go-on" if following.state == "started" else "home-begin"
    return f'<p class="step"><strong>{escape(text(f"shardwise.{key}"))}</strong> {_link(following, text)}</p>'


def _review(record: Record, text: Translator) -> str:
    """How many questions are due again, and where they are asked; nothing where none is."""
    found = waiting(record)
    if not found.due:
        return ""
    said = escape(text("shardwise.review-due", count=min(found.due, policy().review_at_most)))
    return f'<div class="box note"><p>{said}</p></div>'


def _tracks(shown: Overview, text: Translator) -> str:
    """A card for each way: for whom it is, how it goes, what is left of it, and where it goes on."""
    cards = "".join(_card(each, shown, text) for each in tracks())
    return f'<section class="tracks" aria-label="{escape(text("shardwise.tracks-title"))}">{cards}</section>'


def _card(track: Track, shown: Overview, text: Translator) -> str:
    left = track.left(shown)
    minutes = sum(each.unit.minutes for each in left)
    following = track.next(shown)
    onward = (
        f'<p><span aria-hidden="true">{NEXT[text.language.direction]}</span> {_link(following, text)}</p>'
        if following is not None
        else ""
    )
    size = text(
        "shardwise.track-left",
        left=len(left),
        of=len(track.units),
        time=formats.duration(minutes * 60, text.language),
    )
    return (
        f"<article><h2>{escape(text(f'shardwise.track-{track.id}'))}</h2>"
        f'<p>{escape(text(f"shardwise.track-{track.id}-how"))}</p><p class="quiet">{escape(size)}</p>{onward}</article>'
    )


def _table(shown: Overview, text: Translator) -> str:
    columns = ("unit", "time", "needs", "objectives", "checks", "quiz", "state")
    heads = "".join(f'<th scope="col">{escape(text(f"shardwise.progress-{each}"))}</th>' for each in columns)
    rows = "".join(_row(each, shown, text) for each in shown.stops)
    caption = escape(text("shardwise.progress-title"))
    return (
        f"<details><summary>{caption}</summary>"
        f'<table class="units"><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></details>'
    )


def _row(stop: Stop, shown: Overview, text: Translator) -> str:
    unit, reached = stop.unit, stop.progress
    cells = [", ".join(str(int(need[:2])) for need in unit.needs) or "–"]
    if reached is None:
        cells += ["", "", ""]
    else:
        mastered = sum(each.mastered for each in reached.objectives)
        best = "–" if reached.quiz_best is None else formats.percent(reached.quiz_best, text.language, 2)
        green = sum(reached.checks.values())
        cells += [f"{mastered}/{len(reached.objectives)}", f"{green}/{len(reached.checks)}", best]
    mark = {"mastered": f"{DONE} "}.get(
        stop.state, f"{NEXT[text.language.direction]} " if unit.id == shown.next else ""
    )
    name = escape(unit.title(text)) if stop.state == "planned" else _link(stop, text)
    kind = "next" if unit.id == shown.next else stop.state
    return (
        f'<tr class="{kind}"><th scope="row">{pages.ltr(str(unit.number))} {name}</th>'
        f"<td>{escape(formats.duration(unit.minutes * 60, text.language))}</td>"
        + "".join(f"<td>{pages.ltr(each)}</td>" for each in cells)
        + f"<td>{escape(mark + text(f'shardwise.state-{stop.standing}'))}</td></tr>"
    )


def _link(stop: Stop, text: Translator) -> str:
    return f'<a href="{stop.unit.id}.ipynb">{escape(stop.unit.title(text))}</a>'


def _rule(text: Translator) -> str:
    share = formats.percent(policy().mastery, text.language, digits=2)
    return f"<p>{escape(text('shardwise.home-rule', percent=share))}</p>"


def _languages(language: Language, text: Translator) -> str:
    """Links to the same page in the other languages; a folder that isn't there yet is made. One in preparation is named
    last, as that, and only where its home page is there.
    """
    links = []
    for other in sorted(languages(), key=lambda each: not each.released):
        if other.code == language.code or not (other.released or (workspace.COURSE / other.code / HOME).exists()):
            continue
        try:
            if not (workspace.folder() / other.code / HOME).exists():
                workspace.prepare(other)
        except CourseError:
            continue
        name = f'<a href="../{other.code}/{HOME}" lang="{other.code}" hreflang="{other.code}">{escape(other.name)}</a>'
        links.append(f"<li>{name if other.released else text('shardwise.language-in-preparation', language=name)}</li>")
    label = escape(text("shardwise.home-languages"))
    return f'<nav aria-label="{label}"><ul>{"".join(links)}</ul></nav>' if links else ""
