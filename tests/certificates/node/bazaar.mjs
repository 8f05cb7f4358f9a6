// Verifies Data Integrity credentials with Digital Bazaar's libraries, offline: JSON on stdin, {name: "verified" | why} out.
// in: {documents: {address: document}, credentials: {name: credential}}; every other address is refused.
import { readFileSync } from "node:fs";
import { DataIntegrityProof } from "@digitalbazaar/data-integrity";
import { cryptosuite } from "@digitalbazaar/eddsa-rdfc-2022-cryptosuite";
import { checkStatus } from "@digitalbazaar/vc-bitstring-status-list";
import * as vc from "@digitalbazaar/vc";

const { documents, credentials } = JSON.parse(readFileSync(0, "utf8"));

async function documentLoader(url) {
  const [address] = url.split("#");
  let document = documents[url] ?? documents[address];
  if (!document) throw new Error(`not found: ${url}`);
  // A verification method is looked up within its controller's document, and has the context of its kind.
  const method = document.verificationMethod?.find((each) => each.id === url);
  if (method) document = { "@context": "https://w3id.org/security/multikey/v1", ...method };
  return { contextUrl: null, documentUrl: url, document };
}

// The library reads the bit; that a bit of these purposes means "don't accept" is for whoever asks to know.
async function statusOf(options) {
  const found = await checkStatus({ ...options, suite, documentLoader });
  return found.results?.some((each) => each.status) ? { ...found, verified: false } : found;
}

const suite = new DataIntegrityProof({ cryptosuite });
const found = {};
for (const [name, credential] of Object.entries(credentials)) {
  const result = await vc.verifyCredential({ credential, suite, documentLoader, checkStatus: statusOf });
  const errors = [result.error, ...(result.error?.errors ?? []), result.statusResult?.error].filter(Boolean);
  found[name] = result.verified ? "verified" : errors.map((each) => each.message).join("; ") || "refused";
}
console.log(JSON.stringify(found));
