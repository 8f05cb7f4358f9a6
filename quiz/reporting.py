"""A reader's report of a question: text that is ready to be sent, and where to. Nothing is sent from here.

It holds what its author needs to see the same question: id, version, seed and language, the words as shown, what was
answered, and what the reader thinks is wrong. It names nobody.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote

from quiz.grading import Answer
from quiz.policy import policy
from quiz.rendering import plain
from quiz.session import Question
from translations import formats, translator

LONGEST_REMARK = 4000
LONGEST_LINK = 1800
"""Characters of a link that every mail program and browser still takes."""
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]")


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report.

    `name` is of the file that keeps it; `mail` and `issue` are links, `issue` empty where the policy has none.
    """

    name: str
    text: str
    mail: str
    issue: str

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "mail": self.mail, "issue": self.issue}


def report(asked: Question, *, remark: str, given: Answer | None = None) -> Report:
    """The report of a question as it was shown. The remark may be empty; controls in it are dropped."""
    text = translator(asked.language)
    said = _CONTROLS.sub("", remark.replace("\r\n", "\n"))[:LONGEST_REMARK].strip()
    title = text("quiz.report-title", item=asked.item)
    parts = [
        title,
        f"{asked.report} course={_course()}",
        f"{text('quiz.report-remark')}\n{said or '–'}",
        f"{text('quiz.report-asked')}\n{_shown(asked)}",
        f"{text('quiz.report-given')}\n{'–' if given is None else given}",
    ]
    body = "\n\n".join(parts) + "\n"
    where = policy()
    address = quote(where.report_mail or "", safe="@")
    issue = _link(f"{where.report_issues}?title={quote(title)}&body=", body) if where.report_issues else ""
    return Report(
        name=f"{asked.item}-{asked.version}-{asked.seed}-{asked.language.code}.txt",
        text=body,
        mail=_link(f"mailto:{address}?subject={quote(title)}&body=", body),
        issue=issue,
    )


def _shown(asked: Question) -> str:
    lines = [plain(asked.text, asked.language)]
    lines += [asked.code.rstrip("\n")] if asked.code else []
    lines += [f"- {each.key}: {plain(each.text, asked.language)}" for each in (*asked.offered, *asked.answers)]
    return "\n".join(lines).replace(formats.ISOLATE, "").replace(formats.POP, "")


def _link(start: str, body: str) -> str:
    """The link with as much of the body as it may hold: what matters most stands first."""
    room = LONGEST_LINK - len(start)
    held = ""
    for character in body:
        held_next = quote(character)
        if len(held) + len(held_next) > room:
            break
        held += held_next
    return start + held


def _course() -> str:
    try:
        return version("shardwise")
    except PackageNotFoundError:
        return "-"
