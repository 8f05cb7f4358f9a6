"""The commands: an organisation's from its machine, and a learner's, who asks a service that answers."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from shardwise import cli
from shardwise.service import asking, cohorts
from tests.shardwise.service.making import core_of, exam_folder, served
from translations import CourseError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SHARDWISE_LANG", "en")
    exam_folder(tmp_path / "exams")
    path = tmp_path / "service.yaml"
    fields = {"data": str(tmp_path / "data"), "exams": "exams", "accounts": "open"}
    path.write_text(yaml.safe_dump(fields), encoding="utf-8")
    return path


def test_a_cohort_and_an_exam_from_the_terminal(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv = file.with_name("class.csv")
    csv.write_text("email;name;extra_percent\nnoor@example.org;Noor;25\n", encoding="utf-8")

    def does(*words: str) -> tuple[int, str, str]:
        code = cli.run(["service", *words, "--settings", str(file)])
        said = capsys.readouterr()
        return code, said.out, said.err

    assert "1 new" in does("cohort", "Monday", str(csv), "--dry-run")[1]
    assert "1 new" in does("cohort", "Monday", str(csv))[1]
    assert "0 new" in does("cohort", "Monday", str(csv))[1]
    csv.write_text("email\nnoor@example.org\nNoor\nnoor@example.org\n", encoding="utf-8")
    code, out, err = does("cohort", "Monday", str(csv), "--lang", "nl")
    assert (code, out.startswith("Er is niets geschreven")) == (1, True)
    assert "Regel 3" in err
    assert "twee keer" in err
    window = ("--opens", "2026-12-01T09:00+01:00", "--closes", "2026-12-01T12:00+01:00")
    code, out, _ = does("sitting", "short", *window, "--cohort", "Monday", "--json")
    assert code == 0
    assert does("results", json.loads(out)["sitting"])[1].startswith("\ufeffreference")
    assert "noor@example.org,Noor" in does("training", "Monday")[1]
    assert does("sitting", "short", "--opens", "today", "--closes", "tomorrow")[0] == 2
    assert "no such cohort" in does("sitting", "short", *window, "--cohort", "Tuesday")[2]
    assert json.loads(does("exams", "--json")[1]) == [{"exam": "short", "items": 6, "held": 12, "public": "no"}]
    assert does("role", "noor@example.org", "examiner")[0] == 0
    assert does("role", "noor@example.org", "king")[0] == 1
    assert does("migrate")[0] == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [("public_url: http://exams.example", "not https"), ("accounts: 'off'", "Nobody could"), ("tls: no", "no setting")],
)
def test_serving_refuses_what_is_unsafe(
    file: Path, capsys: pytest.CaptureFixture[str], setting: str, said: str
) -> None:
    name = setting.partition(":")[0]
    kept = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith(name)]
    file.write_text("\n".join([*kept, setting]), encoding="utf-8")
    assert cli.run(["serve", "--settings", str(file)]) == 2
    assert said in capsys.readouterr().err


def test_a_learner_asks_an_issuer_for_its_exam(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARDWISE_LANG", "en")
    with closing(core_of(tmp_path)) as core, served(core) as client:
        url = str(client.base_url).rstrip("/")
        assert cli.run(["certificate", "request", "--issuer", url]) == 0
        shown = capsys.readouterr().out
        assert core.issuing is not None
        assert core.issuing.issuer.key.fingerprint in shown
        assert "short  A short exam" in shown
        words = ["certificate", "request", "--issuer", url, "--exam", "short", "--email", "amal@example.org"]
        assert cli.run(words) == 0
        assert "amal@example.org" in capsys.readouterr().out
        core.mail.close()
        assert "token=" in core.settings.outbox.read_text(encoding="utf-8")
        assert cli.run([*words[:-3], "no-such", *words[-2:]]) == 1
        assert "no exam called no-such" in capsys.readouterr().err
        assert cli.run(["certificate", "request", "--issuer", f"{url}/elsewhere"]) == 1


@pytest.mark.parametrize("url", ["http://exams.example", "ftp://127.0.0.1", "https://user@exams.example", "https://"])
def test_an_issuer_is_asked_over_https_only(url: str) -> None:
    with pytest.raises(CourseError):
        asking.checked(url)
    assert asking.checked("exams.example/") == "https://exams.example"


def test_what_a_stranger_says_cannot_steer_the_terminal() -> None:
    found: dict[str, Any] = {
        "did": "did:web:x",
        "name": "\x1b[2J\u202eevil\n",
        "fingerprint": None,
        "exams": [{"exam": "a", "title": "b\r\n"}],
        "sign_in": ["email"],
    }
    from translations import translator

    lines = list(asking.lines(found, translator("en"), email=None, url="https://x"))
    assert not [each for line in lines for each in line if not each.isprintable()]


def test_a_cell_that_a_spreadsheet_would_run_is_text(tmp_path: Path) -> None:
    with closing(core_of(tmp_path)) as core:
        csv = "email,reference\nnoor@example.org,=1+1\n"
        id = cohorts.apply(core, None, "Monday", csv).cohort
        assert "'=1+1,noor@example.org" in cohorts.training_csv(core, id)
    assert cohorts.harmless("Noor; =1+1;B") == "Noor;' =1+1;B"  # where a semicolon begins a cell
    assert cohorts.harmless("Jan-Piet; M.") == "Jan-Piet; M."


@pytest.mark.parametrize(
    ("csv", "said"),
    [
        ("name\nNoor\n", "email must be one"),
        ("email,phone\na@example.org,1\n", "phone"),
        ("email,email\na@example.org,b@example.org\n", "each once"),
        ("email,extra_percent\na@example.org,-5\n", "0 to 300"),
        ("email,extra_percent\na@example.org,٢٥\n", "0 to 300"),
        ("email,language\na@example.org,xx\n", "no language xx"),
        ("email\na@example.org\nA@Example.org\n", "twice"),
        ("email\na@example.org,more\n", "as CSV"),
        ('email,name\na@example.org,"never closed\n', "as CSV"),
        ("email,name\na@example.org,<\u202eevil>\n", "name"),
        ("email\nnot an address\n", "e-mail address"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said_and_nothing_is_written(tmp_path: Path, csv: str, said: str) -> None:
    with closing(core_of(tmp_path)) as core:
        found = cohorts.apply(core, None, "Monday", csv)
        assert found.dry_run
        assert said in str(found.problems[0].error)
        assert cohorts.cohorts(core) == ()
