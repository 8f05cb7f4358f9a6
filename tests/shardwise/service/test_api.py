"""The API over HTTP: a whole exam, every route by every role and by strangers, what is asked twice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import pytest

from shardwise.record.tables import now
from shardwise.service.core import Core
from tests.shardwise.service.making import QUESTIONS, Clock, core_of, pass_exam, person, right, served, sitting

OPEN = {
    ("GET", "/api/issuer"),
    ("POST", "/api/sign-in/email"),
    ("POST", "/api/sign-in/link"),
    ("POST", "/api/requests"),
    ("GET", "/api/certificates/{certificate}.jwt"),
}
"""What anybody may ask: it tells who issues, sends a link, uses one, or shows what its holder shows around."""
EXAMINERS = ("cohorts", "sittings", "attempts", "requests")
"""What lies below /api/admin/ for examiners; everything else there is for administrators."""


@dataclass
class Site:
    core: Core
    client: httpx.Client
    tokens: dict[str, str]

    def ask(self, method: str, path: str, who: str | None = "learner", **more: Any) -> httpx.Response:
        headers = more.pop("headers", {})
        if who is not None:
            headers = {"authorization": f"Bearer {self.tokens[who]}", **headers}
        return self.client.request(method, path, headers=headers, **more)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with closing(core_of(tmp_path_factory.mktemp("site"), clock=Clock(at=now()))) as core:
        tokens = {
            role: person(core, f"{role}@example.org", role=role)[1] for role in ("learner", "examiner", "administrator")
        }
        with served(core, bare=True) as client:
            yield Site(core, client, tokens)


def operations(site: Site) -> list[tuple[str, str, Any]]:
    paths = site.client.get("/api/openapi.json").json()["paths"]
    return [(method.upper(), path, said) for path, each in paths.items() for method, said in each.items()]


def test_every_route_is_tried_by_every_role_and_by_strangers(site: Site) -> None:
    order = (None, "learner", "examiner", "administrator")
    tried = 0
    for method, path, said in operations(site):
        if path in ("/api/sign-out",):
            continue  # it would end the token; it is tried below
        least = 1
        if (method, path) in OPEN:
            least = 0
        elif path.startswith("/api/admin/"):
            least = 2 if path.split("/")[3] in EXAMINERS else 3
        real = path
        for each in said.get("parameters", ()):
            if each["in"] == "path":
                value = {"number": "1", "exercise": "zero-1"}.get(each["name"], str(uuid.uuid4()))
                real = real.replace(f"{{{each['name']}}}", value)
        for rank, who in enumerate(order):
            found = site.ask(method, real, who, json={"nobody": "asked"} if method != "GET" else None)
            refused = 401 if rank == 0 else 403
            if rank < least:
                assert found.status_code == refused, (method, path, who, found.text)
            else:
                assert found.status_code not in (401, 403, 405, 500), (method, path, who, found.text)
            tried += 1
    assert tried > 120


def test_a_whole_exam_over_http_asked_twice_at_every_step(site: Site) -> None:
    id = sitting(site.core)
    assert id in {each["id"] for each in site.ask("GET", "/api/exams").json()}
    key = {"idempotency-key": "start-of-the-exam"}
    first, second = (site.ask("POST", f"/api/exams/{id}/start", json={}, headers=dict(key)).json() for _ in range(2))
    assert first["id"] == second["id"]
    attempt = f"/api/attempts/{first['id']}"
    for number in range(1, QUESTIONS + 1):
        shown = site.ask("GET", f"{attempt}/questions/{number}?lang=nl").json()
        assert shown["number"] == number
        body = {"answer": right(site.core, first["id"], number)}
        written = [
            site.ask("PUT", f"{attempt}/answers/{number}", json=body, headers={"idempotency-key": f"answer-{number}"})
            for _ in range(2)
        ]
        assert written[0].json() == written[1].json()
    other = site.ask("PUT", f"{attempt}/answers/1", json={"answer": "2"}, headers={"idempotency-key": "answer-2"})
    assert (other.status_code, other.json()["error"]) == (409, "shardwise.service-key-reused")
    assert site.ask("GET", f"{attempt}/result").status_code == 409
    assert [site.ask("POST", f"{attempt}/hand-in").json()["state"] for _ in range(2)] == ["graded", "graded"]
    late = site.ask("PUT", f"{attempt}/answers/1", json={"answer": "1"}, headers={"accept-language": "nl"})
    assert (late.status_code, late.json()["error"]) == (403, "quiz.exam-handed-in")
    assert site.ask("GET", f"{attempt}/result").json()["passed"]
    made = [site.ask("POST", f"{attempt}/certificate", json={}).json() for _ in range(2)]
    assert made[0] == made[1]
    assert site.ask("GET", f"/api/certificates/{made[0]['id']}.jwt", None).text == made[0]["jwt"]
    for path in (attempt, f"{attempt}/questions/1", f"{attempt}/result"):
        assert site.ask("GET", path, "administrator").status_code == 404  # an attempt is its learner's


def test_what_an_examiner_does_over_http(site: Site) -> None:
    body = {"name": "Monday", "csv": "email,name\nnoor@example.org,Noor\nbad,Bad\n", "dry_run": False}
    found = site.ask("POST", "/api/admin/cohorts", "examiner", json=body).json()
    assert (found["dry_run"], found["problems"][0]["line"]) == (True, 3)
    body["csv"] = "email,name\nnoor@example.org,Noor\n"
    counts = [site.ask("POST", "/api/admin/cohorts", "examiner", json=body).json() for _ in range(2)]
    assert [(each["new"], each["same"]) for each in counts] == [(1, 0), (0, 1)]
    at = site.core.clock()
    sitting_ = {
        "exam": "short",
        "opens": at.isoformat(),
        "closes": (at + timedelta(days=1)).isoformat(),
        "cohort": counts[0]["cohort"],
    }
    made = site.ask("POST", "/api/admin/sittings", "examiner", json=sitting_)
    assert made.status_code == 201
    wrong = site.ask("POST", "/api/admin/sittings", "examiner", json={**sitting_, "closes": sitting_["opens"]})
    assert wrong.json()["error"] == "shardwise.service-window"
    results = site.ask("GET", f"/api/admin/sittings/{made.json()['id']}/results.csv", "examiner")
    assert results.text.startswith("\ufeffreference,email")
    assert (
        "noor@example.org" in site.ask("GET", f"/api/admin/cohorts/{counts[0]['cohort']}/training.csv", "examiner").text
    )
    assert site.ask("POST", f"/api/admin/sittings/{made.json()['id']}/cancel", "examiner").status_code == 204


def test_an_exam_asked_for_from_the_course_waits_for_an_examiner(site: Site) -> None:
    import re

    asked = site.ask("POST", "/api/requests", None, json={"email": "sam@example.org", "exam": "short"})
    assert asked.status_code == 202
    site.core.mail.close()
    token = re.findall(r"token=([\w-]+)", site.core.settings.outbox.read_text(encoding="utf-8"))[-1]
    visit = site.ask("POST", "/api/sign-in/link", None, json={"token": token}).json()
    waiting = site.ask("GET", "/api/admin/requests", "examiner").json()
    assert [each["email"] for each in waiting] == ["sam@example.org"]
    body = {"name": "Asked", "csv": "email\nx@example.org\n"}
    cohort = site.ask("POST", "/api/admin/cohorts", "examiner", json=body).json()["cohort"]
    path = f"/api/admin/requests/{waiting[0]['id']}/accept"
    assert site.ask("POST", path, "examiner", json={"cohort": cohort}).status_code == 204
    id = sitting(site.core, cohort=cohort)
    site.tokens["sam"] = visit["token"]
    assert id in {each["id"] for each in site.ask("GET", "/api/exams", "sam").json()}
    assert site.ask("POST", "/api/sign-out", "sam").status_code == 204
    assert site.ask("GET", "/api/me", "sam").status_code == 401


def test_a_refused_request_repeats_nothing_of_what_was_sent(site: Site) -> None:
    found = site.ask("PUT", f"/api/attempts/{uuid.uuid4()}/answers/1", json={"answer": {"my": {"secret": "words"}}})
    assert found.status_code == 422
    assert "secret" not in found.text


def test_an_administrator_revokes_and_the_audit_log_says_so_without_names(site: Site) -> None:
    who, token = person(site.core, f"{uuid.uuid4()}@example.org")
    site.tokens["holder"] = token
    attempt = pass_exam(site.core, who).id
    id = site.ask("POST", f"/api/attempts/{attempt}/certificate", "holder", json={}).json()["id"]
    assert (
        site.ask("POST", f"/api/admin/certificates/{id}/revoke", "administrator", json={}).json()["state"] == "revoked"
    )
    rows = site.ask("GET", "/api/admin/audit", "administrator", params={"about": id})
    assert {"certificate-intended", "certificate-issued", "certificate-revoked"} <= {
        each["action"] for each in rows.json()
    }
    assert "Amal" not in rows.text
    assert "example.org" not in rows.text


def test_a_text_that_no_database_holds_is_refused_and_breaks_nothing(core: Core) -> None:
    learner, boss = person(core)[1], person(core, "boss@example.org", role="administrator")[1]
    with served(core) as client:
        for method, path, token, body in (
            ("GET", "/admin/people?q=%00", boss, None),
            ("GET", "/admin/audit?q=a%00b", boss, None),
            ("GET", "/api/admin/accounts?q=%00", boss, None),
            ("POST", "/api/admin/cohorts", boss, {"name": "a\0b", "csv": "email\na@example.org\n"}),
            ("PATCH", "/api/me", learner, {"name": "Amal \0"}),
            ("GET", "/attempts/%00/look", learner, None),
        ):
            found = client.request(method, path, json=body, headers={"authorization": f"Bearer {token}"})
            assert found.status_code < 500, (path, found.status_code)
            assert "NUL" in found.text or core.store.engine.dialect.name == "sqlite" or path == "/api/me", path
