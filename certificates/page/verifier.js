// Judges a certificate exactly as certificates/verification.py does: the same steps, reasons and rules (RULES is rules.json).
// Reads bytes and changes nothing. Asks nobody but, where `ask` is given, a listed issuer's server for its status list.
"use strict";

const STEPS = ["format", "signature", "issuer", "dates", "revocation", "recipient", "evidence"];
const UNKNOWN = ["issuer-unknown", "issuer-stranger", "issuer-key-unlisted"];
const NOBODY = { issuers: new Map(), endorsers: new Map() };

class Refused extends Error {
  constructor(reason, values = {}) {
    super(reason);
    this.reason = reason;
    this.values = values;
  }
}

class Unreachable extends Error {}

const outcome = (result, reason, values = {}) => ({ result, reason, values });

// trust: a list as readTrust gives it. ask: the bytes at an address, or null to stay offline.
async function verify(bytes, email, { trust = NOBODY, ask = null } = {}) {
  const judged = { outcomes: {}, token: null, credential: null, party: null, endorsers: [], stranger: null };
  try {
    await judgeSteps(judged, bytes, email, trust, ask);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    judged.outcomes.format = outcome("fail", error.reason, error.values);
  }
  const { outcomes, token, credential, party, endorsers, stranger } = judged;
  const steps = STEPS.map((step) => ({ step, ...(outcomes[step] ?? outcome("not-checked", "skipped")) }));
  const hash = token && (await sha256(new TextEncoder().encode(token)));
  return { verdict: verdictOf(judged), steps, credential, sha256: hash, issuer: party, endorsers, stranger };
}

async function judgeSteps(judged, bytes, email, trust, ask) {
  const { outcomes } = judged;
  const failing = () => Object.values(outcomes).some((each) => each.result === "fail");
  judged.token = await tokenIn(bytes);
  const token = parseCredential(judged.token);
  const { body } = token;
  outcomes.format = outcome("pass", "format-pass");
  const known = knownKey(token, trust);
  outcomes.signature = await signatureStep(token, known);
  if (outcomes.signature.result === "fail") return;
  [outcomes.issuer, judged.endorsers] = await issuerStep(token, known, trust);
  outcomes.dates = datesStep(body);
  if (!known.party || !known.key) judged.stranger = await strangerOf(token);
  else if (outcomes.issuer.result === "pass") judged.party = known.party;
  // Nobody is asked about a certificate that fails anyway.
  if (!failing() || !judged.party) outcomes.revocation = await revocationStep(body, judged.party, ask);
  outcomes.recipient = await recipientStep(body, email);
  outcomes.evidence = evidenceStep(body, judged.party !== null);
  if (outcomes.signature.result === "pass") judged.credential = body;
}

function verdictOf({ outcomes, party, endorsers }) {
  const failed = Object.keys(outcomes).filter((step) => outcomes[step].result === "fail");
  const unknown = failed.includes("issuer") && UNKNOWN.includes(outcomes.issuer.reason);
  if (failed.some((step) => !(unknown && step === "issuer"))) return "invalid";
  if (unknown) return "unknown-issuer";
  if (!party) return "practice";
  if (outcomes.revocation.result !== "pass") return "status-not-checked";
  return endorsers.length ? "endorsed" : "issuer";
}

// --- carriers: where the one token is found

async function tokenIn(bytes) {
  if (bytes.length > RULES.file_bytes) throw new Refused("format-large");
  const text = trimmed(bytes);
  if (!text.length) throw new Refused("format-empty");
  let found;
  if (startsWith(bytes, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) found = await inPng(bytes);
  else if (startsWith(bytes, [0x25, 0x50, 0x44, 0x46, 0x2d])) found = await inPdf(bytes);
  else if (text[0] === 0x7b) found = [inJson(parseJson(text))];
  else if (text[0] === 0x3c) found = inSvg(text);
  else found = [latin(text)];
  if (!found.length) throw new Refused("format-none");
  if (found.length > 1) throw new Refused("format-several");
  if (!/^[A-Za-z0-9_.-]*$/.test(found[0])) throw new Refused("format-token");
  if (found[0].length > RULES.token_bytes) throw new Refused("format-long");
  if (!/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(found[0])) throw new Refused("format-token");
  return found[0];
}

function trimmed(bytes) {
  const blank = (byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === 0x0a;
  let start = 0;
  let end = bytes.length;
  while (start < end && blank(bytes[start])) start += 1;
  while (end > start && blank(bytes[end - 1])) end -= 1;
  return bytes.subarray(start, end);
}

const startsWith = (bytes, start) => start.every((byte, index) => bytes[index] === byte);

// One character a byte, so that positions in the text are positions in the bytes.
const latin = (bytes) => new TextDecoder("windows-1252").decode(bytes);

function inJson(envelope) {
  if (envelope.type !== "EnvelopedVerifiableCredential") {
    throw new Refused("credentialSubject" in envelope ? "format-unsigned" : "format-type");
  }
  const start = "data:application/vc+jwt,";
  if (typeof envelope.id !== "string" || !envelope.id.startsWith(start)) throw new Refused("format-none");
  return envelope.id.slice(start.length);
}

async function inPng(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const keyword = "openbadgecredential\0";
  const found = [];
  let at = 8;
  let kind = "";
  while (at < bytes.length) {
    if (kind === "IEND" || at + 12 > bytes.length) throw new Refused("format-png");
    const length = view.getUint32(at);
    kind = latin(bytes.subarray(at + 4, at + 8));
    if (at + 12 + length > bytes.length) throw new Refused("format-png");
    if (crc32(bytes.subarray(at + 4, at + 8 + length)) !== view.getUint32(at + 8 + length)) {
      throw new Refused("format-png");
    }
    const body = bytes.subarray(at + 8, at + 8 + length);
    if (kind === "iTXt" && latin(body.subarray(0, keyword.length)) === keyword) {
      onlyOne(found);
      found.push(await internationalText(body.subarray(keyword.length)));
    }
    at += 12 + length;
  }
  if (kind !== "IEND") throw new Refused("format-png");
  return found;
}

// A second one is refused at once: reading thousands of them would take minutes and gigabytes.
function onlyOne(found) {
  if (found.length) throw new Refused("format-several");
}

async function internationalText(body) {
  const language = body.indexOf(0, 2);
  const translated = language < 0 ? -1 : body.indexOf(0, language + 1);
  if (body.length < 2 || translated < 0 || body[0] > 1 || body[1]) throw new Refused("format-png");
  const text = body.subarray(translated + 1);
  return latin(body[0] ? await inflate(text, "deflate", "format-png") : text);
}

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return (crc ^ 0xffffffff) >>> 0;
}

function inSvg(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refused("format-svg");
  }
  // A browser tells of broken XML by an element of that name, and reads nothing that is nested deeper than 5,000.
  if (text.includes("<!DOCTYPE") || text.includes("parsererror") || text.split("<").length - 1 > RULES.svg_tags) {
    throw new Refused("format-svg");
  }
  const drawing = new DOMParser().parseFromString(text, "image/svg+xml");
  const root = drawing.documentElement;
  if (
    drawing.getElementsByTagName("parsererror").length ||
    root.localName !== "svg" ||
    root.namespaceURI !== "http://www.w3.org/2000/svg"
  ) {
    throw new Refused("format-svg");
  }
  const elements = drawing.getElementsByTagNameNS("https://purl.imsglobal.org/ob/v3p0", "credential");
  return [...elements].map((each) => each.getAttribute("verify") ?? "");
}

async function inPdf(bytes) {
  const text = latin(bytes);
  const found = [];
  for (const mark of text.matchAll(/\/Type[ \t\r\n]?\/EmbeddedFile(?![A-Za-z])/g)) {
    onlyOne(found);
    const after = mark.index + mark[0].length;
    const opening = /stream\r?\n/.exec(text.slice(after, after + 1000));
    if (!opening) throw new Refused("format-pdf");
    const start = after + opening.index + opening[0].length;
    const dictionary = text.slice(Math.max(0, text.lastIndexOf("obj", mark.index - 3)), after + opening.index);
    const length = /\/Length ([0-9]{1,7})(?![0-9]| [0-9]+ R)/.exec(dictionary);
    const expected = start + (length ? Number(length[1]) : 0);
    const end = /\r?\n?endstream/g;
    end.lastIndex = expected;
    const closing = end.exec(text);
    if (!closing || (length && closing.index !== expected)) throw new Refused("format-pdf");
    let body = bytes.subarray(start, closing.index);
    if (dictionary.includes("/FlateDecode")) body = await inflate(body, "deflate", "format-pdf");
    else if (dictionary.includes("/Filter")) throw new Refused("format-pdf");
    found.push(latin(body));
  }
  return found;
}

// At most a little more than the limit, so that a bomb costs nothing.
async function inflate(bytes, format, damaged, limit = RULES.token_bytes) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format)).getReader();
  const parts = [];
  let length = 0;
  try {
    while (length <= limit) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      length += value.length;
    }
  } catch {
    throw new Refused(damaged);
  }
  reader.cancel().catch(() => {});
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// The token in a QR code's fragment: header and payload deflated together, then the signature.
async function expand(compact) {
  const [packed, signature] = compact.split(".");
  const plain = await inflate(decodeBase64url(packed), "deflate-raw", "format-token");
  const end = plain.indexOf(0x0a);
  if (end < 0 || !signature) throw new Refused("format-token");
  return `${encodeBase64url(plain.subarray(0, end))}.${encodeBase64url(plain.subarray(end + 1))}.${signature}`;
}

// --- strict reading

function decodeBase64url(text) {
  let data;
  try {
    if (!/^[A-Za-z0-9_-]*$/.test(text)) throw new Error();
    data = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (each) => each.charCodeAt(0));
  } catch {
    throw new Refused("format-base64");
  }
  if (encodeBase64url(data) !== text) throw new Refused("format-base64");
  return data;
}

function encodeBase64url(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function parseJson(bytes) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refused("format-json");
  }
  const value = new JsonReader(text).document();
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Refused("format-json");
  checkText(value);
  return value;
}

// JSON.parse keeps the last of two equal names; this reader refuses them.
class JsonReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  document() {
    const value = this.value(1);
    this.blank();
    if (this.at < this.text.length) throw new Refused("format-json");
    return value;
  }

  value(depth) {
    this.blank();
    const next = this.text[this.at];
    if ((next === "{" || next === "[") && depth > RULES.json_depth) throw new Refused("format-json");
    if (next === "{") return this.object(depth);
    if (next === "[") return this.array(depth);
    if (next === '"') return this.string();
    const number = this.match(/-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y);
    if (number !== null) return Number(number);
    const word = this.match(/true|false|null/y);
    if (word === null) throw new Refused("format-json");
    return JSON.parse(word);
  }

  object(depth) {
    const value = Object.create(null);
    this.at += 1;
    if (this.take("}")) return value;
    do {
      this.blank();
      const name = this.string();
      if (!this.take(":")) throw new Refused("format-json");
      if (name in value) throw new Refused("format-repeated-name");
      value[name] = this.value(depth + 1);
    } while (this.take(","));
    if (!this.take("}")) throw new Refused("format-json");
    return value;
  }

  array(depth) {
    const value = [];
    this.at += 1;
    if (this.take("]")) return value;
    do value.push(this.value(depth + 1));
    while (this.take(","));
    if (!this.take("]")) throw new Refused("format-json");
    return value;
  }

  string() {
    const token = this.match(/"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y);
    if (token === null) throw new Refused("format-json");
    return JSON.parse(token);
  }

  match(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found) return null;
    this.at += found[0].length;
    return found[0];
  }

  blank() {
    this.match(/[ \t\r\n]*/y);
  }

  take(mark) {
    this.blank();
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }
}

function checkText(value) {
  if (typeof value === "string") {
    if (new RegExp(RULES.unsafe_text).test(value) || !isWellFormed(value) || value.normalize("NFC") !== value) {
      throw new Refused("format-text");
    }
  } else if (Array.isArray(value)) {
    value.forEach(checkText);
  } else if (value !== null && typeof value === "object") {
    Object.entries(value).flat().forEach(checkText);
  }
}

const isWellFormed = (text) => !/[\ud800-\udfff]/u.test(text);

function parseToken(text) {
  const [header, body, signature] = text.split(".").map(decodeBase64url);
  const head = parseJson(header);
  if (head.alg !== "EdDSA") throw new Refused("format-algorithm");
  if (misshapen(head, RULES.header, "") !== null) throw new Refused("format-header");
  const credential = parseJson(body);
  if (signature.length !== 64) throw new Refused("format-token");
  const ownKey = head.jwk ? decodeBase64url(head.jwk.x) : null;
  return { text, header: head, body: credential, signature, ownKey };
}

function parseCredential(text) {
  const token = parseToken(text);
  const credential = token.body;
  if (!Array.isArray(credential.type) || !credential.type.includes("OpenBadgeCredential")) {
    throw new Refused("format-type");
  }
  checkShape(credential, isExam(credential) ? "issued" : "credential", "format-shape");
  if (
    credential.iss !== credential.issuer.id ||
    credential.sub !== credential.credentialSubject.id ||
    credential.jti !== credential.id
  ) {
    throw new Refused("format-claims");
  }
  return token;
}

const isExam = (credential) => {
  const id = credential.credentialSubject?.achievement?.id;
  return typeof id === "string" && id.startsWith("urn:shardwise:exam:");
};

function checkShape(value, kind, reason) {
  const where = misshapen(value, RULES[kind], "");
  if (where !== null) throw new Refused(reason, { where: where.slice(1) || "/" });
}

// Where a value breaks a schema that uses only what RULES uses; null where it keeps it.
function misshapen(value, schema, at) {
  if (schema.$ref) return misshapen(value, RULES.parts[schema.$ref.slice("#/parts/".length)], at);
  if ("const" in schema) return equal(value, schema.const) ? null : at;
  if (schema.enum) return schema.enum.includes(value) ? null : at;
  if (schema.type === "string") {
    if (typeof value !== "string") return at;
    const length = [...value].length;
    if (length < schema.minLength || length > schema.maxLength) return at;
    return !schema.pattern || new RegExp(schema.pattern).test(value) ? null : at;
  }
  if (schema.type === "integer") return Number.isInteger(value) ? null : at;
  if (schema.type === "boolean") return typeof value === "boolean" ? null : at;
  if (schema.type === "array") {
    if (!Array.isArray(value) || value.length < (schema.minItems ?? 0) || value.length > schema.maxItems) return at;
    return first(value.map((each, index) => () => misshapen(each, schema.items, `${at}.${index}`)));
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return at;
  const names = Object.keys(value);
  const properties = schema.properties ?? {};
  if (names.length < (schema.minProperties ?? 0) || !(schema.required ?? []).every((name) => name in value)) return at;
  const rest = schema.additionalProperties;
  const allowed = (name) =>
    Object.hasOwn(properties, name) || (rest && new RegExp(schema.propertyNames.pattern).test(name));
  if (!names.every(allowed)) return at;
  const shape = (name) => (Object.hasOwn(properties, name) ? properties[name] : rest);
  return first(names.map((name) => () => misshapen(value[name], shape(name), `${at}.${name}`)));
}

function first(searches) {
  for (const search of searches) {
    const found = search();
    if (found !== null) return found;
  }
  return null;
}

function equal(one, other) {
  if (one === null || typeof one !== "object") return one === other;
  if (other === null || typeof other !== "object" || Array.isArray(one) !== Array.isArray(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && equal(one[name], other[name]))
  );
}

// --- whom the reader trusts (certificates/trust.py)

function readTrust(bytes) {
  if (bytes.length > RULES.trust_bytes) throw new Refused("trust-unreadable");
  const value = parseJson(bytes);
  checkShape(value, "trust", "trust-unreadable");
  const trust = {};
  for (const kind of ["issuers", "endorsers"]) {
    const rows = value[kind] ?? [];
    trust[kind] = new Map(rows.map((row) => [row.did, partyOf(row)]));
    if (trust[kind].size !== rows.length) throw new Refused("trust-unreadable");
  }
  return trust;
}

function partyOf(row) {
  const keys = row.keys.map(({ id, x, until, compromised }) => {
    const end = until === undefined ? null : moment(until);
    if (until !== undefined && end === null) throw new Refused("trust-unreadable");
    return { id, bytes: decodeBase64url(x), until: end, compromised: compromised === true };
  });
  const ids = new Set(keys.map((each) => each.id));
  if (ids.size !== keys.length || keys.some((each) => each.id.split("#")[0] !== row.did)) {
    throw new Refused("trust-unreadable");
  }
  return { did: row.did, names: row.names, keys, status: row.status ?? [] };
}

const sameBytes = (one, other) => one.length === other.length && one.every((byte, at) => byte === other[at]);

// Which of a party's pinned keys a token says to be signed with: by name, or without one by the key itself.
const keyOf = ({ header, ownKey }, party) =>
  party.keys.find((each) => ("kid" in header ? each.id === header.kid : ownKey && sameBytes(each.bytes, ownKey))) ?? null;

// --- the steps

function knownKey(token, trust) {
  const did = token.body.issuer.id;
  if (did.startsWith("did:key:")) return { party: null, key: null, own: publicKey(did) };
  const party = trust.issuers.get(did) ?? null;
  return { party, key: party && keyOf(token, party), own: null };
}

async function isSignedBy({ text, signature }, key) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  const signed = new TextEncoder().encode(text.slice(0, text.lastIndexOf(".")));
  return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, signed);
}

async function signatureStep(token, known) {
  const { header, ownKey, body } = token;
  const did = body.issuer.id;
  if (did.startsWith("did:key:") && !known.own) return outcome("fail", "signature-key");
  if ((header.kid ?? did).split("#")[0] !== did) return outcome("fail", "signature-other-key");
  const key = known.key ? known.key.bytes : known.own;
  if (key) {
    if (ownKey && !sameBytes(ownKey, key)) return outcome("fail", "signature-other-key");
    return (await isSignedBy(token, key)) ? outcome("pass", "signature-pass") : outcome("fail", "signature-fail");
  }
  if (!ownKey) return outcome("not-checked", "signature-key-unknown");
  if (!(await isSignedBy(token, ownKey))) return outcome("fail", "signature-fail");
  return outcome("not-checked", "signature-own-key");
}

async function issuerStep({ body }, known, trust) {
  const did = body.issuer.id;
  if (did.startsWith("did:key:")) {
    return [isPractice(body) ? outcome("not-checked", "issuer-practice") : outcome("fail", "issuer-unknown"), []];
  }
  if (!known.party) return [outcome("fail", "issuer-stranger", { domain: domainOf(did) }), []];
  const name = { issuer: known.party };
  if (!known.key) return [outcome("fail", "issuer-key-unlisted", name), []];
  if (known.key.compromised) return [outcome("fail", "issuer-key-compromised", name), []];
  const since = moment(body.validFrom);
  if (known.key.until !== null && since !== null && since > known.key.until) {
    const date = new Date(known.key.until).toISOString().slice(0, 10);
    return [outcome("fail", "issuer-key-retired", { ...name, date }), []];
  }
  try {
    const endorsers = await endorsersOf(body, trust);
    return [outcome("pass", endorsers.length ? "issuer-endorsed" : "issuer-pass", name), endorsers];
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return [outcome("fail", error.reason), []];
  }
}

// What would read as more than a host once it is decoded stays as it is written.
function domainOf(did) {
  const written = did.split(":")[2];
  const host = decoded(written);
  return /^[A-Za-z0-9.-]+(:[0-9]+)?$/.test(host) ? host : written;
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function strangerOf({ body, ownKey }) {
  const did = body.issuer.id;
  if (!did.startsWith("did:web:")) return null;
  const path = did.split(":").slice(3);
  const address = `https://${domainOf(did)}/${path.length ? path.join("/") : ".well-known"}/did.json`;
  return { did, domain: domainOf(did), address, fingerprint: ownKey && (await fingerprint(ownKey)) };
}

// Half of the SHA-256 of the key, in groups to read out.
async function fingerprint(key) {
  return (await sha256(key)).slice(0, 32).match(/.{4}/g).join(" ");
}

// Who of the reader's list has endorsed this credential or its issuer (certificates/endorsement.py).
async function endorsersOf(body, trust) {
  const placed = [
    ...(body.issuer.endorsementJwt ?? []).map((text) => [text, body.issuer.id]),
    ...(body.endorsementJwt ?? []).map((text) => [text, body.id]),
  ];
  const found = new Map();
  for (const [text, subject] of placed) {
    const party = await endorserOf(text, subject, body.issuer.id, trust);
    if (party) found.set(party.did, party);
  }
  return [...found.values()];
}

async function endorserOf(text, subject, issuer, trust) {
  let token;
  try {
    token = parseToken(text);
    checkShape(token.body, "endorsement", "issuer-endorsement-malformed");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Refused("issuer-endorsement-malformed");
  }
  const { body } = token;
  const dates = period(body);
  if (
    body.iss !== body.issuer.id ||
    body.jti !== body.id ||
    body.sub !== body.credentialSubject.id ||
    !dates ||
    !sameDates(body, dates)
  ) {
    throw new Refused("issuer-endorsement-malformed");
  }
  if (body.sub !== subject) throw new Refused("issuer-endorsement-other");
  if (body.iss === issuer) throw new Refused("issuer-endorsement-self");
  const party = trust.endorsers.get(body.iss);
  const key = party && keyOf(token, party);
  if (!key) return null;
  if (contradicts(token, key) || !(await isSignedBy(token, key.bytes))) throw new Refused("issuer-endorsement-signature");
  return key.compromised || dates.early || dates.over || isRetired(key, dates) ? null : party;
}

const contradicts = ({ ownKey }, key) => ownKey !== null && !sameBytes(ownKey, key.bytes);
const isRetired = (key, { since }) => key.until !== null && since > key.until;

// The 32 bytes of an Ed25519 did:key (base58btc of 0xed 0x01 and the key), else null.
function publicKey(did) {
  const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
  let number = 0n;
  for (const letter of did.slice("did:key:z".length)) number = number * 58n + BigInt(alphabet.indexOf(letter));
  const hex = number.toString(16);
  if (hex.length !== 68 || !hex.startsWith("ed01") || did["did:key:z".length] === "1") return null;
  return Uint8Array.from(hex.slice(4).match(/../g), (each) => parseInt(each, 16));
}

const isPractice = (body) =>
  body.issuer.id.startsWith("did:key:") && body.issuer.id === body.credentialSubject.id;

function datesStep(body) {
  const dates = period(body);
  if (!dates) return outcome("fail", "dates-impossible");
  if (!sameDates(body, dates)) return outcome("fail", "dates-differ");
  if ("awardedDate" in body) {
    const awarded = moment(body.awardedDate);
    if (awarded === null || awarded > dates.since) return outcome("fail", "dates-impossible");
  }
  if (dates.early) return outcome("fail", "dates-future", { date: body.validFrom.slice(0, 10) });
  if (dates.until === null) return outcome("pass", "dates-pass", { date: body.validFrom.slice(0, 10) });
  const date = body.validUntil.slice(0, 10);
  return dates.over ? outcome("fail", "dates-expired", { date }) : outcome("pass", "dates-until", { date });
}

// The dates of a credential, and how now lies to them; null where they are impossible.
function period(body) {
  const leeway = RULES.leeway_seconds * 1000;
  const since = moment(body.validFrom);
  const until = "validUntil" in body ? moment(body.validUntil) : null;
  if (since === null || ("validUntil" in body && until === null) || (until !== null && until <= since)) return null;
  return { since, until, early: since > Date.now() + leeway, over: until !== null && until < Date.now() - leeway };
}

const sameDates = (body, { since, until }) =>
  body.nbf * 1000 === since && body.exp === (until === null ? undefined : until / 1000);

function moment(text) {
  const time = Date.parse(text);
  if (Number.isNaN(time)) return null;
  return new Date(time).toISOString() === text.replace("Z", ".000Z") ? time : null;
}

// --- revocation (certificates/revocation.py)

async function revocationStep(body, party, ask) {
  if (party) return readStatus(body.credentialStatus, party, ask);
  if ("credentialStatus" in body) return outcome("not-checked", "revocation-unread");
  return outcome("not-checked", isPractice(body) ? "revocation-practice" : "revocation-none");
}

async function readStatus(entry, party, ask) {
  if (!entry) return outcome("fail", "revocation-missing");
  const address = entry.statusListCredential;
  const index = Number(entry.statusListIndex);
  if (!isAllowed(address, party)) return outcome("fail", "revocation-elsewhere");
  if (entry.id !== `${address}#${index}` || index >= RULES.list_bits) return outcome("fail", "revocation-malformed");
  if (!ask) return outcome("not-checked", "revocation-offline");
  let list;
  try {
    list = await readList(await ask(address), address, entry.statusPurpose, party);
  } catch (error) {
    if (error instanceof Unreachable) return outcome("not-checked", "revocation-unreachable");
    if (!(error instanceof Refused)) throw error;
    return outcome(error.reason === "revocation-list-key" ? "not-checked" : "fail", error.reason, error.values);
  }
  if (!isSet(list.bits, index)) return outcome("pass", "revocation-pass", { date: list.date });
  return outcome("fail", await whichBit(address, index, entry.statusPurpose, party, ask));
}

// Under one of the addresses of the reader's list, and written in one way only.
const isAllowed = (address, party) =>
  party.status.some(
    (each) => address.startsWith(each) && /^[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*$/.test(address.slice(each.length)),
  );

async function readList(bytes, address, purpose, party) {
  if (bytes.length > RULES.list_bytes) throw new Refused("revocation-large");
  const text = latin(trimmed(bytes));
  if (!/^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/.test(text)) throw new Refused("revocation-list");
  let token;
  try {
    token = parseToken(text);
    checkShape(token.body, "list", "revocation-list");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    throw new Refused("revocation-list");
  }
  const { body } = token;
  const subject = body.credentialSubject;
  if (
    body.id !== address ||
    body.jti !== address ||
    body.issuer !== party.did ||
    body.iss !== party.did ||
    subject.id !== `${address}#list` ||
    body.sub !== subject.id
  ) {
    throw new Refused("revocation-list-other");
  }
  const key = keyOf(token, party);
  if (!key && (token.header.kid ?? "").startsWith(`${party.did}#`)) throw new Refused("revocation-list-key");
  if (!key || key.compromised || contradicts(token, key) || !(await isSignedBy(token, key.bytes))) {
    throw new Refused("revocation-list-signature");
  }
  const dates = period(body);
  if (!dates || !sameDates(body, dates) || isRetired(key, dates)) throw new Refused("revocation-list");
  if (dates.early || dates.over) throw new Refused("revocation-list-stale", { date: body.validUntil.slice(0, 10) });
  if (subject.statusPurpose !== purpose) throw new Refused("revocation-list-purpose");
  return { bits: await bitsOf(subject.encodedList), date: body.validFrom.slice(0, 10) };
}

// Whether a set bit means revoked or suspended, by the list beside it; either way nobody may rely on it now.
async function whichBit(address, index, purpose, party, ask) {
  if (purpose === "revocation") return "revocation-revoked";
  const beside = address.replace("/suspension/", "/revocation/");
  try {
    const { bits } = await readList(await ask(beside), beside, "revocation", party);
    return isSet(bits, index) ? "revocation-revoked" : "revocation-suspended";
  } catch (error) {
    if (!(error instanceof Refused || error instanceof Unreachable)) throw error;
    return "revocation-set";
  }
}

async function bitsOf(encoded) {
  const size = RULES.list_bits / 8;
  let bits;
  try {
    bits = await inflate(decodeBase64url(encoded.slice(1)), "gzip", "revocation-list", size);
  } catch {
    throw new Refused("revocation-list");
  }
  if (bits.length !== size) throw new Refused("revocation-list");
  return bits;
}

const isSet = (bits, index) => (bits[index >> 3] & (0x80 >> index % 8)) !== 0;

// The bytes at an address: once, no redirect, so many bytes, so many seconds (certificates/network.py).
async function askServer(address) {
  const parts = [];
  let length = 0;
  try {
    const response = await fetch(address, {
      cache: "no-store",
      credentials: "omit",
      redirect: "manual",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(RULES.list_seconds * 1000),
    });
    if (response.type === "opaqueredirect") throw new Refused("revocation-redirect");
    if (response.status !== 200) throw new Unreachable();
    const reader = response.body.getReader();
    while (length <= RULES.list_bytes) {
      const { done, value } = await reader.read();
      if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
      parts.push(value);
      length += value.length;
    }
    reader.cancel().catch(() => {});
  } catch (error) {
    throw error instanceof Refused ? error : new Unreachable();
  }
  throw new Refused("revocation-large");
}

// --- recipient and evidence

async function recipientStep(body, email) {
  if (!email.trim()) return outcome("not-checked", "recipient-not-asked");
  const hashed = body.credentialSubject.identifier.filter(
    (each) => each.identityType === "emailAddress" && each.hashed && each.salt,
  );
  if (!hashed.length) return outcome("not-checked", "recipient-none");
  const normal = email.trim().normalize("NFC").toLowerCase();
  for (const each of hashed) {
    const hash = await sha256(new TextEncoder().encode(normal + each.salt));
    if (each.identityHash === `sha256$${hash}`) return outcome("pass", "recipient-pass");
  }
  return outcome("fail", "recipient-fail");
}

function evidenceStep(body, graded) {
  const named = byName(body.evidence, "genre", "narrative");
  if (!named) return outcome("fail", "evidence-malformed");
  const wrong = isExam(body) ? examEvidence(body, named) : unitEvidence(body, named);
  if (wrong) return outcome("fail", wrong);
  return graded ? outcome("pass", "evidence-graded") : outcome("not-checked", "evidence-consistent");
}

const isHash = (text) => /^sha256:[0-9a-f]{64}$/.test(text);
const UUID = /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

// Why an exam's results and evidence don't agree; null where they do.
function examEvidence(body, named) {
  const genres = ["attempt", "bank", "seed", "supervised", "items", "attempt-number"];
  const attempts = /^([1-9][0-9]{0,3})(?:\/([1-9][0-9]{0,3}))?$/.exec(named.get("attempt-number") ?? "");
  const replaces = named.get("replaces");
  if (
    !sameSet([...named.keys()].filter((each) => each !== "replaces"), genres) ||
    !["attempt", "bank", "seed"].every((each) => isHash(named.get(each))) ||
    !["yes", "no"].includes(named.get("supervised")) ||
    !["public", "private"].includes(named.get("items")) ||
    !attempts ||
    (attempts[2] && Number(attempts[1]) > Number(attempts[2])) ||
    (replaces !== undefined && (!UUID.test(replaces) || replaces === body.id))
  ) {
    return "evidence-malformed";
  }
  const results = resultsOf(body);
  const exam = body.credentialSubject.achievement.id;
  if (!results || !results.has(`${exam}:quiz`)) return "evidence-malformed";
  const ids = [...results.keys()];
  const objectives = ids.filter((id) => id.startsWith(`${exam}:objective:`));
  const labs = ids.filter((id) => id.startsWith(`${exam}:lab:`));
  const whole = [`${exam}:quiz`, ...(labs.length ? [`${exam}:labs`] : [])];
  const marked = ids.filter((id) => results.get(id)[1] !== undefined);
  if (!objectives.length || !sameSet(ids, [...objectives, ...labs, ...whole]) || !sameSet(marked, whole)) {
    return "evidence-malformed";
  }
  const pairs = [...results.values()];
  if (pairs.flat().some((each) => each !== undefined && tenths(each) === null)) return "evidence-range";
  return pairs.some(([value, mark]) => mark !== undefined && tenths(value) < tenths(mark)) ? "evidence-below" : null;
}

// Each result with what it requires, by id; null where results and their descriptions don't belong together.
function resultsOf(body) {
  const subject = body.credentialSubject;
  const described = byName(subject.achievement.resultDescription, "id", "requiredValue");
  const values = byName(subject.result, "resultDescription", "value");
  if (!described || !values || !sameSet([...values.keys()], [...described.keys()])) return null;
  return new Map([...values].map(([id, value]) => [id, [value, described.get(id)]]));
}

// Why a unit's results and evidence don't agree; null where they do.
function unitEvidence(body, named) {
  const checks = /^([0-9]{1,3})\/([1-9][0-9]{0,2})$/.exec(named.get("checks") ?? "");
  if (
    !sameSet([...named.keys()], ["attempt", "bank", "seed", "checks", "supervised"]) ||
    !["attempt", "bank"].every((each) => isHash(named.get(each))) ||
    !/^[0-9]{1,20}$/.test(named.get("seed")) ||
    !["yes", "no"].includes(named.get("supervised")) ||
    !checks
  ) {
    return "evidence-malformed";
  }
  const results = resultsOf(body);
  if (!results) return "evidence-malformed";
  const unit = body.credentialSubject.achievement.id;
  const ids = [...results.keys()];
  const objectives = ids.filter((id) => id.startsWith(`${unit}:objective:`));
  const mastery = `${unit}:mastery`;
  const marked = [mastery, ...objectives];
  if (
    !objectives.length ||
    !sameSet(ids, [...marked, `${unit}:quiz`]) ||
    !sameSet(ids.filter((id) => results.get(id)[1] !== undefined), marked) ||
    Number(checks[1]) > Number(checks[2])
  ) {
    return "evidence-malformed";
  }
  if ([...results.values()].flat().some((each) => each !== undefined && tenths(each) === null)) return "evidence-range";
  const value = (id) => tenths(results.get(id)[0]);
  const mark = (id) => tenths(results.get(id)[1]);
  const mastered = objectives.filter((id) => value(id) >= mark(id)).length;
  if (value(mastery) !== Math.floor((1000 * mastered) / objectives.length)) return "evidence-disagrees";
  if (value(mastery) < mark(mastery) || Number(checks[1]) < Number(checks[2])) return "evidence-below";
  return named.get("supervised") === "yes" && isPractice(body) ? "evidence-supervised" : null;
}

// A map of one field by another; null where two share a name.
function byName(list, name, value) {
  const map = new Map(list.map((each) => [each[name], each[value]]));
  return map.size === list.length ? map : null;
}

const sameSet = (one, other) => one.length === other.length && one.every((each) => other.includes(each));

// A percentage from 0 to 100 with at most one decimal, in tenths; else null.
function tenths(text) {
  if (!/^(0|[1-9][0-9]{0,2})(\.[0-9])?$/.test(text)) return null;
  const value = Number(text.includes(".") ? text.replace(".", "") : `${text}0`);
  return value <= 1000 ? value : null;
}

async function sha256(bytes) {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
