"""Files of strangers: those that other systems write are read, hostile ones are refused in a sentence and at once."""

from __future__ import annotations

import contextlib
import io
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiz.exam import banks
from quiz.exchange import FORMATS, UNFINISHED, exported, format_named, imported
from quiz.exchange.model import LARGEST
from quiz.items import items
from translations import CourseError

UNIT = "04-zero-1"
GIFT = """
// A file as Moodle's own documentation has them.
$CATEGORY: $course$/top/Training

::Q1:: What is sharded by ZeRO-1? {
    =optimizer states # Right. ~parameters # Only by ZeRO-3. ~gradients ~activations }

::TF:: ZeRO-1 sends more bytes than data parallelism. {FALSE}

How many bytes has a bf16 number? {#2:0}

Match these. {=8 bits -> a byte =16 bits -> bf16 =32 bits -> fp32}

// ----- several
Which are collectives? {~%50%all-reduce ~%50%all-gather ~%-100%print ~%0%sleep}

ZeRO was described in {=2019 =2020} by Rajbhandari.

Explain ZeRO-3. {}

Only a remark.

[markdown] Is *this* `code` with \\{braces\\} \\= good? {=yes #Well. ~no ~perhaps}
"""


def test_gift_as_others_write_it() -> None:
    found, lost = format_named("gift").read(GIFT.encode())
    assert [(each.form, len(each.choices or each.pairs or each.numbers)) for each in found] == [
        ("choice", 4), ("choice", 2), ("number", 1), ("match", 3), ("several", 4), ("choice", 3),
    ]  # fmt: skip
    first = found[0]
    assert (first.id, first.text, first.choices[0].feedback) == ("Q1", "What is sharded by ZeRO-1?", "Right.")
    assert [each.right for each in first.choices] == [True, False, False, False]
    assert [each.right for each in found[4].choices] == [True, True, False, False]
    assert found[5].text == "Is *this* 'code' with {braces} = good?"
    assert {each.what for each in lost} == {"missing-word", "short-answer", "essay", "description"}


MOODLE = """<?xml version="1.0" encoding="UTF-8"?>
<quiz><question type="category"><category><text>$course$/x</text></category></question>
<question type="multichoice"><name><text>One</text></name><questiontext format="html"><text><![CDATA[<p>Is <b>this</b>
<code>x&lt;1</code>?<img src="@@PLUGINFILE@@/a.png"></p><script>alert(1)</script>]]></text>
<file name="a.png" encoding="base64">AAAA</file></questiontext><single>true</single>
<answer fraction="100"><text>yes</text><feedback><text>Good.</text></feedback></answer>
<answer fraction="50"><text>half</text></answer><answer fraction="0"><text>no</text></answer></question>
<question type="cloze"><name><text>Two</text></name><questiontext><text>{1:SA:x}</text></questiontext></question>
<question type="numerical"><name><text>Three</text></name><questiontext><text>How many?</text></questiontext>
<answer fraction="100"><text>8</text><tolerance>0.5</tolerance></answer></question>
</quiz>"""


def test_moodle_xml_as_others_write_it() -> None:
    found, lost = format_named("moodle").read(MOODLE.encode())
    assert [(each.id, each.form) for each in found] == [("One", "choice"), ("Three", "number")]
    assert found[0].text == "Is this `x<1`?"
    assert [each.right for each in found[0].choices] == [True, False, False]
    assert {(each.id, each.what) for each in lost} == {("One", "media"), ("One", "partial"), ("Two", "form")}


QTI = """<assessmentItem xmlns="http://www.imsglobal.org/xsd/imsqti_v2p1" identifier="choice" title="Unattended Luggage"
 adaptive="false" timeDependent="false"><responseDeclaration identifier="RESPONSE" cardinality="single"
 baseType="identifier"><correctResponse><value>ChoiceA</value></correctResponse></responseDeclaration>
<itemBody><p>Look at the text in the picture.</p><p><img src="images/sign.png" alt="x"/></p>
<choiceInteraction responseIdentifier="RESPONSE" shuffle="false" maxChoices="1"><prompt>What does it say?</prompt>
<simpleChoice identifier="ChoiceA">You must stay with your luggage at all times.</simpleChoice>
<simpleChoice identifier="ChoiceB">Do not let someone else look after your luggage.</simpleChoice>
<simpleChoice identifier="ChoiceC">Remember your luggage when you leave.</simpleChoice></choiceInteraction></itemBody>
</assessmentItem>"""


def test_qti_as_others_write_it() -> None:
    [found], lost = format_named("qti").read(QTI.encode())
    assert (found.id, found.form) == ("Unattended Luggage", "choice")
    assert found.text.endswith("What does it say?")
    assert [each.right for each in found.choices] == [True, False, False]
    assert [each.what for each in lost] == ["media"]


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;">]><quiz>&c;</quiz>"""
FILE = '<!DOCTYPE quiz [<!ENTITY x SYSTEM "file:///etc/passwd">]><quiz><question type="essay">&x;</question></quiz>'
NET = '<!DOCTYPE quiz SYSTEM "http://192.0.2.1/x.dtd"><quiz/>'
DEEP = "<quiz>" + "<question>" * 5000 + "</question>" * 5000 + "</quiz>"


@pytest.mark.parametrize(
    "text", [BOMB, FILE, NET, DEEP, "", "<quiz>", "<html/>", "\x00", "<quiz>&#0;</quiz>", "not xml"]
)
@pytest.mark.parametrize("name", ["moodle", "qti"])
def test_hostile_xml_is_refused_at_once(name: str, text: str) -> None:
    begun = time.monotonic()
    with pytest.raises(CourseError):
        format_named(name).read(text.encode())
    assert time.monotonic() - begun < 2


def package(files: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in files.items():
            opened.writestr(name, data)
    return held.getvalue()


MANIFEST = b'<manifest><resources><resource type="imsqti_item_xmlv2p1" href="%s"/></resources></manifest>'


def test_hostile_packages_are_refused_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    read = format_named("qti").read
    huge = package({"imsmanifest.xml": MANIFEST % b"a.xml", "a.xml": b" " * (LARGEST + 10)})
    assert len(huge) < 100_000
    for hostile in (
        huge,
        package({"a.xml": b"<x/>"}),
        package({"imsmanifest.xml": BOMB.encode()}),
        package({"imsmanifest.xml": MANIFEST % b"a.xml", "a.xml": FILE.encode()}),
        huge[: len(huge) // 2],
        b"PK\x03\x04" + b"\x00" * 100,
    ):
        begun = time.monotonic()
        with pytest.raises(CourseError):
            read(hostile)
        assert time.monotonic() - begun < 5
    found, lost = read(package({"imsmanifest.xml": MANIFEST % b"../../etc/passwd.xml", "../../x.xml": QTI.encode()}))
    assert found == ()
    assert [each.what for each in lost] == ["missing-file"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["{", "}", "a {{}}", "a { =b", "::x", "a {=b\n\n\n", "\\", "{" * 10000, "a {#" + "9" * 500 + "}"]
)
def test_broken_gift_is_refused_or_read(text: str) -> None:
    begun = time.monotonic()
    try:
        found, lost = format_named("gift").read(text.encode())
        assert not found or lost or found[0].form
    except CourseError:
        pass
    assert time.monotonic() - begun < 2


def test_a_long_run_of_signs_is_read_in_time() -> None:
    for sign in ("\\", "#", "=", "~", ":", "%", "-", "// ", "::", "\n", "[id:", "{}", "a{=b}\n\n"):
        begun = time.monotonic()
        try:
            format_named("gift").read((sign * 40_000).encode())
            format_named("gift").read(("a {=b " + sign * 40_000 + "}").encode())
        except CourseError:
            pass
        assert time.monotonic() - begun < 6, sign


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    data=st.binary(max_size=300),
    cut=st.integers(0, 3000),
    byte=st.integers(0, 255),
)
def test_any_bytes_and_any_damage_give_questions_or_a_sentence(name: str, data: bytes, cut: int, byte: int) -> None:
    form = format_named(name)
    whole = form.write([exported(item, seed=1, language="en")[0] for item in items(UNIT)[:2]])[0]
    place = cut % len(whole)
    for each in (data, whole[:place], whole[:place] + bytes([byte]) + whole[place + 1 :], whole[:place] + data):
        with contextlib.suppress(CourseError):
            form.read(each)


@pytest.mark.parametrize("name", FORMATS)
def test_what_comes_back_is_a_bank_once_its_author_has_finished_it(name: str, tmp_path: Path) -> None:
    form = format_named(name)
    whole = form.write([exported(item, seed=3, language="en")[0] for item in items(UNIT)])[0]
    made = imported(form.read(whole)[0], unit=UNIT)
    assert len(made.items) == len(items(UNIT))
    folder = tmp_path / "bank"
    folder.mkdir()
    (folder / f"{UNIT}.yaml").write_text(made.text(), encoding="utf-8")
    assert {"unfinished"} <= {each.what for each in made.losses}
    with pytest.raises(CourseError, match="still has a text to be written"):
        banks([folder])
    (folder / f"{UNIT}.yaml").write_text(
        made.text().replace(UNFINISHED, "Now it is written by its author."), encoding="utf-8"
    )
    held = banks([folder]).held
    assert set(held) == {item.id for item in items(UNIT)}
    same = {item.id: item for item in items(UNIT)}
    for id, each in held.items():
        assert each.item.objective == same[id].objective
        assert each.item.kind == same[id].kind
        assert not each.item.parameters


def test_what_is_too_small_for_a_bank_is_said() -> None:
    made = imported(format_named("gift").read(GIFT.encode())[0], unit=UNIT)
    assert {(each.id, each.what) for each in made.losses if each.what in ("options", "steps")} == {("TF", "options")}
    assert {"objective", "kind", "unfinished"} <= {each.what for each in made.losses}
