"""A report of a question: enough to see it again, in the reader's language, and nothing is sent."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiz import item, policy, variant
from quiz.notebook import Quiz
from quiz.reporting import LONGEST_LINK, Report, report
from quiz.session import question
from translations import languages


def test_a_report_brings_its_author_to_the_same_question() -> None:
    for language in languages():
        asked = question(variant(item("zero-1-state-bytes"), 12345), language)
        made = report(asked, remark="The 13 is missing.", given="7 GB")
        found = re.search(r"item=(\S+) version=(\d+) seed=(\d+) language=(\w+) course=\S+", made.text)
        assert found is not None
        assert language.code == found[4]
        again = question(variant(item(found[1]), int(found[3])), found[4])
        assert again == asked
        assert "The 13 is missing." in made.text
        assert "7 GB" in made.text
        assert made.issue == "", "no address stands in the course's policy"
        assert made.mail.startswith("mailto:?subject=")


def test_links_carry_the_report_where_the_policy_names_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    own = replace(policy(), report_mail="a@b.example", report_issues="https://forge.example/new")
    monkeypatch.setattr("quiz.reporting.policy", lambda: own)
    made = report(question(variant(item("zero-1-order"), 1), "ar"), remark="خطأ & <b>?#\r\nBcc: x@y.example")
    assert made.issue.startswith("https://forge.example/new?title=")
    assert made.mail.startswith("mailto:a@b.example?subject=")
    for link in (made.issue, made.mail):
        assert len(link) <= LONGEST_LINK
        assert not re.search(r"[\s<>\"]", link)
        fields = parse_qs(urlsplit(link).query)
        assert set(fields) <= {"title", "subject", "body"}, "a remark adds no field"
        assert "item=zero-1-order" in fields["body"][0]


@given(st.text(max_size=6000))
def test_any_remark_gives_a_report_whose_first_lines_are_ours(remark: str) -> None:
    asked = question(variant(item("zero-1-order"), 1), "en")
    made = report(asked, remark=remark)
    assert made.text.split("\n")[2].startswith("item=zero-1-order version=")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", made.text)
    assert len(made.mail) <= LONGEST_LINK
    assert re.fullmatch(r"[a-z0-9-]+\.txt", made.name)


def test_the_button_keeps_a_file_and_says_where_or_that_it_could_not() -> None:
    kept: list[Report] = []

    def keep(made: Report) -> str:
        kept.append(made)
        return "reports/x.txt"

    quiz = Quiz("04-zero-1", "nl", seed="ada", items=["zero-1-what-for"], on_report=keep)
    quiz._received(quiz, {"do": "report", "remark": "Twee antwoorden zijn goed."}, [])
    assert "reports/x.txt" in quiz.state["reported"]["kept"]
    assert "Twee antwoorden" in kept[0].text
    assert quiz.state["phase"] == "question", "a report answers nothing"
    assert quiz.state["graded"] is None
    quiz._received(quiz, {"do": "report", "remark": 3}, [])
    assert len(kept) == 1
    quiz.close()

    def refuse(_made: Report) -> str:
        raise OSError("no room")

    other = Quiz("04-zero-1", "en", seed="ada", items=["zero-1-what-for"], on_report=refuse)
    other.report("x")
    assert "could not be kept" in other.state["reported"]["kept"]
    other.close()
