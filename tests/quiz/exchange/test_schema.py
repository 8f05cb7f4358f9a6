"""What QTI's published schema asks for. The schema itself (1EdTech's, with a licence to be asked for) is not shipped:
the test of the whole bank against it runs where `QTI_SCHEMA` names `imsqti_v2p1.xsd`, and what it rests on is tested
here.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from xml.etree.ElementTree import Element, fromstring

import pytest

from quiz import items, units
from quiz.exchange import exported, format_named
from quiz.exchange.xml import local

PARTS = ("responseDeclaration", "outcomeDeclaration", "itemBody", "responseProcessing", "modalFeedback")
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def written() -> dict[str, bytes]:
    questions = [
        exported(item, seed=11, language=code)[0] for unit in units() for item in items(unit) for code in ("en", "ar")
    ]
    with zipfile.ZipFile(io.BytesIO(format_named("qti").write(questions)[0])) as package:
        return {name: package.read(name) for name in package.namelist()}


def test_every_part_stands_where_it_must_and_every_identifier_is_one() -> None:
    files = written()
    manifest = fromstring(files.pop("imsmanifest.xml"))
    listed = [each.get("href") for each in manifest.iter() if local(each) == "resource"]
    assert sorted(map(str, listed)) == sorted(files)
    for data in files.values():
        item = fromstring(data)
        places = [PARTS.index(local(child)) for child in item]
        assert places == sorted(places)
        assert {0, 1, 2, 3} <= {*places}
        for each in item.iter():
            for name in ("identifier", "responseIdentifier", "outcomeIdentifier"):
                if name in each.attrib:
                    assert IDENTIFIER.fullmatch(each.attrib[name]), each.attrib[name]
        offered = [
            e.attrib["identifier"] for e in item.iter() if local(e) in ("simpleChoice", "simpleAssociableChoice")
        ]
        assert len(set(offered)) == len(offered)
        right = [(e.text or "") for e in item.iter() if local(e) == "value" and not _numeric(item)]
        told = {word for text in right for word in text.split()} - {"0"}
        assert told <= {*offered}, "what is right is offered"
        shown = {e.attrib["identifier"] for e in item if local(e) == "modalFeedback"}
        assert shown <= {*offered, "GENERAL"} | {f"n{n}" for n in range(1, 20)}
        assert not [e for e in item.iter() if {*e.attrib} & {"dir", "style", "onclick"}]


def _numeric(item: Element) -> bool:
    return any(local(e) == "textEntryInteraction" for e in item.iter())


def test_the_whole_bank_keeps_to_the_published_schema() -> None:
    where = os.environ.get("QTI_SCHEMA")
    if not where:
        pytest.skip("QTI_SCHEMA does not name the published schema, imsqti_v2p1.xsd")
    etree = pytest.importorskip("lxml.etree")
    schema = etree.XMLSchema(etree.parse(where))
    for name, data in written().items():
        if name.startswith("items/"):
            schema.assertValid(etree.fromstring(data))
