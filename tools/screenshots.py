"""Takes the README's pictures anew: ``python tools/screenshots.py`` (or some languages: ``... en ar``).

In each language the course is started as a learner starts it, with an empty record and a workspace of its own; the
picture is of the lesson on ZeRO-1 while its lab runs.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from tests.browser.driver import WAIT, Course, Lesson, chromium
from translations import language, languages

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
SIZE = {"width": 1440, "height": 900}
UNIT = "04-zero-1"
SLOW = "slow=0.3"
ROWS = 650
"""So many rows of the plot have come when the picture is taken."""


def main() -> int:
    released = [each.code for each in languages() if each.released]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(released)}; all, if none is named"
    )
    chosen = [language(code).code for code in parser.parse_args().languages] or released
    FOLDER.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for code in chosen:
            path = FOLDER / ("lesson.png" if code == "en" else f"lesson-{code}.png")
            with tempfile.TemporaryDirectory() as folder, Course(code, Path(folder) / "learner") as course:
                take(browser, course, path)
            print(f"{path.name}: {path.stat().st_size // 1000} kB")
    return 0


def take(browser: Browser, course: Course, path: Path) -> None:
    """The running lab in the lesson, the file list folded away."""
    context = browser.new_context(viewport=SIZE)  # type: ignore[arg-type]
    page = context.new_page()
    page.set_default_timeout(WAIT)
    page.goto(course.at(f"{course.code}/{UNIT}.ipynb"))
    lesson = Lesson(page, f"{course.code}/{UNIT}.ipynb")
    for id in ("open", "before"):
        lesson.run(id)
    lesson.write("run-1", lesson.source("run-1").replace("**lab", f"{SLOW}, **lab"))
    lesson.start("run-1")
    page.wait_for_function(f"Number(document.querySelector('.shardwise-live')?.dataset.rows) > {ROWS}")
    page.screenshot(path=path)
    context.close()


if __name__ == "__main__":
    raise SystemExit(main())
