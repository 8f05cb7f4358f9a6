"""QTI 2.1 as a content package: `imsmanifest.xml` and one file for each question, in a ZIP.

Marking is written out as response processing, so that a system needs no template of its own: a score between 0 and 1,
and the identifiers of what is told as feedback. The package is read with bounds on its files, their sizes and their
names.
"""

from __future__ import annotations

import dataclasses
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from quiz.exchange.gift import number_of
from quiz.exchange.marked import from_html, to_html
from quiz.exchange.model import LARGEST, MOST, Choice, Exchanged, Loss, Number, Pairing, losses_in, normal
from quiz.exchange.xml import first, local, named, parsed, written
from translations import CourseError

ITEM = "http://www.imsglobal.org/xsd/imsqti_v2p1"
PACKAGE = "http://www.imsglobal.org/xsd/imscp_v1p1"
METADATA = "http://www.imsglobal.org/xsd/imsmd_v1p2"
SCHEMA = "http://www.imsglobal.org/xsd/qti/qtiv2p1/imsqti_v2p1.xsd"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_INLINE = {
    "p",
    "div",
    "pre",
    "code",
    "sub",
    "sup",
    "var",
    "span",
    "br",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "b",
    "i",
    "tt",
}


def held(question: Exchanged) -> tuple[Exchanged, tuple[Loss, ...]]:
    """The question as QTI can hold it: all of it."""
    return question, ()


def write(questions: Iterable[Exchanged]) -> tuple[bytes, tuple[Loss, ...]]:
    """The package, and what it cannot hold. Equal questions give equal bytes."""
    manifest = Element("manifest", {"xmlns": PACKAGE, "identifier": "shardwise-questions"})
    metadata = SubElement(manifest, "metadata")
    SubElement(metadata, "schema").text = "QTIv2.1 Package"
    SubElement(metadata, "schemaversion").text = "1.0.0"
    SubElement(manifest, "organizations")
    resources = SubElement(manifest, "resources")
    files = []
    for number, each in enumerate(questions, 1):
        name = f"items/q{number:04}.xml"
        files.append((name, written(_item(each))))
        resource = SubElement(
            resources, "resource", {"identifier": f"q{number:04}", "type": "imsqti_item_xmlv2p1", "href": name}
        )
        _keywords(SubElement(resource, "metadata"), each)
        SubElement(resource, "file", {"href": name})
    return _zipped([("imsmanifest.xml", written(manifest)), *files]), ()


def _zipped(files: Sequence[tuple[str, bytes]]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in files:
            package.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _keywords(parent: Element, question: Exchanged) -> None:
    if not question.tags:
        return
    general = SubElement(SubElement(parent, "lom", {"xmlns": METADATA}), "general")
    for tag in question.tags:
        SubElement(SubElement(general, "keyword"), "langstring").text = tag


def _item(question: Exchanged) -> Element:
    kind = {"number": ("single", "float"), "choice": ("single", "identifier"), "several": ("multiple", "identifier")}
    cardinality, base = {**kind, "order": ("ordered", "identifier"), "match": ("multiple", "directedPair")}[
        question.form
    ]
    item = Element(
        "assessmentItem",
        {
            "xmlns": ITEM,
            "xmlns:xsi": _INSTANCE,
            "xsi:schemaLocation": f"{ITEM} {SCHEMA}",
            "identifier": _identifier(question.id),
            "title": question.id,
            "adaptive": "false",
            "timeDependent": "false",
            "xml:lang": question.language,
        },
    )
    declared = SubElement(
        item, "responseDeclaration", {"identifier": "RESPONSE", "cardinality": cardinality, "baseType": base}
    )
    _right(declared, question)
    outcome = {"identifier": "SCORE", "cardinality": "single", "baseType": "float"}
    default = SubElement(SubElement(item, "outcomeDeclaration", outcome), "defaultValue")
    SubElement(default, "value").text = "0"
    SubElement(
        item, "outcomeDeclaration", {"identifier": "FEEDBACK", "cardinality": "multiple", "baseType": "identifier"}
    )
    body = SubElement(item, "itemBody")
    for block in _blocks(to_html(question.text, question.code)):
        body.append(block)
    _interaction(body, question)
    _processing(SubElement(item, "responseProcessing"), question)
    for identifier, text in _feedbacks(question):
        modal = SubElement(
            item, "modalFeedback", {"outcomeIdentifier": "FEEDBACK", "identifier": identifier, "showHide": "show"}
        )
        for block in _blocks(to_html(text)):
            modal.append(block)
    return item


def _identifier(id: str) -> str:
    kept = re.sub(r"[^A-Za-z0-9_.-]", "-", id)[:30]
    return kept if re.match(r"[A-Za-z_]", kept) else f"q-{kept}"


def _right(declared: Element, question: Exchanged) -> None:
    if question.form == "number":
        right = [repr(each.value) for each in question.numbers if each.right]
    elif question.form == "match":
        fits = _fits(question)
        right = [f"r{n} a{fits.index(pair.fit) + 1}" for n, pair in enumerate(question.pairs, 1)]
    elif question.form == "order":
        right = [f"s{n}" for n in range(1, len(question.steps) + 1)]
    else:
        right = [f"o{n}" for n, choice in enumerate(question.choices, 1) if choice.right]
    if right:
        values = SubElement(declared, "correctResponse")
        for each in right:
            SubElement(values, "value").text = each
    if question.form in ("several", "match") and right:
        share = 1 / len(right)
        mapping = SubElement(
            declared,
            "mapping",
            {"lowerBound": "0", "upperBound": "1", "defaultValue": repr(-share if question.form == "several" else 0.0)},
        )
        for each in right:
            SubElement(mapping, "mapEntry", {"mapKey": each, "mappedValue": repr(share)})


def _fits(question: Exchanged) -> list[str]:
    """Every answer of a match once: those that fit, then those that fit nothing."""
    return list(dict.fromkeys([*(pair.fit for pair in question.pairs), *question.extra]))


def _interaction(body: Element, question: Exchanged) -> None:
    if question.form == "number":
        SubElement(
            SubElement(body, "p"), "textEntryInteraction", {"responseIdentifier": "RESPONSE", "expectedLength": "16"}
        )
        return
    names = {"choice": "choiceInteraction", "several": "choiceInteraction", "order": "orderInteraction"}
    fields = {"responseIdentifier": "RESPONSE", "shuffle": "true" if question.form in ("order", "match") else "false"}
    if question.form == "match":
        made = SubElement(body, "matchInteraction", {**fields, "maxAssociations": str(len(question.pairs))})
        rows, fits = SubElement(made, "simpleMatchSet"), SubElement(made, "simpleMatchSet")
        for n, pair in enumerate(question.pairs, 1):
            row = SubElement(rows, "simpleAssociableChoice", {"identifier": f"r{n}", "matchMax": "1"})
            _inline(row, pair.text)
        for n, fit in enumerate(_fits(question), 1):
            answer = SubElement(fits, "simpleAssociableChoice", {"identifier": f"a{n}", "matchMax": "0"})
            _inline(answer, fit)
        return
    if question.form != "order":
        fields["maxChoices"] = "1" if question.form == "choice" else "0"
    made = SubElement(body, names[question.form], fields)
    letter = "s" if question.form == "order" else "o"
    for n, text in enumerate(question.steps or [each.text for each in question.choices], 1):
        _inline(SubElement(made, "simpleChoice", {"identifier": f"{letter}{n}"}), text)


def _processing(parent: Element, question: Exchanged) -> None:
    if question.form in ("several", "match"):
        SubElement(
            SubElement(parent, "setOutcomeValue", {"identifier": "SCORE"}), "mapResponse", {"identifier": "RESPONSE"}
        )
    elif question.form == "number":
        condition = SubElement(parent, "responseCondition")
        for n, number in enumerate(question.numbers):
            branch = SubElement(condition, "responseElseIf" if n else "responseIf")
            between = SubElement(branch, "and")
            for name, value in (("gte", number.value - number.tolerance), ("lte", number.value + number.tolerance)):
                compared = SubElement(between, name)
                SubElement(compared, "variable", {"identifier": "RESPONSE"})
                SubElement(compared, "baseValue", {"baseType": "float"}).text = repr(value)
            _sets(branch, "SCORE", "float", "1" if number.right else "0")
            if number.feedback:
                multiple = SubElement(SubElement(branch, "setOutcomeValue", {"identifier": "FEEDBACK"}), "multiple")
                SubElement(multiple, "baseValue", {"baseType": "identifier"}).text = f"n{n + 1}"
    else:
        condition = SubElement(parent, "responseCondition")
        branch = SubElement(condition, "responseIf")
        match = SubElement(branch, "match")
        SubElement(match, "variable", {"identifier": "RESPONSE"})
        SubElement(match, "correct", {"identifier": "RESPONSE"})
        _sets(branch, "SCORE", "float", "1")
    told = SubElement(SubElement(parent, "setOutcomeValue", {"identifier": "FEEDBACK"}), "multiple")
    if question.form in ("choice", "several"):
        SubElement(told, "variable", {"identifier": "RESPONSE"})
    elif question.form == "number":
        SubElement(told, "variable", {"identifier": "FEEDBACK"})
    SubElement(told, "baseValue", {"baseType": "identifier"}).text = "GENERAL"


def _sets(parent: Element, name: str, base: str, value: str) -> None:
    SubElement(
        SubElement(parent, "setOutcomeValue", {"identifier": name}), "baseValue", {"baseType": base}
    ).text = value


def _feedbacks(question: Exchanged) -> Iterable[tuple[str, str]]:
    yield from ((f"o{n}", each.feedback) for n, each in enumerate(question.choices, 1) if each.feedback)
    yield from ((f"n{n}", each.feedback) for n, each in enumerate(question.numbers, 1) if each.feedback)
    if question.feedback:
        yield "GENERAL", question.feedback


def _blocks(markup: str) -> list[Element]:
    """HTML of ours as elements that QTI allows: no direction, and formulas in a span."""
    root = fromstring(f"<div>{_allowed(markup)}</div>")
    return list(root)


def _inline(parent: Element, text: str) -> None:
    """A text in an element that takes inline marks; paragraphs stand in a line each."""
    blocks = _blocks(to_html(text))
    for n, block in enumerate(blocks):
        if n:
            SubElement(parent, "br")
            SubElement(parent, "br")
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + (block.text or "")
        else:
            parent.text = (parent.text or "") + (block.text or "")
        parent.extend(list(block))


def _allowed(markup: str) -> str:
    markup = re.sub(r' dir="[a-z]+"', "", markup)
    return markup.replace('<bdi class="formula">', '<span class="formula">').replace("</bdi>", "</span>")


# --- reading


def read(data: bytes) -> tuple[tuple[Exchanged, ...], tuple[Loss, ...]]:
    """The questions of a package (or of one file), and what was not understood.

    Raises CourseError for what is no QTI 2.
    """
    if len(data) > LARGEST:
        raise CourseError("quiz.exchange-too-large")
    if not data.startswith(b"PK"):
        lost = list[Loss]()
        found = _read_item(data, "question-1", (), lost)
        return ((found,) if found is not None else ()), losses_in(lost)
    files = _unzipped(data)
    manifest = next((files[name] for name in files if name.rpartition("/")[2] == "imsmanifest.xml"), None)
    if manifest is None:
        raise CourseError("quiz.exchange-unreadable", format="QTI", reason="imsmanifest.xml")
    questions, lost = [], list[Loss]()
    for number, (href, tags) in enumerate(_resources(parsed(manifest, form="QTI")), 1):
        if number > MOST:
            raise CourseError("quiz.exchange-too-large")
        if href not in files:
            lost.append(Loss(id=href[:200], what="missing-file"))
            continue
        found = _read_item(files[href], f"question-{number}", tags, lost)
        if found is not None:
            questions.append(found)
    return tuple(questions), losses_in(lost)


def _unzipped(data: bytes) -> dict[str, bytes]:
    """The XML files of a package in memory; nothing is ever written under a name from inside."""
    files: dict[str, bytes] = {}
    room = LARGEST
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as package:
            entries = [each for each in package.infolist() if each.filename.endswith(".xml")]
            if len(entries) > MOST + 1:
                raise CourseError("quiz.exchange-too-large")
            for each in entries:
                with package.open(each) as opened:
                    # What an entry says of its size is not believed: no more is unpacked than there is room for.
                    files[each.filename] = opened.read(room + 1)
                room -= len(files[each.filename])
                if room < 0:
                    raise CourseError("quiz.exchange-too-large")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        raise CourseError("quiz.exchange-unreadable", format="QTI", reason=str(error)[:200]) from error
    except Exception as error:
        if type(error).__module__ in ("zlib", "_lzma", "lzma"):
            raise CourseError("quiz.exchange-unreadable", format="QTI", reason=str(error)[:200]) from error
        raise
    return files


def _resources(manifest: Element) -> Iterable[tuple[str, tuple[str, ...]]]:
    for resources in named(manifest, "resources"):
        for resource in named(resources, "resource"):
            if (resource.get("type") or "").startswith("imsqti_item"):
                tags = tuple(
                    normal("".join(each.itertext()))[:200] for each in resource.iter() if local(each) == "langstring"
                )
                yield resource.get("href") or "", tags


def _read_item(data: bytes, name: str, tags: tuple[str, ...], lost: list[Loss]) -> Exchanged | None:
    root = parsed(data, form="QTI")
    if local(root) != "assessmentItem":
        raise CourseError("quiz.exchange-unreadable", format="QTI", reason=f"<{local(root)[:60]}>")
    return _Reader(root, name, tags, lost).question()


class _Reader:
    def __init__(self, root: Element, name: str, tags: tuple[str, ...], lost: list[Loss]) -> None:
        self._root, self._lost, self._tags = root, lost, tags
        self._name = normal(root.get("title") or root.get("identifier") or name)[:200] or name

    def _loses(self, what: str) -> None:
        self._lost.append(Loss(id=self._name, what=what))

    def question(self) -> Exchanged | None:
        body = first(self._root, "itemBody")
        declared = first(self._root, "responseDeclaration")
        interactions = [] if body is None else [each for each in body.iter() if local(each).endswith("Interaction")]
        if body is None or declared is None or len(interactions) != 1:
            self._loses("form")
            return None
        [interaction] = interactions
        text, code = self._text(body)
        made = Exchanged(
            id=self._name,
            form="choice",
            text=text,
            code=code,
            feedback=self._feedback("GENERAL"),
            language=(self._root.get("{http://www.w3.org/XML/1998/namespace}lang") or "en")[:20],
            tags=self._tags,
        )
        right = [(each.text or "").strip() for each in self._values(declared)]
        match local(interaction):
            case "choiceInteraction":
                return self._choices(made, interaction, right, declared.get("cardinality") == "multiple")
            case "orderInteraction":
                return self._order(made, interaction, right)
            case "matchInteraction":
                return self._match(made, interaction, right)
            case "textEntryInteraction" if declared.get("baseType") in ("float", "integer"):
                return self._number(made, right)
        self._loses("short-answer" if local(interaction) == "textEntryInteraction" else "form")
        return None

    def _values(self, declared: Element) -> list[Element]:
        correct = first(declared, "correctResponse")
        return [] if correct is None else list(named(correct, "value"))

    def _text(self, element: Element) -> tuple[str, str]:
        """Text and code of an element; what is an interaction is no text of it."""
        text, code, media = from_html(_markup(element))
        if media:
            self._loses("media")
        return text, code

    def _feedback(self, identifier: str) -> str:
        for modal in named(self._root, "modalFeedback"):
            if modal.get("identifier") == identifier:
                return self._text(modal)[0]
        return ""

    def _choices(self, made: Exchanged, interaction: Element, right: list[str], several: bool) -> Exchanged:
        prompt = first(interaction, "prompt")
        if prompt is not None:
            made = dataclasses.replace(made, text=normal(f"{made.text}\n\n{self._text(prompt)[0]}"))
        choices = tuple(
            Choice(
                text=self._text(each)[0],
                right=each.get("identifier") in right,
                feedback=self._feedback(each.get("identifier") or ""),
            )
            for each in named(interaction, "simpleChoice")
        )
        return dataclasses.replace(made, form="several" if several else "choice", choices=choices)

    def _order(self, made: Exchanged, interaction: Element, right: list[str]) -> Exchanged | None:
        steps = {each.get("identifier") or "": self._text(each)[0] for each in named(interaction, "simpleChoice")}
        if sorted(right) != sorted(steps):
            self._loses("no-key")
            return None
        return dataclasses.replace(made, form="order", steps=tuple(steps[each] for each in right))

    def _match(self, made: Exchanged, interaction: Element, right: list[str]) -> Exchanged | None:
        sets = [
            {each.get("identifier") or "": self._text(each)[0] for each in named(held, "simpleAssociableChoice")}
            for held in named(interaction, "simpleMatchSet")
        ]
        fitting = dict(each.split()[:2] for each in right if len(each.split()) == 2)
        if len(sets) != 2 or set(fitting) != set(sets[0]) or not set(fitting.values()) <= set(sets[1]):
            self._loses("no-key")
            return None
        pairs = tuple(Pairing(text=text, fit=sets[1][fitting[key]]) for key, text in sets[0].items())
        extra = tuple(text for key, text in sets[1].items() if key not in fitting.values())
        return dataclasses.replace(made, form="match", pairs=pairs, extra=extra)

    def _number(self, made: Exchanged, right: list[str]) -> Exchanged | None:
        numbers = self._branches()
        if not any(each.right for each in numbers):
            key = number_of(right[0]) if right else None
            if key is None:
                self._loses("no-key")
                return None
            numbers = [Number(value=key[0], tolerance=0.0, right=True), *numbers]
            self._loses("tolerance")
        return dataclasses.replace(made, form="number", numbers=tuple(numbers))

    def _branches(self) -> list[Number]:
        """The ranges that our own response processing tells apart; of another's, nothing."""
        found = []
        for branch in self._root.iter():
            if local(branch) not in ("responseIf", "responseElseIf"):
                continue
            bounds, score, told = {}, 0.0, ""
            for each in branch.iter():
                kind = local(each)
                if kind in ("gte", "lte"):
                    value = first(each, "baseValue")
                    number = number_of(value.text or "") if value is not None else None
                    if number is not None:
                        bounds[kind] = number[0]
                elif kind == "setOutcomeValue":
                    value = next((one for one in each.iter() if local(one) == "baseValue"), None)
                    if each.get("identifier") == "SCORE" and value is not None:
                        score = (number_of(value.text or "") or (0.0, 0.0))[0]
                    elif value is not None:
                        told = (value.text or "").strip()
            if len(bounds) == 2:
                middle, half = (bounds["gte"] + bounds["lte"]) / 2, abs(bounds["lte"] - bounds["gte"]) / 2
                feedback = self._feedback(told) if told else ""
                found.append(Number(value=middle, tolerance=half, right=score > 0, feedback=feedback))
        return found


def _markup(element: Element) -> str:
    """What stands in an element as HTML without namespaces, interactions left out."""
    copied = Element("div")
    _copy(element, copied)
    return tostring(copied, encoding="unicode")


def _copy(source: Element, target: Element) -> None:
    target.text = source.text
    for child in source:
        kind = local(child)
        if kind.endswith("Interaction") or kind == "prompt":
            if len(target):
                target[-1].tail = (target[-1].tail or "") + (child.tail or "")
            else:
                target.text = (target.text or "") + (child.tail or "")
            continue
        made = SubElement(target, kind if kind in _INLINE else "img" if kind in ("img", "object", "math") else "div")
        if child.get("class") == "formula":
            made.set("class", "formula")
        _copy(child, made)
        made.tail = child.tail
