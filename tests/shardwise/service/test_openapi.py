"""The API's own description, used against it: whatever fits it, and much that does not, is answered without a fault of
ours, with a status and a body that the description names.
"""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded

from shardwise.service import attempts, cohorts, issuing
from shardwise.service.app import create_app
from shardwise.service.security import Guard
from tests.shardwise.service import making, site
from tests.shardwise.service.making import Clock

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@dataclasses.dataclass
class Fuzzed:
    """The API with something of everything in it, and an administrator's token."""

    schema: Any
    token: str
    ids: dict[str, list[str]]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    folder = tmp_path_factory.mktemp("fuzz")
    site.exams(folder / "exams", practical=True)
    with closing(making.core_of(folder, clock=Clock(at=datetime.now(UTC)), public_url="http://localhost")) as core:
        boss, token = making.person(core, "boss@example.org", role="administrator")
        other, _ = making.person(core, "other@example.org")
        done = site.passed(core, boss)
        made = issuing.request(core, boss, done)
        sittings = [site.sitting(core, attempts=99), site.sitting(core, code="open-sesame")]
        running = attempts.start(core, boss, sittings[0], language="en")
        app = create_app(core=core, work=False)
        for each in app.user_middleware:
            if each.cls is Guard:  # what is tried here is the routes; the limits have tests of their own
                each.kwargs["protection"] = dataclasses.replace(each.kwargs["protection"], limits=())
        schema = schemathesis.openapi.from_asgi("/api/openapi.json", app, headers={"host": "localhost"})
        ids = {
            "attempt": [running.id, done],
            "sitting": sittings,
            "certificate": [made.id],
            "account": [boss.id, other.id],
            "exercise": ["zero-1"],
        }
        yield Fuzzed(schema, token, ids)


def operations(fuzzed: Fuzzed) -> list[Any]:
    return [each.ok() for each in fuzzed.schema.get_all_operations()]


def fuzz(fuzzed: Fuzzed, *, times: int, seed: int) -> int:
    """How many requests were made."""
    found = [each for each in operations(fuzzed) if not each.label.startswith(SPARED)]
    return sum(_fuzz(fuzzed, each, times=times, seed=seed) for each in found)


def _fuzz(fuzzed: Fuzzed, operation: Any, *, times: int, seed: int) -> int:
    made, chance = 0, random.Random(f"{seed} {operation.label}")

    @seeded(seed)
    @settings(max_examples=times, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def once(case: Any) -> None:
        nonlocal made
        for name, known in fuzzed.ids.items():
            if name in (case.path_parameters or {}) and chance.random() < 0.7:
                case.path_parameters[name] = chance.choice(known)
        headers = {"host": "localhost"}
        if chance.random() < 0.9:
            headers["authorization"] = f"Bearer {fuzzed.token}"
        answer = case.call(headers=headers, base_url="http://localhost")
        made += 1
        if answer.status_code == 503:
            assert "retry-after" in {each.lower() for each in answer.headers}
            return
        case.validate_response(answer, checks=CHECKS)

    once()
    return made


SPARED = ("POST /api/sign-out", "POST /api/admin/accounts/{account}/close", "PUT /api/admin/accounts/{account}/role")
"""They would end the visit, or the role, that all other requests are made with; each has tests of its own."""


def test_the_api_stands_whatever_its_own_description_allows(fuzzed: Fuzzed) -> None:
    assert len(operations(fuzzed)) > 35
    assert fuzz(fuzzed, times=6, seed=1) > 150


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [2, 3])
def test_the_api_stands_for_long(fuzzed: Fuzzed, seed: int) -> None:
    assert fuzz(fuzzed, times=250, seed=seed) > 4000


def test_the_description_names_no_private_route(fuzzed: Fuzzed) -> None:
    """Pages are not part of the API, and nothing in it takes or gives a key, a seed or a paper."""
    described = str(fuzzed.schema.raw_schema)
    for word in ("paper", '"seed"', "'seed'", "bank_hash", "unlock'"):
        assert word not in described, word
    assert all(each.path.startswith("/api/") for each in operations(fuzzed))


def test_a_csv_that_no_parser_reads_is_a_problem_and_no_fault() -> None:
    """Found by the long run of the test above."""
    for text in ("email\rname\n", "a" * 200_000, "\x00", 'email\n"', "email\n\r\r\n", ",\n,"):
        rows, problems = cohorts.read_csv(text)
        assert not rows or not problems
    assert [each.error.id for each in cohorts.read_csv("a" * 200_000)[1]] == ["shardwise.service-csv-broken"]
