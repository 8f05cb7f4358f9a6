"""The service's settings, from a YAML file and the environment, checked before anything listens.

A name `smtp_host` is `smtp_host:` in the file and `SHARDWISE_SERVICE_SMTP_HOST` in the environment, which wins. A
secret can also be the content of a file: `smtp_password_file`. Secrets never appear in `repr`, in logs or in errors.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml

from translations import CourseError

PREFIX = "SHARDWISE_SERVICE_"


@dataclass(frozen=True)
class Secret:
    """A text that is never shown."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        return "***"


@dataclass(frozen=True, kw_only=True)
class Smtp:
    """The mail server. `tls`: `starttls`, `tls` from the first byte, or `none`, which is for loopback only."""

    host: str
    port: int
    sender: str
    tls: Literal["starttls", "tls", "none"]
    user: str | None
    password: Secret | None


@dataclass(frozen=True, kw_only=True)
class Oidc:
    """An OpenID Connect provider, found by its issuer's address."""

    issuer: str
    client_id: str
    client_secret: Secret
    name: str


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The JupyterHub whose service this is; the Hub hands all of it over in the environment (JUPYTERHUB_*)."""

    name: str
    api_url: str
    api_token: Secret
    client_id: str
    prefix: str
    callback: str


@dataclass(frozen=True, kw_only=True)
class Settings:
    """`data`: the folder of the service's own files (mode 0700). `public_url`: where people reach it, without a slash
    at the end. `exams`: the folder of exam policies. `issuer`: the folder that `shardwise issuer init` made. `signer`:
    `module:function` that gives the issuer's signer, where its key is in no file here. `administrators`: e-mail
    addresses, hub or OIDC subjects whose account is an administrator's from its first sign-in. `accounts`: who may have
    an account by e-mail: whoever asks (`open`), whoever is in a cohort or an administrator (`invited`), nobody (`off`).
    `proxies`: addresses whose X-Forwarded-For is believed.
    """

    data: Path
    database: str
    public_url: str
    secret: Secret
    host: str = "127.0.0.1"
    port: int = 8470
    exams: Path | None = None
    issuer: Path | None = None
    signer: str | None = None
    administrators: tuple[str, ...] = ()
    accounts: Literal["open", "invited", "off"] = "invited"
    smtp: Smtp | None = None
    oidc: Oidc | None = None
    hub: Hub | None = None
    proxies: tuple[str, ...] = ()
    session_hours: int = 12
    link_minutes: int = 20
    links_per_hour: int = 5
    graders: int = 1
    queue: int = 200
    language: str = "en"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it, by what it binds to and by the address that people are told."""
        return is_loopback(self.host) and is_loopback(urlsplit(self.public_url).hostname or "")

    @property
    def prefix(self) -> str:
        """The path below which everything lies: empty, or where a Hub or a proxy puts the service."""
        return urlsplit(self.public_url).path.rstrip("/")

    @property
    def https(self) -> bool:
        return self.public_url.startswith("https://")

    @property
    def outbox(self) -> Path:
        """Where mail goes while there is no mail server."""
        return self.data / "outbox.txt"

    def check(self) -> None:
        """Raises CourseError with the sentence that says what is unsafe and what to do instead."""
        if not self.https and not self.loopback:
            raise CourseError("shardwise.service-needs-https", url=self.public_url)
        if self.accounts == "off" and self.oidc is None and self.hub is None:
            raise CourseError("shardwise.service-no-sign-in")
        if self.accounts != "off" and self.smtp is None and not self.loopback:
            raise CourseError("shardwise.service-needs-mail")
        if self.smtp is not None and self.smtp.tls == "none" and not is_loopback(self.smtp.host):
            raise CourseError("shardwise.service-mail-in-clear", host=self.smtp.host)
        if self.oidc is not None:
            at = urlsplit(self.oidc.issuer)
            if at.scheme != "https" and not is_loopback(at.hostname or ""):
                raise CourseError("shardwise.service-oidc-in-clear", url=self.oidc.issuer)
        if len(self.secret.value) < 32:
            raise CourseError("shardwise.service-secret-short")
        if self.data.exists() and self.data.stat().st_mode & 0o022:
            raise CourseError("shardwise.service-folder-open", path=str(self.data))


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def load(file: Path | None = None, *, environ: Mapping[str, str] | None = None, **given: Any) -> Settings:
    """The settings: what is `given` (the command line), else the environment, else the file, else the default.

    Raises CourseError for a name that there is not, a value that cannot be, or a secret's file that others can read.
    """
    values = _Values(file, os.environ if environ is None else environ, given)
    data = values.path("data") or Path(_default_data())
    host, port = values.take("host") or "127.0.0.1", values.number("port", 8470)
    shown = f"[{host}]" if ":" in host else host
    settings = Settings(
        data=data,
        host=host,
        port=port,
        database=values.take("database") or f"sqlite:///{data / 'service.db'}",
        public_url=(values.take("public_url") or f"http://{shown}:{port}").rstrip("/"),
        secret=values.secret("secret") or _own_secret(data),
        exams=values.path("exams"),
        issuer=values.path("issuer"),
        signer=values.take("signer") or None,
        administrators=values.listed("administrators"),
        accounts=values.one_of("accounts", ("invited", "open", "off")),  # type: ignore[arg-type]
        smtp=_smtp(values),
        oidc=_oidc(values),
        hub=_hub(os.environ if environ is None else environ, values),
        proxies=values.listed("proxies"),
        session_hours=values.number("session_hours", 12),
        link_minutes=values.number("link_minutes", 20),
        links_per_hour=values.number("links_per_hour", 5),
        graders=values.number("graders", 1),
        queue=values.number("queue", 200),
        language=values.take("language") or "en",
    )
    values.nothing_left()
    return settings


def _smtp(values: _Values) -> Smtp | None:
    host, sender = values.take("smtp_host"), values.take("smtp_sender")
    port, user, password = values.number("smtp_port", 587), values.take("smtp_user"), values.secret("smtp_password")
    tls = values.one_of("smtp_tls", ("starttls", "tls", "none"))
    if not host:
        return None
    if not sender:
        raise CourseError("shardwise.service-setting-missing", name="smtp_sender")
    return Smtp(host=host, port=port, sender=sender, tls=tls, user=user, password=password)  # type: ignore[arg-type]


def _oidc(values: _Values) -> Oidc | None:
    issuer, client = values.take("oidc_issuer"), values.take("oidc_client_id")
    secret, name = values.secret("oidc_client_secret"), values.take("oidc_name")
    if not issuer:
        return None
    if not client or secret is None:
        raise CourseError("shardwise.service-setting-missing", name="oidc_client_id, oidc_client_secret")
    return Oidc(issuer=issuer.rstrip("/"), client_id=client, client_secret=secret, name=name or "OpenID Connect")


def _hub(environ: Mapping[str, str], values: _Values) -> Hub | None:
    wanted = values.one_of("hub", ("auto", "off"))
    token, api = environ.get("JUPYTERHUB_API_TOKEN"), environ.get("JUPYTERHUB_API_URL")
    prefix, client = environ.get("JUPYTERHUB_SERVICE_PREFIX"), environ.get("JUPYTERHUB_CLIENT_ID")
    if wanted == "off" or not token or not api or not prefix or not environ.get("JUPYTERHUB_SERVICE_NAME"):
        return None
    return Hub(
        name=environ["JUPYTERHUB_SERVICE_NAME"],
        api_url=api.rstrip("/"),
        api_token=Secret(token),
        client_id=client or f"service-{environ['JUPYTERHUB_SERVICE_NAME']}",
        prefix=prefix.rstrip("/"),
        callback=environ.get("JUPYTERHUB_OAUTH_CALLBACK_URL", f"{prefix.rstrip('/')}/oauth_callback"),
    )


def _default_data() -> str:
    import platformdirs

    return platformdirs.user_data_dir("shardwise-service", appauthor=False)


def _own_secret(data: Path) -> Secret:
    """The secret that sessions are bound with, made at first use in a file that only its owner reads."""
    path = data / "secret"
    if not path.exists():
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = data / f".secret.{os.getpid()}"
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(secrets.token_urlsafe(48))
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(made, path)  # of two services that start at once, one makes it
        except FileExistsError:
            pass
        finally:
            made.unlink()
    return Secret(_private(path))


def _private(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            raise CourseError("shardwise.service-secret-open", path=str(path))
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise CourseError("shardwise.file-unreadable", path=str(path)) from error


class _Values:
    def __init__(self, file: Path | None, environ: Mapping[str, str], given: Mapping[str, Any]) -> None:
        self._folder = Path.cwd() if file is None else file.absolute().parent
        self._file: dict[str, Any] = {}
        if file is not None:
            try:
                read = yaml.safe_load(file.read_text(encoding="utf-8"))
            except OSError as error:
                raise CourseError("shardwise.file-unreadable", path=str(file)) from error
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                raise CourseError("shardwise.service-settings-unreadable", path=str(file)) from error
            if not isinstance(read or {}, dict):
                raise CourseError("shardwise.service-settings-unreadable", path=str(file))
            self._file = {str(key): value for key, value in (read or {}).items()}
        self._environ = {
            name[len(PREFIX) :].lower(): value for name, value in environ.items() if name.startswith(PREFIX)
        }
        self._given = {name: value for name, value in given.items() if value is not None}
        self._asked: set[str] = set()

    def raw(self, name: str) -> Any:
        self._asked.add(name)
        for source in (self._given, self._environ, self._file):
            if source.get(name, "") != "":  # a compose file gives what is not set as an empty text
                return source[name]
        return None

    def take(self, name: str) -> str | None:
        found = self.raw(name)
        if found is not None and not isinstance(found, str | int | Path):
            raise CourseError("shardwise.service-setting-wrong", name=name)
        return None if found is None else str(found)

    def number(self, name: str, default: int) -> int:
        found = self.take(name)
        try:
            value = default if found is None else int(found)
        except ValueError as error:
            raise CourseError("shardwise.service-setting-wrong", name=name) from error
        if not 0 < value < 10**7:
            raise CourseError("shardwise.service-setting-wrong", name=name)
        return value

    def path(self, name: str) -> Path | None:
        found = self.take(name)
        return None if found is None else (self._folder / Path(found).expanduser()).absolute()

    def listed(self, name: str) -> tuple[str, ...]:
        found = self.raw(name)
        if isinstance(found, list):
            return tuple(str(each).strip() for each in found)
        return tuple(each.strip() for each in str(found or "").split(",") if each.strip())

    def one_of(self, name: str, known: tuple[str, ...]) -> str:
        """The first of `known` is the default."""
        found = self.take(name) or known[0]
        if found not in known:
            raise CourseError("shardwise.service-setting-wrong", name=name)
        return found

    def secret(self, name: str) -> Secret | None:
        value, file = self.take(name), self.path(f"{name}_file")
        if file is not None:
            return Secret(_private(file))
        return None if value is None else Secret(value)

    def nothing_left(self) -> None:
        left = sorted({*self._given, *self._environ, *self._file} - self._asked)
        if left:
            raise CourseError("shardwise.service-setting-unknown", name=left[0])
