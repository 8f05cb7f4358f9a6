// Verifies tokens with npm jose: lines "name<TAB>token[<TAB>multibase key]" in, lines "name<TAB>intact|refused" out.
// The key is the one given, else the issuer's did:key; both are decoded here and not by the code under test.
import { readFileSync } from "node:fs";
import { compactVerify, decodeJwt, importJWK } from "jose";

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

function keyOf(multibase) {
  if (!multibase?.startsWith("z")) throw new Error("no key is known");
  const number = [...multibase.slice(1)].reduce((sum, each) => sum * 58n + BigInt(ALPHABET.indexOf(each)), 0n);
  const bytes = Buffer.from(number.toString(16).padStart(68, "0"), "hex");
  if (bytes.length !== 34 || bytes[0] !== 0xed || bytes[1] !== 0x01) throw new Error("not Ed25519");
  return importJWK({ kty: "OKP", crv: "Ed25519", x: bytes.subarray(2).toString("base64url") }, "EdDSA");
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const [name, token, known] = line.split("\t");
  let result = "refused";
  try {
    const { iss } = decodeJwt(token);
    const own = iss.startsWith("did:key:") ? iss.slice("did:key:".length) : undefined;
    await compactVerify(token, await keyOf(known || own), { algorithms: ["EdDSA"] });
    result = "intact";
  } catch {
    // Refused, for whatever reason.
  }
  console.log(`${name}\t${result}`);
}
