"""Signing in elsewhere: a JupyterHub whose service this is (HubOAuth), or an OpenID Connect provider.

Both go the same way: away with a state that waits in the database and in a cookie of that browser, back once with
both. What comes back is asked of the provider itself, over its own connection, and never read from the address.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx
from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from shardwise.service.accounts import SignedIn, arrive, come_back, inside, leave, send_away
from shardwise.service.core import Core
from shardwise.service.people import COOKIE, TheCore, token_of
from shardwise.service.security import cookie_name, set_cookie
from shardwise.service.settings import Hub, Oidc
from shardwise.service.store import Forbidden, Missing

if TYPE_CHECKING:
    from jupyterhub.services.auth import HubOAuth  # type: ignore[import-untyped]

router = APIRouter(include_in_schema=False)
ERRAND = "shardwise-errand"
SECONDS = 10
FRESH = 3600
SIGNATURES = ["RS256", "PS256", "ES256", "ES384", "EdDSA", "Ed25519"]
"""What an ID token may be signed with: never with a shared secret, never with nothing."""


def welcome(core: Core, signed: SignedIn, *, next: str = "/") -> Response:
    """On to where the person wanted to go, with the session's cookie."""
    response = RedirectResponse(core.settings.prefix + inside(next), status_code=303)
    seconds = core.settings.session_hours * 3600
    set_cookie(response, COOKIE, signed.token, secure=core.settings.https, seconds=seconds)
    set_cookie(response, ERRAND, "", secure=core.settings.https, seconds=0)
    return response


def farewell(core: Core, request: Request, response: Response) -> None:
    """Ends the visit, here and in the browser."""
    leave(core, token_of(request))
    set_cookie(response, COOKIE, "", secure=core.settings.https, seconds=0)


def _away(core: Core, url: str, state: str) -> Response:
    response = RedirectResponse(url, status_code=303)
    set_cookie(response, ERRAND, state, secure=core.settings.https, seconds=600)
    return response


def _returned(core: Core, request: Request, provider: str) -> dict[str, Any]:
    """What the errand carried. Raises Forbidden where another browser was sent on it: nobody signs in somebody else."""
    state = request.query_params.get("state", "")
    own = request.cookies.get(cookie_name(ERRAND, secure=core.settings.https), "")
    if not state or not secrets.compare_digest(state.encode(), own.encode()):
        raise Forbidden("shardwise.service-sign-in-failed")
    return come_back(core, provider=provider, state=state)


# --- JupyterHub


@router.get("/sign-in/hub")
def to_hub(core: TheCore, next: str = "/") -> Response:
    hub = _hub(core)
    oauth = _oauth(hub)
    verifier = secrets.token_urlsafe(48)
    state = send_away(core, provider="hub", carried={"next": inside(next), "verifier": verifier})
    challenge = {"code_challenge": _challenge(verifier), "code_challenge_method": "S256"}
    return _away(core, f"{oauth.login_url}&{urlencode({'state': state, **challenge})}", state)


@router.get("/oauth_callback")
def from_hub(request: Request, core: TheCore, code: str = "") -> Response:
    hub = _hub(core)
    carried = _returned(core, request, "hub")
    name = hub_user(hub, code, carried["verifier"])
    signed = arrive(core, provider="hub", subject=name, email=None, name="")
    return welcome(core, signed, next=carried["next"])


def hub_user(hub: Hub, code: str, verifier: str) -> str:
    """The user for whom the Hub gave the code. Raises Forbidden where it gave none, or not for this service."""
    from jupyterhub.services.auth import check_scopes
    from tornado.web import HTTPError

    oauth = _oauth(hub)
    try:
        token = oauth.token_for_code(code, code_verifier=verifier)
        user = oauth.user_for_token(token, use_cache=False)
    except (HTTPError, OSError, KeyError) as error:
        raise Forbidden("shardwise.service-sign-in-failed") from error
    if not user or user.get("kind") != "user" or not check_scopes(oauth.access_scopes, set(user["scopes"])):
        raise Forbidden("shardwise.service-sign-in-failed")
    return str(user["name"])


@lru_cache(maxsize=4)
def _oauth(hub: Hub) -> HubOAuth:
    from jupyterhub.services.auth import HubOAuth

    return HubOAuth(
        api_url=hub.api_url,
        api_token=hub.api_token.value,
        oauth_client_id=hub.client_id,
        oauth_redirect_uri=hub.callback,
        access_scopes={f"access:services!service={hub.name}"},
    )


def _hub(core: Core) -> Hub:
    if core.settings.hub is None:
        raise Missing("shardwise.service-no-hub")
    return core.settings.hub


# --- OpenID Connect


@dataclass(frozen=True, kw_only=True)
class Provider:
    """What a provider says of itself at its well-known address, and when that was read."""

    authorization: str
    token: str
    keys: dict[str, Any]
    basic: bool
    read: float


@router.get("/sign-in/oidc")
def to_provider(core: TheCore, next: str = "/") -> Response:
    oidc = _oidc(core)
    verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    carried = {"next": inside(next), "verifier": verifier, "nonce": nonce}
    state = send_away(core, provider="oidc", carried=carried)
    with _client(core, oidc) as client:
        url, _ = client.create_authorization_url(
            provider_of(oidc).authorization, state=state, nonce=nonce, code_verifier=verifier
        )
    return _away(core, url, state)


@router.get("/sign-in/oidc/callback")
def from_provider(request: Request, core: TheCore, code: str = "", iss: str = "") -> Response:
    oidc = _oidc(core)
    carried = _returned(core, request, "oidc")
    if not code or iss not in ("", oidc.issuer):
        raise Forbidden("shardwise.service-sign-in-failed")
    claims = claims_of(core, oidc, code, verifier=carried["verifier"], nonce=carried["nonce"])
    verified = claims.get("email_verified") is True
    signed = arrive(
        core,
        provider=f"oidc {oidc.issuer}",
        subject=str(claims["sub"]),
        email=str(claims["email"]) if verified and claims.get("email") else None,
        name=str(claims.get("name") or ""),
        language=str(claims.get("locale") or "en")[:2],
    )
    return welcome(core, signed, next=carried["next"])


def claims_of(core: Core, oidc: Oidc, code: str, *, verifier: str, nonce: str) -> dict[str, Any]:
    """The claims of the ID token that the provider gives for the code, once its signature and every claim hold."""
    from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped]
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    try:
        with _client(core, oidc) as client:
            answer = client.fetch_token(
                provider_of(oidc).token, code=code, code_verifier=verifier, grant_type="authorization_code"
            )
        token = answer["id_token"]
        try:
            found = jwt.decode(token, KeySet.import_key_set(provider_of(oidc).keys), algorithms=SIGNATURES)  # type: ignore[arg-type]
        except (JoseError, ValueError):  # it may have changed its keys
            fresh = provider_of(oidc, fresh=True)
            found = jwt.decode(token, KeySet.import_key_set(fresh.keys), algorithms=SIGNATURES)  # type: ignore[arg-type]
        registry = jwt.JWTClaimsRegistry(
            leeway=60,
            iss={"essential": True, "value": oidc.issuer},
            aud={"essential": True, "value": oidc.client_id},
            sub={"essential": True},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        registry.validate(found.claims)
    except (AuthlibBaseError, JoseError, httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        raise Forbidden("shardwise.service-sign-in-failed") from error
    several = isinstance(found.claims["aud"], list) and len(found.claims["aud"]) > 1
    if (several or "azp" in found.claims) and found.claims.get("azp") != oidc.client_id:
        raise Forbidden("shardwise.service-sign-in-failed")
    return dict(found.claims)


def provider_of(oidc: Oidc, *, fresh: bool = False) -> Provider:
    """The provider's own description, read again every hour. Raises Forbidden where it can't be had or names another
    issuer.
    """
    kept = _providers.get(oidc.issuer)
    if kept is not None and not fresh and time.monotonic() - kept.read < FRESH:
        return kept
    try:
        with httpx.Client(timeout=SECONDS, follow_redirects=False) as client:
            said = client.get(f"{oidc.issuer}/.well-known/openid-configuration").raise_for_status().json()
            if said["issuer"].rstrip("/") != oidc.issuer:
                raise Forbidden("shardwise.service-sign-in-failed")
            keys = client.get(said["jwks_uri"]).raise_for_status().json()
        methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        found = Provider(
            authorization=said["authorization_endpoint"],
            token=said["token_endpoint"],
            keys=keys,
            basic="client_secret_basic" in methods,
            read=time.monotonic(),
        )
    except (httpx.HTTPError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise Forbidden("shardwise.service-sign-in-failed") from error
    _providers[oidc.issuer] = found
    return found


_providers: dict[str, Provider] = {}


def _client(core: Core, oidc: Oidc) -> Any:
    from authlib.integrations.httpx_client import OAuth2Client  # type: ignore[import-untyped]

    kept = _providers.get(oidc.issuer)
    return OAuth2Client(
        client_id=oidc.client_id,
        client_secret=oidc.client_secret.value,
        token_endpoint_auth_method="client_secret_basic" if kept is None or kept.basic else "client_secret_post",
        scope="openid email profile",
        redirect_uri=f"{core.settings.public_url}/sign-in/oidc/callback",
        code_challenge_method="S256",
        timeout=SECONDS,
    )


def _oidc(core: Core) -> Oidc:
    if core.settings.oidc is None:
        raise Missing("shardwise.service-no-oidc")
    return core.settings.oidc


def _challenge(verifier: str) -> str:
    from authlib.oauth2.rfc7636 import create_s256_code_challenge  # type: ignore[import-untyped]

    return str(create_s256_code_challenge(verifier))
