// Judges a certificate exactly as certificates/verification.py does: the same steps, reasons and rules (RULES is rules.json).
// Reads bytes, asks nobody, changes nothing.
"use strict";

const STEPS = ["format", "signature", "issuer", "dates", "revocation", "recipient", "evidence"];

class Refused extends Error {
  constructor(reason, values = {}) {
    super(reason);
    this.reason = reason;
    this.values = values;
  }
}

const outcome = (result, reason, values = {}) => ({ result, reason, values });

async function verify(bytes, email) {
  const outcomes = {};
  let credential = null;
  let token = null;
  try {
    token = await tokenIn(bytes);
    const { header, body, signature } = parseToken(token);
    outcomes.format = outcome("pass", "format-pass");
    outcomes.signature = await signatureStep(token, header, body, signature);
    if (outcomes.signature.result !== "fail") {
      outcomes.issuer = isPractice(body)
        ? outcome("not-checked", "issuer-practice")
        : outcome("fail", "issuer-unknown");
      outcomes.dates = datesStep(body);
      outcomes.revocation = revocationStep(body);
      outcomes.recipient = await recipientStep(body, email);
      outcomes.evidence = evidenceStep(body);
    }
    if (outcomes.signature.result === "pass") credential = body;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    outcomes.format = outcome("fail", error.reason, error.values);
  }
  const steps = STEPS.map((step) => ({ step, ...(outcomes[step] ?? outcome("not-checked", "skipped")) }));
  const failed = steps.filter((each) => each.result === "fail").map((each) => each.step);
  const verdict = failed.some((step) => step !== "issuer") ? "invalid" : failed.length ? "unknown-issuer" : "practice";
  return { verdict, steps, credential, sha256: token && (await sha256(new TextEncoder().encode(token))) };
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

// At most a little more than a token may have, so that a bomb costs nothing.
async function inflate(bytes, format, damaged) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format)).getReader();
  const parts = [];
  let length = 0;
  try {
    while (length <= RULES.token_bytes) {
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

function parseToken(token) {
  const [header, body, signature] = token.split(".").map(decodeBase64url);
  const head = parseJson(header);
  if (head.alg !== "EdDSA") throw new Refused("format-algorithm");
  if (misshapen(head, RULES.header, "") !== null) throw new Refused("format-header");
  const credential = parseJson(body);
  if (!Array.isArray(credential.type) || !credential.type.includes("OpenBadgeCredential")) {
    throw new Refused("format-type");
  }
  const where = misshapen(credential, RULES.credential, "");
  if (where !== null) throw new Refused("format-shape", { where: where.slice(1) || "/" });
  if (signature.length !== 64) throw new Refused("format-token");
  if (
    credential.iss !== credential.issuer.id ||
    credential.sub !== credential.credentialSubject.id ||
    credential.jti !== credential.id
  ) {
    throw new Refused("format-claims");
  }
  return { header: head, body: credential, signature };
}

// Where a value breaks a schema that uses only what RULES uses; null where it keeps it.
function misshapen(value, schema, at) {
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
    if (!Array.isArray(value) || value.length < schema.minItems || value.length > schema.maxItems) return at;
    return first(value.map((each, index) => () => misshapen(each, schema.items, `${at}.${index}`)));
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return at;
  if (!schema.required.every((name) => name in value)) return at;
  if (!Object.keys(value).every((name) => Object.hasOwn(schema.properties, name))) return at;
  return first(Object.keys(value).map((name) => () => misshapen(value[name], schema.properties[name], `${at}.${name}`)));
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

// --- the steps

async function signatureStep(token, header, body, signature) {
  const did = body.issuer.id;
  if (!did.startsWith("did:key:")) return outcome("not-checked", "signature-key-unknown");
  const key = publicKey(did);
  if (!key) return outcome("fail", "signature-key");
  if (header.jwk && header.jwk.x !== encodeBase64url(key)) return outcome("fail", "signature-other-key");
  if ((header.kid ?? did).split("#")[0] !== did) return outcome("fail", "signature-other-key");
  const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
  const signed = new TextEncoder().encode(token.slice(0, token.lastIndexOf(".")));
  const intact = await crypto.subtle.verify({ name: "Ed25519" }, imported, signature, signed);
  return intact ? outcome("pass", "signature-pass") : outcome("fail", "signature-fail");
}

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
  const leeway = RULES.leeway_seconds * 1000;
  const since = moment(body.validFrom);
  const until = "validUntil" in body ? moment(body.validUntil) : undefined;
  if (since === null || until === null) return outcome("fail", "dates-impossible");
  if (body.nbf * 1000 !== since || body.exp !== (until === undefined ? undefined : until / 1000)) {
    return outcome("fail", "dates-differ");
  }
  if (until !== undefined && until <= since) return outcome("fail", "dates-impossible");
  if (since > Date.now() + leeway) return outcome("fail", "dates-future", { date: body.validFrom.slice(0, 10) });
  if (until === undefined) return outcome("pass", "dates-pass", { date: body.validFrom.slice(0, 10) });
  const date = body.validUntil.slice(0, 10);
  return until < Date.now() - leeway ? outcome("fail", "dates-expired", { date }) : outcome("pass", "dates-until", { date });
}

function moment(text) {
  const time = Date.parse(text);
  if (Number.isNaN(time)) return null;
  return new Date(time).toISOString() === text.replace("Z", ".000Z") ? time : null;
}

function revocationStep(body) {
  if ("credentialStatus" in body) return outcome("not-checked", "revocation-unread");
  return outcome("not-checked", isPractice(body) ? "revocation-practice" : "revocation-none");
}

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

function evidenceStep(body) {
  const subject = body.credentialSubject;
  const unit = subject.achievement.id;
  const evidence = byName(body.evidence, "genre", "narrative");
  const described = byName(subject.achievement.resultDescription, "id", "requiredValue");
  const results = byName(subject.result, "resultDescription", "value");
  const malformed = outcome("fail", "evidence-malformed");
  if (!evidence || !sameSet([...evidence.keys()], ["attempt", "bank", "seed", "checks", "supervised"])) return malformed;
  const checks = /^([0-9]{1,3})\/([1-9][0-9]{0,2})$/.exec(evidence.get("checks"));
  if (
    !["attempt", "bank"].every((each) => /^sha256:[0-9a-f]{64}$/.test(evidence.get(each))) ||
    !/^[0-9]{1,20}$/.test(evidence.get("seed")) ||
    !["yes", "no"].includes(evidence.get("supervised")) ||
    !checks ||
    !described ||
    !results
  ) {
    return malformed;
  }
  const objectives = [...results.keys()].filter((id) => id.startsWith(`${unit}:objective:`));
  const marked = [`${unit}:mastery`, ...objectives];
  const required = [...described].filter(([, value]) => value !== undefined).map(([id]) => id);
  if (
    !objectives.length ||
    !sameSet([...results.keys()], [...described.keys()]) ||
    !sameSet([...results.keys()], [...marked, `${unit}:quiz`]) ||
    !sameSet(required, marked) ||
    Number(checks[1]) > Number(checks[2])
  ) {
    return malformed;
  }
  const percents = [...[...results.values()], ...marked.map((id) => described.get(id))];
  if (percents.some((each) => tenths(each) === null)) return outcome("fail", "evidence-range");
  const value = (id) => tenths(results.get(id));
  const mark = (id) => tenths(described.get(id));
  const mastered = objectives.filter((id) => value(id) >= mark(id)).length;
  const mastery = `${unit}:mastery`;
  if (value(mastery) !== Math.floor((1000 * mastered) / objectives.length)) return outcome("fail", "evidence-disagrees");
  if (value(mastery) < mark(mastery) || Number(checks[1]) < Number(checks[2])) return outcome("fail", "evidence-below");
  if (evidence.get("supervised") === "yes" && isPractice(body)) return outcome("fail", "evidence-supervised");
  return outcome("not-checked", "evidence-consistent");
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
