"""`shardwise issuer ...`: an organisation becomes an issuer, looks after its keys, and is looked at from outside; and
`shardwise certificate trust`, by which a verifier takes an issuer on their own list.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Context, Option

from shardwise.plan_options import Json, Lang, Printer
from translations import CourseError

if TYPE_CHECKING:
    from certificates.office import Made
    from certificates.trust import Party, Trust
    from translations import Translator

Folder = Annotated[Path, Option("--folder", metavar="FOLDER", help="cli-issuer-folder")]
HERE = Path("issuer")


def add(app: typer.Typer, certificate: typer.Typer, *, print_json: Printer, right_use: Callable[[], Any]) -> None:
    """The commands, in the course's command line."""
    issuer = typer.Typer(name="issuer", help="cli-issuer", no_args_is_help=True)
    app.add_typer(issuer)

    @issuer.callback()
    def everywhere(_lang: Lang = None) -> None:
        """Only declares the option."""

    @issuer.command("init", help="cli-issuer-init")
    def init(
        context: Context,
        domain: Annotated[str, Argument(metavar="DOMAIN", help="cli-issuer-domain")],
        name: Annotated[list[str], Option("--name", metavar="LANG=TEXT", help="cli-issuer-name")],
        folder: Folder = HERE,
        signatory: Annotated[list[str] | None, Option(metavar="LANG=TEXT", help="cli-issuer-signatory")] = None,
        office: Annotated[list[str] | None, Option(metavar="LANG=TEXT", help="cli-issuer-office")] = None,
        logo: Annotated[Path | None, Option(metavar="FILE", help="cli-issuer-logo")] = None,
        contact: Annotated[str | None, Option(metavar="EMAIL", help="cli-issuer-contact")] = None,
        address: Annotated[str | None, Option(metavar="URL", help="cli-issuer-address")] = None,
        smtp: Annotated[str | None, Option("--smtp", metavar="HOST:PORT", help="cli-issuer-smtp")] = None,
        check: Annotated[bool, Option("--check/--no-check", help="cli-issuer-look")] = True,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from certificates import office as rooms
        from certificates.issuer import Signatory

        text: Translator = context.obj.text
        with right_use():
            server = _server(smtp)
            signs = Signatory(names=_words(signatory), offices=_words(office)) if signatory else None
            made = rooms.init(
                folder, domain=domain, names=_words(name), signatory=signs, address=address, logo=logo, contact=contact
            )
        found = _examined(made.issuer, server) if check else ()
        if as_json:
            print_json(_as_json(made) | {"checks": [_row(each, text) for each in found]})
            return
        _show(made, text)
        _print_checks(found, text)
        if any(not each.good for each in found):
            print(text("shardwise.issuer-later"))

    @issuer.command("check", help="cli-issuer-check")
    def check_(
        context: Context,
        folder: Folder = HERE,
        smtp: Annotated[str | None, Option("--smtp", metavar="HOST:PORT", help="cli-issuer-smtp")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from certificates import office

        text: Translator = context.obj.text
        with right_use():
            server = _server(smtp)
            found = office.read(folder)
            office.signer(folder, found)
        checks = _examined(found, server)
        if as_json:
            print_json([_row(each, text) for each in checks])
        else:
            _print_checks(checks, text)
        raise typer.Exit(0 if all(each.good for each in checks) else 1)

    @issuer.command("rotate", help="cli-issuer-rotate")
    def rotate(
        context: Context,
        folder: Folder = HERE,
        compromised: Annotated[bool, Option("--compromised", help="cli-issuer-compromised")] = False,
        key: Annotated[str | None, Option("--key", metavar="KEY", help="cli-issuer-key")] = None,
        as_json: Json = False,
        _lang: Lang = None,
    ) -> None:
        from certificates import office

        text: Translator = context.obj.text
        with right_use():
            if key is not None:
                told = office.condemn(folder, key)
                print(text("shardwise.issuer-condemned", key=key, issuer=told.name(text.language)))
                return
            made = office.rotate(folder, compromised=compromised)
        if as_json:
            print_json(_as_json(made))
            return
        _show(made, text)
        print(text("shardwise.issuer-rotated-compromised" if compromised else "shardwise.issuer-rotated"))

    @issuer.command("page", help="cli-issuer-page")
    def page(
        context: Context,
        to: Annotated[Path, Argument(metavar="FILE", help="cli-issuer-page-to")],
        folder: Folder = HERE,
        _lang: Lang = None,
    ) -> None:
        from certificates import office
        from certificates.page import build

        with right_use():
            html = build.build(office.read(folder))
            _write(to, html)
        print(context.obj.text("shardwise.issuer-page-written", path=str(to)))

    @issuer.command("endorse", help="cli-issuer-endorse")
    def endorse(
        context: Context,
        subject: Annotated[str, Argument(metavar="DID|ID", help="cli-issuer-endorse-subject")],
        to: Annotated[Path, Argument(metavar="FILE", help="cli-issuer-endorse-to")],
        comment: Annotated[str | None, Option(help="cli-issuer-endorse-comment")] = None,
        folder: Folder = HERE,
        _lang: Lang = None,
    ) -> None:
        from certificates import endorsement, office
        from certificates.strict import Refused

        text: Translator = context.obj.text
        with right_use():
            found = office.read(folder)
            try:
                jwt = endorsement.endorse(
                    subject,
                    signer=office.signer(folder, found),
                    name=found.name(text.language),
                    title=text("shardwise.issuer-endorsement", issuer=found.name(text.language)),
                    comment=comment,
                )
            except Refused as refused:
                raise CourseError("shardwise.issuer-endorse-unusable", subject=subject) from refused
            _write(to, f"{jwt}\n")
        print(text("shardwise.issuer-endorsed", path=str(to)))

    @issuer.command("endorsed", help="cli-issuer-endorsed")
    def endorsed(
        context: Context,
        file: Annotated[Path, Argument(metavar="FILE", help="cli-issuer-endorsed-file")],
        folder: Folder = HERE,
        _lang: Lang = None,
    ) -> None:
        from certificates import office, read, tokens
        from certificates.strict import Refused, check

        text: Translator = context.obj.text
        with right_use():
            found = office.read(folder)
            jwt = read(file).decode("ascii", "replace").strip()
            try:
                body = tokens.parse(jwt).body
                check(body, "endorsement", reason="issuer-endorsement-malformed")
                if body["sub"] != found.did:
                    raise Refused("issuer-endorsement-other")
            except (Refused, ValueError) as error:
                raise CourseError("shardwise.issuer-endorsed-unusable", file=file.name) from error
            office.endorsed(folder, jwt)
        print(text("shardwise.issuer-carries", endorser=body["issuer"]["name"]))

    @certificate.command("trust", help="cli-certificate-trust")
    def trust(
        context: Context,
        source: Annotated[str, Argument(metavar="FILE|DID", help="cli-certificate-trust-source")],
        list_: Annotated[Path | None, Option("--trust", metavar="FILE", help="cli-certificate-trust-list")] = None,
        endorser: Annotated[bool, Option("--endorser", help="cli-certificate-trust-endorser")] = False,
        name: Annotated[str | None, Option("--name", metavar="TEXT", help="cli-certificate-trust-name")] = None,
        yes: Annotated[bool, Option("--yes", help="cli-certificate-trust-yes")] = False,
        _lang: Lang = None,
    ) -> None:
        from dataclasses import replace

        text: Translator = context.obj.text
        path = list_ or default_list()
        with right_use():
            parties = _parties(source)
            known = read_list(path) if path.exists() else read_list(None)
            if name is not None:
                parties = tuple(replace(each, names={"en": name}) for each in parties)
        for each in parties:
            _introduce(each, text)
        if not yes and not typer.confirm(text("shardwise.trust-sure"), default=False):
            raise typer.Exit(1)
        new = {each.did: replace(each, status=()) if endorser else each for each in parties}
        kind = "endorsers" if endorser else "issuers"
        changed = replace(known, **{kind: {**getattr(known, kind), **new}})
        with right_use():
            _write(path, json.dumps(changed.as_json(), indent=1, ensure_ascii=False) + "\n")
        print(text("shardwise.trust-written", path=str(path), count=len(changed.issuers)))


def default_list() -> Path:
    """The reader's own list of trusted issuers: ``SHARDWISE_TRUST``, or beside their record."""
    import os

    from shardwise.record import database

    named = os.environ.get("SHARDWISE_TRUST")
    return Path(named) if named else database.folder() / "trust.json"


def read_list(path: Path | None) -> Trust:
    """The list in this file; without one the reader's own, which trusts nobody until something is put on it."""
    from certificates import trust

    if path is not None:
        return trust.read(path)
    own = default_list()
    return trust.read(own) if own.exists() else trust.Trust()


def _parties(source: str) -> tuple[Party, ...]:
    """The issuers in a file, or the one that a domain publishes."""
    from certificates import discovery, trust
    from certificates.network import Fetcher

    if not source.startswith("did:"):
        found = trust.read(Path(source))
        return (*found.issuers.values(), *found.endorsers.values())
    if not source.startswith("did:web:") or len(source) > 500:
        raise CourseError("shardwise.trust-unusable", source=source)
    return (discovery.discover(source, fetch=Fetcher()),)


def _introduce(party: Party, text: Translator) -> None:
    """All that there is to compare before somebody is trusted."""
    from certificates.trust import domain

    print(text("shardwise.trust-party", issuer=party.name(text.language), domain=domain(party.did), did=party.did))
    for each in party.keys:
        state = "compromised" if each.compromised else "replaced" if each.until else "present"
        name = each.id.partition("#")[2]
        print("  " + text(f"shardwise.trust-key-{state}", key=name, fingerprint=each.fingerprint))


def _words(given: list[str] | None) -> dict[str, str]:
    """``en=University of Example`` by language; a text without a language is English."""
    found: dict[str, str] = {}
    for each in given or ():
        code, sign, words = each.partition("=")
        if not sign or not (code.isascii() and code.isalpha() and code.islower() and 2 <= len(code) <= 3):
            code, words = "en", each
        if not words.strip() or code in found:
            raise CourseError("shardwise.issuer-words", given=each)
        found[code] = words.strip()
    return found


def _server(smtp: str | None) -> tuple[str, int] | None:
    if smtp is None:
        return None
    host, _, port = smtp.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise CourseError("shardwise.issuer-smtp", given=smtp)
    return host.strip("[]"), int(port)


def _examined(issuer: Any, server: tuple[str, int] | None) -> tuple[Any, ...]:
    from certificates import checks

    return checks.examine(issuer, smtp=server)


def _print_checks(found: tuple[Any, ...], text: Translator) -> None:
    for each in found:
        print(f"  {'✓' if each.good else '✗'} {each.detail(text.language)}")


def _row(check: Any, text: Translator) -> dict[str, object]:
    return {"check": check.name, "good": check.good, "detail": check.detail(text.language)}


def _as_json(made: Made) -> dict[str, object]:
    return {
        "did": made.issuer.did,
        "key": made.issuer.key.id,
        "fingerprint": made.issuer.key.fingerprint,
        "files": [str(each) for each in (made.key, *made.published)],
    }


def _show(made: Made, text: Translator) -> None:
    from certificates.trust import document_address

    issuer = made.issuer
    print(text("shardwise.issuer-made", issuer=issuer.name(text.language), did=issuer.did, folder=str(made.folder)))
    print("  " + text("shardwise.issuer-key", key=str(made.key), fingerprint=issuer.key.fingerprint))
    print("  " + text("shardwise.issuer-publish", path=str(made.published[0]), address=document_address(issuer.did)))
    print("  " + text("shardwise.issuer-trust", path=str(made.published[1])))


def _write(path: Path, words: str) -> None:
    scratch = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(words, encoding="utf-8")
        scratch.replace(path)
    except OSError as error:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise CourseError("certificates.file-unwritable", file=path.name) from error
