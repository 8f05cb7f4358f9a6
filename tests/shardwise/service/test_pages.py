"""The pages over HTTP, as a browser without scripts uses them: forms, redirects, cookies, languages, roles."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import select

import certificates
from quiz.exam import ExamQuestion, Offered
from shardwise.service import attempts, issuing, logs
from shardwise.service.accounts import Person
from shardwise.service.pages import exam as exam_pages
from shardwise.service.pages import privacy
from shardwise.service.pages.rendering import accepted, percent
from shardwise.service.tables import Answer, Audit, Certificate, Report
from tests.shardwise.service import making, site
from tests.shardwise.service.site import FORMS, HOST, ORIGIN, Site, csrf
from translations import formats, language, languages, translator

LANGUAGES = [each.code for each in languages() if each.released]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site.running(tmp_path_factory.mktemp("site")) as made:
        yield made


_count = iter(range(10**6))


def somebody(place: Site, *, role: str = "learner", name: str = "Noor Bakker") -> tuple[Person, httpx.Client]:
    who, token = making.person(place.core, f"learner{next(_count)}@example.org", role=role, name=name)
    return who, place.client(token)


def post(client: httpx.Client, path: str, page: str, **fields: Any) -> httpx.Response:
    """A form sent from a page that was shown."""
    return client.post(path, data={"csrf": csrf(page), **fields}, headers={"origin": ORIGIN})


def visible(page: str) -> str:
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


# --- every page


def pages_of(place: Site) -> tuple[dict[str, str], httpx.Client]:
    """An address of every kind of page, and an administrator who may see them all."""
    boss, client = somebody(place, role="administrator", name="Bo Boss")
    done = site.passed(place.core, boss)
    made = issuing.request(place.core, boss, done)
    locked = site.sitting(place.core, code="open-sesame", supervised=True)
    running = attempts.start(place.core, boss, site.sitting(place.core, attempts=9), language="nl")
    found = {
        "home": "/",
        "start": f"/exams/{locked}",
        "look": f"/attempts/{running.id}/look",
        "task": f"/attempts/{running.id}/tasks/zero-1",
        "result": f"/attempts/{done}/result",
        "certificates": "/certificates",
        "public": f"/c/{made.id}",
        "privacy": "/privacy",
        "nowhere": "/nowhere",
        "admin": "/admin",
        "admin certificates": "/admin/certificates?q=bo",
        "admin certificate": f"/admin/certificates/{made.id}",
        "people": "/admin/people",
        "person": f"/admin/people/{boss.id}",
        "cohorts": "/admin/cohorts",
        "sittings": "/admin/sittings",
        "wishes": "/admin/wishes",
        "reports": "/admin/reports",
        "audit": "/admin/audit?q=signed-in",
    }
    return found | {f"question {n}": f"/attempts/{running.id}/questions/{n}" for n in range(1, 8)}, client


def test_every_page_in_every_language_is_whole_and_has_no_script(place: Site) -> None:
    found, client = pages_of(place)
    with client, place.client() as stranger:
        for code in LANGUAGES:
            for name, path in [*found.items(), ("sign-in", "/sign-in")]:
                asked = stranger if name == "sign-in" else client
                answer = asked.get(path, headers={"accept-language": code})
                where = f"{name} ({code})"
                assert answer.status_code == (404 if name == "nowhere" else 200), where
                page = answer.text
                assert f'<html lang="{code}" dir="{language(code).direction}">' in page, where
                assert answer.headers["content-language"] == code
                for forbidden in ("<script", "<style", " style=", "javascript:", "<iframe", "http-equiv"):
                    assert forbidden not in page.lower(), (where, forbidden)
                assert not re.search(r"<[^>]*\son[a-z]+\s*=", page), where
                loaded = re.findall(r'(?:<link[^>]+rel="(?:stylesheet|icon)"[^>]+href|<img[^>]+src)="([^"]+)"', page)
                assert all(each.startswith("/") and not each.startswith("//") for each in loaded), (where, loaded)
                assert "{{" not in page, where
                assert not re.search(r"\bshardwise\.(site|service)-|\bsite-[a-z]+-[a-z]", visible(page)), where
                assert page.count("<h1") == 1 or name == "public", where
                assert "no-store" in answer.headers["cache-control"], where
                assert "default-src 'none'" in answer.headers["content-security-policy"]
                if name not in ("public", "verify"):
                    assert 'name="robots" content="noindex"' in page, where


def test_what_a_page_loads_is_there_and_may_be_kept(place: Site) -> None:
    with place.client() as client:
        page = client.get("/").text
        sheet = re.search(r'rel="stylesheet" href="([^"]+)"', page)
        assert sheet
        found = client.get(sheet[1])
        assert found.headers["content-type"].startswith("text/css")
        assert "immutable" in found.headers["cache-control"]
        assert client.get("/static/icon.svg").headers["content-type"] == "image/svg+xml"
        clock = client.get("/static/clock-1234.css").text
        assert "--left: 20;" in clock
        assert "1200s" in clock
        for other in ("style-0.css", "clock-x.css", "clock-99999999.css", "clock-٣.css", "../site.py"):
            assert client.get(f"/static/{other}").status_code == 404


def test_the_language_is_the_one_chosen_else_the_browsers(place: Site) -> None:
    def shown(client: httpx.Client, path: str = "/", **headers: str) -> str:
        found = re.search(r'<html lang="([a-z]+)"', client.get(path, headers=headers).text)
        assert found
        return found[1]

    with place.client() as client:
        assert shown(client) == "en"
        assert shown(client, **{"accept-language": "de, nl-BE;q=0.8, en;q=0.1"}) == "nl"
        assert shown(client, **{"accept-language": "x;;q,,;q=2"}) == "en"
        assert shown(client, "/?lang=ar") == "ar"
        assert shown(client, **{"accept-language": "nl"}) == "ar"  # it was chosen
        assert shown(client, "/?lang=xx") == "ar"
    assert accepted("nl;q=0, ar;q=0.5, en;q=0.9") == ("en", "ar")


# --- who may what


def unsafe_routes(place: Site) -> list[tuple[str, str]]:
    found = []

    def walk(routes: Any) -> None:
        for each in routes:
            if hasattr(each, "original_router"):
                walk(each.original_router.routes)
            elif hasattr(each, "methods"):
                found.extend((method, each.path) for method in each.methods if method not in ("GET", "HEAD", "OPTIONS"))

    walk(place.app.routes)
    return [(method, re.sub(r"\{[^}]+\}", "1", path)) for method, path in found]


def test_no_route_takes_a_form_that_was_not_shown_to_this_session(place: Site) -> None:
    """Whatever routes there are: found in the application, not listed here."""
    routes = unsafe_routes(place)
    assert len(routes) > 40
    _, client = somebody(place, role="administrator")
    with client:
        for method, path in routes:
            for headers in ({"origin": ORIGIN}, {"origin": "https://evil.example"}, {}):
                answer = client.request(method, path, data={"a": "b"}, headers=headers)
                assert answer.status_code == 403, (method, path, headers)
            evil = {"origin": "https://evil.example"}
            assert client.request(method, path, json={}, headers=evil).status_code == 403, (method, path)


def test_strangers_are_led_to_the_sign_in_and_back(place: Site) -> None:
    with place.client() as client:
        for path in ("/certificates", "/admin", "/attempts/1/look", "/exams/1", "/admin/audit"):
            answer = client.get(path)
            assert answer.status_code == 303, path
            assert (
                answer.headers["location"]
                == f"/sign-in?next={path}".replace("/", "%2F").replace("%2Fsign-in?next=", "/sign-in?next=")
                or answer.headers["location"] == f"/sign-in?next={path}"
            )


def test_learners_see_no_administration_and_nothing_of_others(place: Site) -> None:
    found, boss = pages_of(place)
    _, learner = somebody(place)
    _, examiner = somebody(place, role="examiner")
    with boss, learner, examiner:
        for name, path in found.items():
            if path.startswith("/admin"):
                assert learner.get(path).status_code == 403, name
            elif path.startswith(("/attempts/", "/exams/")) and name != "start":
                assert learner.get(path).status_code == 404, name
                assert examiner.get(path).status_code == 404, name
        for path in ("/admin/certificates", "/admin/people", "/admin/audit"):
            assert examiner.get(path).status_code == 403
        for path in ("/admin", "/admin/cohorts", "/admin/sittings", "/admin/reports", "/admin/wishes"):
            assert examiner.get(path).status_code == 200
        page = learner.get("/").text
        id = found["public"].rpartition("/")[2]
        assert post(learner, f"/certificates/{id}/listed", page, listed="yes").status_code == 404
        for path in (f"/admin/certificates/{id}/status", f"/admin/certificates/{id}/name", "/admin/cohorts"):
            assert post(learner, path, page, state="revoked", reason="x", name="Eve").status_code == 403
        assert issuing.issued(place.core, id).state == "valid"


def test_signing_in_by_link_takes_a_press_and_works_once(place: Site) -> None:
    from shardwise.service import accounts
    from shardwise.service.accounts import hashed
    from shardwise.service.tables import LoginLink

    with place.client() as client:
        page = client.get("/sign-in?next=/certificates").text
        answer = post(client, "/sign-in/link", page, email="new@example.org", next="/certificates")
        assert answer.status_code == 200
        said = visible(answer.text)
        again = post(client, "/sign-in/link", page, email="no.account@example.org")
        assert visible(again.text) == said  # it tells nobody who has an account
        assert post(client, "/sign-in/link", page, email="nonsense").status_code == 422
    token = "t" * 43
    with place.core.store.writing() as session:
        row = session.scalars(select(LoginLink).where(LoginLink.email == "new@example.org")).one()
        session.add(
            LoginLink(hash=hashed(token), email=row.email, wanted=row.wanted, made=row.made, expires=row.expires)
        )
    with place.client() as client:
        shown = client.get(f"/sign-in/link?token={token}")
        assert shown.status_code == 200
        assert "__Host-shardwise=" not in str(shown.headers.get_list("set-cookie"))
        with place.core.store.reading() as session:
            assert session.get_one(LoginLink, hashed(token)).used is None  # following it opened nothing
        entered = post(client, "/sign-in/link/follow", shown.text, token=token)
        assert entered.status_code == 303
        assert entered.headers["location"] == "/certificates"
        cookie = next(each for each in entered.headers.get_list("set-cookie") if each.startswith("__Host-shardwise="))
        for part in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/"):
            assert part in cookie
        page = client.get("/").text
        assert post(client, "/sign-out", page).status_code == 303
        assert client.get("/certificates").status_code == 303
    with place.client() as client:
        shown = client.get(f"/sign-in/link?token={token}")
        assert post(client, "/sign-in/link/follow", shown.text, token=token).status_code == 403
    assert accounts.inside("//evil.example") == "/"


# --- an exam by forms


def answer_with(question: ExamQuestion, right: Any) -> dict[str, Any]:
    """The fields of the form that give this answer."""
    match question.form:
        case "order":
            return {"order": right}
        case "match":
            return {f"match.{row}": fit for row, fit in right.items()}
        case _:
            return {"answer": right}


def test_an_exam_by_forms_alone_from_start_to_certificate(place: Site) -> None:
    who, client = somebody(place, name="")
    with client:
        sitting = site.sitting(place.core, code="open-sesame")
        page = client.get(f"/exams/{sitting}").text
        wrong = post(client, f"/exams/{sitting}/start", page, unlock="guess", language="en", name="Noor Bakker")
        assert wrong.status_code == 422
        begun = post(client, f"/exams/{sitting}/start", page, unlock="open-sesame", language="en", name="Noor Bakker")
        assert begun.status_code == 303
        where = begun.headers["location"]
        assert re.fullmatch(r"/attempts/[0-9a-f-]{36}/questions/1", where)
        attempt = where.split("/")[2]
        total = attempts.standing(place.core, who, attempt).questions
        seen = set()
        for number in range(1, total + 1):
            shown = client.get(f"/attempts/{attempt}/questions/{number}")
            assert int(shown.headers["refresh"].split(";")[0]) <= 45 * 60 + 1
            question = attempts.question(place.core, who, attempt, number)
            seen.add(question.form)
            right = making.right(place.core, attempt, number)
            empty = {"order": [each.place for each in question.offered]} if question.form == "order" else {}
            if question.form == "order":
                first = question.offered[0].place
                moved = post(client, where_of(attempt, number), shown.text, **empty, move=f"down {first}")
                assert moved.headers["location"].endswith(f"/questions/{number}")
                kept = attempts.question(place.core, who, attempt, number).given
                assert kept == [
                    each.place for each in (question.offered[1], question.offered[0], *question.offered[2:])
                ]
            if question.form in ("number", "bytes"):
                bad = post(client, where_of(attempt, number), shown.text, answer="no number", then="next")
                assert bad.status_code == 422
                assert "no number" in bad.text
            sent = post(client, where_of(attempt, number), shown.text, **answer_with(question, right), then="next")
            assert sent.status_code == 303
            assert sent.headers["location"].endswith(f"/questions/{number + 1}" if number < total else "/look")
            assert attempts.question(place.core, who, attempt, number).given == right
            again = client.get(f"/attempts/{attempt}/questions/{number}").text
            assert "checked" in again or "selected" in again or question.form in ("order", "number", "bytes")
        assert seen == set(FORMS)
        look = client.get(f"/attempts/{attempt}/look").text
        task = f"/attempts/{attempt}/tasks/zero-1"
        code = client.get(f"{task}/zero-1.py")
        assert code.headers["content-disposition"] == 'attachment; filename="zero-1.py"'
        files = {"file": ("zero-1.py", io.BytesIO(b"def optimizer_step(units):\r\n    pass\r\n"), "text/x-python")}
        page = client.get(task).text
        handed = client.post(task, data={"csrf": csrf(page), "source": "ignored"}, files=files)
        assert handed.status_code == 303
        assert "open" not in attempts.standing(place.core, who, attempt).tasks[0].state
        assert post(client, f"/attempts/{attempt}/hand-in", look).headers["location"].endswith("/result")
        waiting = client.get(f"/attempts/{attempt}/result")
        assert waiting.headers["refresh"] == "5"
        site.graded(place.core, attempt)
        result = client.get(f"/attempts/{attempt}/result")
        assert "refresh" not in result.headers
        assert translator("en")("shardwise.site-passed") in visible(result.text)
        assert result.text.count("<details>") == total
        late = post(client, where_of(attempt, 1), look, answer="1")
        assert late.headers["location"].endswith("/result")
        assert client.get(f"/attempts/{attempt}/questions/1").status_code == 303
        claim = client.get(f"/attempts/{attempt}/certificate").text
        made = post(
            client, f"/attempts/{attempt}/certificate", claim, name="Noor Bakker", other="نور بكر", language="nl"
        )
        assert made.status_code == 303
        assert client.get(f"/attempts/{attempt}/certificate").headers["location"] == made.headers["location"]
        public = client.get(made.headers["location"])
        assert "Noor Bakker" in public.text
        assert "نور بكر" in public.text


def where_of(attempt: str, number: int) -> str:
    return f"/attempts/{attempt}/questions/{number}"


def test_nothing_chosen_is_no_answer_and_an_answer_can_be_taken_back(place: Site) -> None:
    who, client = somebody(place)
    with client:
        begun = attempts.start(place.core, who, site.sitting(place.core), language="en")
        number = next(
            each
            for each in range(1, begun.questions + 1)
            if attempts.question(place.core, who, begun.id, each).form == "several"
        )
        page = client.get(where_of(begun.id, number)).text
        post(client, where_of(begun.id, number), page, then="next")
        with place.core.store.reading() as session:
            assert not session.scalars(select(Answer).where(Answer.attempt == begun.id)).all()
        post(client, where_of(begun.id, number), page, answer=["1", "2"], then="next")
        assert attempts.standing(place.core, who, begun.id).answered == (number,)
        post(client, where_of(begun.id, number), page, then="next")
        assert attempts.standing(place.core, who, begun.id).answered == ()
        look = visible(client.get(f"/attempts/{begun.id}/look").text)
        assert f"without an answer: {begun.questions}" in look


def test_moving_a_step_stays_within_the_list() -> None:
    assert exam_pages.moved(["1", "2", "3"], "up 2") == ["2", "1", "3"]
    assert exam_pages.moved(["1", "2", "3"], "up 1") == ["1", "2", "3"]
    assert exam_pages.moved(["1", "2", "3"], "down 3") == ["1", "2", "3"]
    for nonsense in ("", "up", "up 9", "sideways 1"):
        assert exam_pages.moved(["1", "2", "3"], nonsense) == ["1", "2", "3"]


def test_answers_are_told_in_the_words_of_what_was_offered() -> None:
    def asked(form: str, given: Any) -> ExamQuestion:
        offered = tuple(Offered(place=str(n), text=f"thing {n}") for n in (1, 2))
        return ExamQuestion(
            number=1,
            of=1,
            form=form,
            text="",
            code="",
            prompt="",
            offered=offered,
            answers=offered,
            unit="",
            given=given,
            reference="",
        )

    english = language("en")
    assert exam_pages.said_answer(asked("choice", "2"), english) == "thing 2"
    assert exam_pages.said_answer(asked("several", ["1", "2"]), english) == "thing 1\n\nthing 2"
    assert exam_pages.said_answer(asked("order", ["2", "1"]), english) == "1. thing 2\n\n2. thing 1"
    assert exam_pages.said_answer(asked("match", {"1": "2"}), english) == "thing 1 → thing 2"
    assert exam_pages.said_answer(asked("number", "4 GB"), english) == "`4 GB`"
    assert exam_pages.said_answer(asked("choice", None), english) == translator("en")("shardwise.site-no-answer")


def test_a_share_is_never_rounded_up_to_a_mark_that_it_missed() -> None:
    assert percent(0.7999, language("en")) == "79%"
    assert percent(0.8, language("en")) == "80%"
    assert percent(1.0, language("nl")) == "100%"
    assert percent(0.0, language("en")) == "0%"
    assert percent(0.29, language("en")) == "29%"


def test_explanations_are_withheld_where_the_policy_says_so(tmp_path: Path) -> None:
    with site.running(tmp_path, explanations=False, practical=False) as place:
        who, client = somebody(place)
        done = site.passed(place.core, who)
        with client:
            page = client.get(f"/attempts/{done}/result").text
        assert "<details>" not in page
        assert translator("en")("shardwise.site-explanations-withheld") in visible(page)


def test_a_report_names_the_item_to_examiners_and_nothing_to_the_learner(place: Site) -> None:
    who, client = somebody(place)
    _, examiner = somebody(place, role="examiner")
    with client, examiner:
        begun = attempts.start(place.core, who, site.sitting(place.core), language="en")
        page = client.get(where_of(begun.id, 1)).text
        hostile = "<script>alert(1)</script> key is wrong {{7*7}}"
        sent = post(client, f"{where_of(begun.id, 1)}/report", page, said=hostile)
        assert sent.status_code == 200
        with place.core.store.reading() as session:
            kept = session.scalars(select(Report).where(Report.attempt == begun.id)).one()
        assert kept.said == hostile
        assert kept.item not in page + sent.text
        shown = examiner.get("/admin/reports").text
        assert kept.item in shown
        assert str(kept.seed) in shown
        assert "&lt;script&gt;" in shown
        assert "<script" not in shown
        assert who.name not in shown
        assert post(examiner, f"/admin/reports/{kept.id}", shown).status_code == 303
        other = post(client, "/attempts/00000000-0000-4000-8000-000000000000/questions/1/report", page, said="x")
        assert other.status_code == 404


# --- certificates


def test_the_public_page_says_what_the_verifier_says_and_changes_at_once(place: Site) -> None:
    who, client = somebody(place, name="Lina Mansour")
    _, admin = somebody(place, role="administrator")
    made = issuing.request(
        place.core, who, site.passed(place.core, who, supervised=True, wrong=1), name_other="لينا منصور"
    )
    with client, admin, place.client() as stranger:

        def shown(code: str) -> tuple[int, str, str]:
            found = stranger.get(f"/c/{made.id}", headers={"accept-language": code})
            return found.status_code, found.text, visible(found.text)

        for code in LANGUAGES:
            text = translator(code)
            status, page, said = shown(code)
            assert status == 200
            assert 'class="verdict" id="verdict"' in page
            for part in (
                place.core.issuing.issuer.name(code),  # type: ignore[union-attr]
                HOST,
                "Lina Mansour",
                "لينا منصور",
                text("certificates.conditions-supervised"),
                text("shardwise.site-practical"),
                made.id,
            ):
                assert part in said, (code, part)
            assert ("In English" in page) == (code != "en")
            assert 'name="robots" content="noindex' in page
            for name in ("og:title", "og:description", "og:url", "og:image"):
                assert f'property="{name}"' in page
            assert "linkedin.com/profile/add?startTask=CERTIFICATION_NAME" in page
        assert stranger.get(f"/c/{made.id}").headers["x-robots-tag"] == "noindex, nofollow"
        listed = client.get("/certificates").text
        assert post(client, f"/certificates/{made.id}/listed", listed, listed="yes").status_code == 303
        found = stranger.get(f"/c/{made.id}")
        assert "x-robots-tag" not in found.headers
        assert 'name="robots"' not in found.text
        assert stranger.get(f"/c/{made.id.upper()}").headers["location"] == f"/c/{made.id}"
        page = admin.get(f"/admin/certificates/{made.id}").text
        none = post(admin, f"/admin/certificates/{made.id}/status", page, state="suspended", reason=" ")
        assert none.status_code == 422
        for state, word in (("suspended", "suspended"), ("valid", "valid"), ("revoked", "revoked")):
            post(admin, f"/admin/certificates/{made.id}/status", page, state=state, reason="because")
            _, page_now, said = shown("en")
            assert ('class="verdict" id="verdict"' in page_now) == (state == "valid")
            assert word in said.lower()
            assert "because" not in said  # the reason is the issuer's own
            jwt = stranger.get(f"/c/{made.id}.jwt").content
            trust = certificates_trust(place)
            verdict = certificates.verify(jwt, trust=trust, fetch=over_http(stranger)).verdict
            assert verdict == ("issuer" if state == "valid" else "invalid")
        with place.core.store.reading() as session:
            actions = [each.action for each in session.scalars(select(Audit).where(Audit.about == made.id))]
        assert actions.count("certificate-suspended") == 1
        assert "certificate-revoked" in actions


def certificates_trust(place: Site) -> Any:
    return issuing.issuing_of(place.core).issuer.trust


def over_http(client: httpx.Client) -> Any:
    """A verifier's way to the status list: the service's own address."""

    def fetch(address: str) -> bytes:
        assert address.startswith(ORIGIN)
        found = client.get(address)
        assert found.status_code == 200
        assert found.headers["access-control-allow-origin"] == "*"
        return found.content

    return fetch


def test_a_corrected_name_gives_a_new_certificate_and_the_old_page_says_so(place: Site) -> None:
    who, _ = somebody(place, name="Sara Jansen")
    _, admin = somebody(place, role="administrator")
    made = issuing.request(place.core, who, site.passed(place.core, who))
    with admin, place.client() as stranger:
        page = admin.get(f"/admin/certificates/{made.id}").text
        assert post(admin, f"/admin/certificates/{made.id}/name", page, name="<b>\u202e").status_code == 422
        new = post(admin, f"/admin/certificates/{made.id}/name", page, name="Sara Janssen").headers["location"]
        id = new.rpartition("/")[2]
        assert "Sara Janssen" in stranger.get(f"/c/{id}").text
        old = visible(stranger.get(f"/c/{made.id}").text)
        assert translator("en")("shardwise.site-replaced-why") in old
        renewed = post(admin, f"/admin/certificates/{id}/renew", admin.get(f"/admin/certificates/{id}").text)
        later = renewed.headers["location"].rpartition("/")[2]
        first, second = (issuing.issued(place.core, each).expires for each in (id, later))
        assert first is not None
        assert second is not None
        assert second > first
        assert translator("en")("shardwise.site-renewed") in visible(stranger.get(f"/c/{id}").text)
        found = visible(admin.get("/admin/certificates", params={"q": "janssen"}).text)
        assert "Found: 2" in found


def test_files_of_a_certificate_verify_and_are_named(place: Site) -> None:
    who, _ = somebody(place, name="Omar Said")
    made = issuing.request(place.core, who, site.passed(place.core, who))
    with place.client() as stranger:
        for form, kind in (
            ("pdf", "application/pdf"),
            ("png", "image/png"),
            ("svg", "image/svg+xml"),
            ("jwt", "application/vc+jwt"),
            ("json", "application/json"),
        ):
            found = stranger.get(f"/c/{made.id}.{form}?lang=nl")
            assert found.headers["content-type"].partition(";")[0] == kind
            assert f'filename="shardwise-{made.id}.{form}"' in found.headers["content-disposition"]
            judged = certificates.verify(found.content, trust=certificates_trust(place), fetch=over_http(stranger))
            assert judged.verdict == "issuer", form
        picture = stranger.get(f"/c/{made.id}.preview.png").content
        assert picture[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(picture[16:20], "big") == 1200
        assert int.from_bytes(picture[20:24], "big") == 630
        for other in ("exe", "pdf.exe", "", "preview"):
            assert stranger.get(f"/c/{made.id}.{other or 'x'}").status_code == 404
        for id in ("nobody", "00000000-0000-4000-8000-000000000000", "%2e%2e%2fetc", "'; drop table"):
            assert stranger.get(f"/c/{id}").status_code == 404
        assert stranger.get("/.well-known/did.json").json()["id"] == f"did:web:{HOST}"
        assert stranger.get("/trust.json").json()
        page = stranger.get("/verify")
        policy = page.headers["content-security-policy"]
        assert "script-src 'sha256-" in policy
        assert f"connect-src {ORIGIN}/status/" in policy
        assert "frame-ancestors 'none'" in policy


def test_a_deleted_persons_certificate_is_withdrawn_everywhere(place: Site) -> None:
    who, _ = somebody(place, name="Weg Persoon")
    _, admin = somebody(place, role="administrator")
    made = issuing.request(place.core, who, site.passed(place.core, who))
    with admin, place.client() as stranger:
        jwt = stranger.get(f"/c/{made.id}.jwt").content
        page = admin.get(f"/admin/people/{who.id}").text
        assert post(admin, f"/admin/people/{who.id}/erase", page).status_code == 422
        assert post(admin, f"/admin/people/{who.id}/erase", page, sure="yes").status_code == 303
        for code in LANGUAGES:
            found = stranger.get(f"/c/{made.id}", headers={"accept-language": code})
            assert found.status_code == 410
            assert translator(code)("shardwise.site-verdict-withdrawn") in visible(found.text)
            assert "Weg Persoon" not in found.text
        for form in ("pdf", "jwt", "preview.png"):
            assert stranger.get(f"/c/{made.id}.{form}").status_code == 404
        judged = certificates.verify(jwt, trust=certificates_trust(place), fetch=over_http(stranger))
        assert judged.verdict == "invalid"
        assert judged.failed is not None
        assert judged.failed.reason == "revocation-revoked"
        with place.core.store.reading() as session:
            row = session.get_one(Certificate, made.id)
            assert (row.name, row.jwt, row.intent) == ("", None, {})
        assert "Weg Persoon" not in admin.get("/admin/people").text


def test_a_name_that_is_markup_stays_a_name(place: Site) -> None:
    who, client = somebody(place, name="Robert'); DROP")
    with client:
        done = site.passed(place.core, who)
        page = client.get(f"/attempts/{done}/certificate").text
        for bad in ("a\u202eb", "", "x" * 300):
            assert post(client, f"/attempts/{done}/certificate", page, name=bad).status_code == 422, bad
        made = post(client, f"/attempts/{done}/certificate", page, name="<img src=x onerror=alert(1)>")
        shown = client.get(made.headers["location"]).text
        assert "&lt;img src=x onerror=alert(1)&gt;" in shown
        assert "<img src=x" not in shown


# --- examiners


def test_a_cohort_is_tried_before_it_is_written(place: Site) -> None:
    _, examiner = somebody(place, role="examiner")
    csv = "email,name,extra_percent\nc1@example.org,Een Naam,25\nc2@example.org,Twee Naam,\n"
    with examiner:
        page = examiner.get("/admin/cohorts").text
        files = {"file": ("class.csv", csv.encode(), "text/csv")}
        tried = examiner.post("/admin/cohorts", data={"csrf": csrf(page), "name": "Group 1"}, files=files)
        assert tried.status_code == 200
        assert "Group 1" not in visible(examiner.get("/admin/cohorts").text)
        assert "Een Naam" in tried.text
        really = post(examiner, "/admin/cohorts", tried.text, name="Group 1", text=csv, really="yes")
        assert really.status_code == 303
        shown = examiner.get("/admin/cohorts").text
        assert "Group 1" in shown
        training = re.search(r"/admin/cohorts/[0-9a-f-]+/training\.csv", shown)
        assert training
        assert "c1@example.org" in examiner.get(training[0]).text
        bad = {"file": ("class.csv", b"email\nnonsense\nok@example.org\n", "text/csv")}
        refused = examiner.post("/admin/cohorts", data={"csrf": csrf(page), "name": "Group 2"}, files=bad)
        assert "Line 2" in visible(refused.text)
        assert 'name="really"' not in refused.text
        binary = {"file": ("class.csv", b"\xff\xfe\x00a", "text/csv")}
        data = {"csrf": csrf(page), "name": "Group 3"}
        assert examiner.post("/admin/cohorts", data=data, files=binary).status_code == 422
        fields = {"exam": "many", "opens": "2026-01-01T09:00", "closes": "2036-01-01T09:00", "supervised": "yes"}
        assert post(examiner, "/admin/sittings", page, **fields, unlock="12345").status_code == 422
        assert post(examiner, "/admin/sittings", page, **{**fields, "opens": "soon"}).status_code == 422
        assert post(examiner, "/admin/sittings", page, **fields).status_code == 303
        assert "Supervised" in examiner.get("/admin/sittings").text


# --- health, privacy, logs


def test_health_says_up_and_ready_and_readiness_falls_with_the_database(tmp_path: Path) -> None:
    with site.running(tmp_path, practical=False) as place, place.client() as client:
        assert client.get("/healthz").json() == {"state": "up"}
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["state"]) == (200, "ready")
        place.core.store.engine.dispose()
        database = Path(place.core.settings.database.removeprefix("sqlite:///"))
        hidden = database.with_suffix(".hidden")
        for end in ("", "-wal", "-shm"):
            if (part := database.with_name(database.name + end)).exists():
                part.rename(hidden.with_name(hidden.name + end))
        database.mkdir()
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        database.rmdir()
        for end in ("", "-wal", "-shm"):
            if (part := hidden.with_name(hidden.name + end)).exists():
                part.rename(database.with_name(database.name + end))
        place.core.store.engine.dispose()
        assert client.get("/readyz").status_code == 200


def test_the_privacy_page_says_what_the_settings_do(tmp_path: Path) -> None:
    from contextlib import closing

    from shardwise.service.settings import Oidc, Secret, Smtp

    smtp = Smtp(host="mail.example", port=587, sender="a@b.example", tls="starttls", user=None, password=None)
    oidc = Oidc(issuer="https://id.example", client_id="x", client_secret=Secret("y"), name="Example ID")

    def said(**changes: Any) -> str:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        with closing(making.core_of(folder, **changes)) as core:
            return " ".join(line for part in privacy.parts(core, language("en")) for line in part["lines"])

    plain = said(with_issuer=False, link_minutes=17, session_hours=3)
    assert "17 minutes" in plain
    assert formats.duration(3 * 3600, "en") in plain
    assert "issues no certificates" in plain
    assert "No mail server" in plain
    assert "Example ID" not in plain
    full = said(smtp=smtp, oidc=oidc, accounts="open")
    for part in ("mail.example", "Example ID", "Example University", "while you sign in elsewhere"):
        assert part in full
    assert "No mail server" not in full
    none = said(accounts="off", oidc=oidc)
    assert "link that opens once" not in none
    assert "mail server" not in none.lower()


def test_the_log_names_nobody(tmp_path: Path) -> None:
    written = io.StringIO()
    kept = logging.getLogger().handlers[:]
    levels = {name: logging.getLogger(name).level for name in ("", logs.LOGGER)}
    logs.configure(written)
    try:
        with site.running(tmp_path, practical=False) as place:
            who, client = somebody(place, name="Geheim Persoon")
            done = site.passed(place.core, who)
            made = issuing.request(place.core, who, done)
            with client, place.client() as stranger:
                stranger.get(f"/c/{made.id}")
                stranger.get("/sign-in/link?token=abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG")
                page = client.get(f"/attempts/{done}/result").text
                post(client, "/sign-in/link", page, email="geheim@example.org")
                client.get("/nowhere?email=geheim@example.org")
                boom = place.app.state.pages.page
                place.app.state.pages.page = None  # a fault of ours, in the middle of a request
                failed = client.get("/certificates")
                place.app.state.pages.page = boom
                assert failed.status_code == 500
    finally:
        logging.getLogger().handlers = kept
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    text = written.getvalue()
    lines = [json.loads(line) for line in text.splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    assert len(requests) >= 6
    assert {"request", "method", "route", "status", "ms", "address"} <= set(requests[0])
    assert any("account" in line for line in requests)
    assert any(line["event"] == "failed" and line["error"]["kind"] == "builtins.TypeError" for line in lines)
    for secret in ("Geheim", "geheim", "@example.org", made.id, done, who.id, "127.0.0.1", made.jwt[:40], "abcdefghij"):
        assert secret not in text, secret


def test_what_libraries_say_is_struck_of_what_names_or_opens() -> None:
    said = "login of a.b@c.example from 192.0.2.7 with eyJhbGciOi.eyJ.abc and 0123456789abcdef0123456789abcdef failed"
    assert logs.struck(said) == "login of […] from […] with […] and […] failed"
    record = logging.LogRecord("x", logging.ERROR, "f", 1, "for %s", ("a.b@c.example",), None)
    assert json.loads(logs.Lines().format(record))["event"] == "for […]"
