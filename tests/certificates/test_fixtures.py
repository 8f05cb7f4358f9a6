"""One folder of certificates, three verifiers: Python, the page, and npm jose for the signature."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from certificates import strict, verify
from certificates.strict import Refused
from tests.certificates import make_fixtures

FOLDER = make_fixtures.FOLDER
EXPECTED: dict[str, dict[str, Any]] = json.loads(make_fixtures.EXPECTED.read_text(encoding="utf-8"))["files"]
NODE = Path(__file__).parent / "node"


def test_the_folder_holds_what_is_expected_and_enough_of_it() -> None:
    files = {each.name for each in FOLDER.iterdir()} - {"expected.json"}
    assert files == set(EXPECTED)
    assert sum(each["verdict"] == "invalid" for each in EXPECTED.values()) >= 35
    assert {each["step"] for each in EXPECTED.values()} >= {"format", "signature", "issuer", "dates", "evidence", None}


def test_the_folder_is_in_step_with_its_script(tmp_path: Path) -> None:
    make_fixtures.main(tmp_path)
    for name in EXPECTED:
        if name.endswith(".jwt"):
            assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name
    assert (tmp_path / "expected.json").read_text() == make_fixtures.EXPECTED.read_text()
    issued, made = FOLDER.with_name("fixtures_of_issuers"), tmp_path.with_name(f"{tmp_path.name}_of_issuers")
    assert {each.name for each in made.iterdir()} == {each.name for each in issued.iterdir()}
    for path in (*made.glob("*.jwt"), *made.glob("*.json")):
        assert path.read_bytes() == (issued / path.name).read_bytes(), path.name


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_python_gives_the_expected_verdict(name: str) -> None:
    verification = verify((FOLDER / name).read_bytes())
    failed = verification.failed
    found = {
        "verdict": verification.verdict,
        "step": failed and failed.step,
        "reason": failed and failed.reason,
    }
    assert found == EXPECTED[name]
    signed = {each.step: each.result for each in verification.steps}["signature"] == "pass"
    assert (verification.credential is not None) == signed, "only what was signed is shown"


def test_our_profile_allows_nothing_that_open_badges_does_not() -> None:
    """The page knows only the profile; so the profile must imply 1EdTech's schema."""
    profile = strict.profile("credential")
    open_badges = jsonschema.Draft201909Validator(json.loads(strict.OPEN_BADGES_SCHEMA.read_text(encoding="utf-8")))
    allowed = 0
    for name in EXPECTED:
        token = (FOLDER / name).read_text(encoding="utf-8").strip() if name.endswith(".jwt") else ""
        try:
            body = strict.parse_json(strict.decode_base64url(token.split(".")[1]))
        except (Refused, IndexError):
            continue
        if profile.is_valid(body):
            open_badges.validate(body)
            allowed += 1
    assert allowed > 20


@pytest.mark.node
def test_jose_agrees_about_every_signature() -> None:
    node = shutil.which("node")
    if node is None or not (NODE / "node_modules" / "jose").is_dir():
        pytest.skip(
            "Node.js or npm's jose is missing (npm ci in tests/certificates/node): no independent verifier ran."
        )
    tokens = {
        name: (FOLDER / name).read_text(encoding="ascii").strip()
        for name in EXPECTED
        if name.endswith(".jwt") and EXPECTED[name]["step"] != "format"
    }
    lines = "".join(f"{name}\t{token}\n" for name, token in tokens.items())
    done = subprocess.run(
        [node, "check.mjs"], cwd=NODE, input=lines, capture_output=True, text=True, timeout=60, check=True
    )
    found = dict(line.split("\t") for line in done.stdout.splitlines())
    ours = {}
    for name, token in tokens.items():
        step = next(each for each in verify(token.encode()).steps if each.step == "signature")
        ours[name] = "intact" if step.result == "pass" else "refused"
    # A key in the header that is not the issuer's is our own, stricter rule; jose never looks at it.
    assert {name: result for name, result in found.items() if not name.startswith("other_key_")} == {
        name: result for name, result in ours.items() if not name.startswith("other_key_")
    }
    assert "intact" in found.values()
    assert "refused" in found.values()


def test_the_lock_of_the_independent_verifier_names_no_registry() -> None:
    lock = json.loads((NODE / "package-lock.json").read_text(encoding="utf-8"))
    assert not any("resolved" in each for each in lock["packages"].values())
