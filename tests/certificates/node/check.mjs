// Verifies tokens with npm jose: lines "name<TAB>token" in, lines "name<TAB>intact|refused" out.
// The key comes from the issuer's did:key, decoded here and not by the code under test.
import { readFileSync } from "node:fs";
import { compactVerify, decodeJwt, importJWK } from "jose";

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

function keyOf(did) {
  if (!did.startsWith("did:key:z")) throw new Error("not a did:key");
  const number = [...did.slice(9)].reduce((sum, each) => sum * 58n + BigInt(ALPHABET.indexOf(each)), 0n);
  const bytes = Buffer.from(number.toString(16).padStart(68, "0"), "hex");
  if (bytes.length !== 34 || bytes[0] !== 0xed || bytes[1] !== 0x01) throw new Error("not Ed25519");
  return importJWK({ kty: "OKP", crv: "Ed25519", x: bytes.subarray(2).toString("base64url") }, "EdDSA");
}

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const [name, token] = line.split("\t");
  let result = "refused";
  try {
    await compactVerify(token, await keyOf(decodeJwt(token).iss), { algorithms: ["EdDSA"] });
    result = "intact";
  } catch {
    // Refused, for whatever reason.
  }
  console.log(`${name}\t${result}`);
}
