// Starts oidc-provider, a certified implementation of OpenID Connect, with its pages for development, on which any name
// signs in. Arguments: the folder of the npm package, the port, the redirect URI of the clients.

import { generateKeyPairSync } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [folder, port, redirectURI] = process.argv.slice(2);
const { default: Provider } = await import(
  pathToFileURL(createRequire(folder + "/").resolve("oidc-provider")).href);

const key = (kid, alg, kind, options) =>
  ({ ...generateKeyPairSync(kind, options).privateKey.export({ format: "jwk" }), kid, alg, use: "sig" });

// RS256 has a secret in the header, ES256 one in the body, and EdDSA is a public client.
const client = (alg, method) => ({
  client_id: alg, redirect_uris: [redirectURI], id_token_signed_response_alg: alg, token_endpoint_auth_method: method,
  ...(method === "none" ? {} : { client_secret: "a secret: of+the client" }),
});

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [client("RS256", "client_secret_basic"), client("ES256", "client_secret_post"), client("EdDSA", "none")],
  jwks: {
    keys: [key("1", "RS256", "rsa", { modulusLength: 2048 }), key("2", "ES256", "ec", { namedCurve: "P-256" }),
      key("3", "EdDSA", "ed25519", {})],
  },
  enabledJWA: { idTokenSigningAlgValues: ["RS256", "ES256", "EdDSA"] },
  clientAuthMethods: ["client_secret_basic", "client_secret_post", "none"],
  scopes: ["openid", "email", "profile", "groups"],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"], groups: ["groups"] },
  pkce: { required: () => true },
  cookies: { keys: ["a key for tests"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id, email: `${id}@farm.example`, email_verified: id !== "mallory", name: `Dr. ${id}`, groups: ["printing"],
    }),
  }),
});
provider.on("server_error", (_, error) => console.error(error));
provider.listen(port, "127.0.0.1", () => console.log("ready"));
