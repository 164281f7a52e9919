// An OpenID Connect provider for tests: node-oidc-provider, in which any password is right, and a login is a name.
//   node identity_provider.mjs LIBRARY PORT CONSOLE SECRET '{"ana": ["ml-leads"]}'

import { pathToFileURL } from "node:url";

const [library, port, console_, secret, groups] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(library));
const members = JSON.parse(groups);
const issuer = `http://127.0.0.1:${port}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "ratchet",
      client_secret: secret,
      redirect_uris: [console_],
      post_logout_redirect_uris: [console_],
    },
  ],
  claims: { openid: ["sub"], email: ["email"], groups: ["groups"] },
  features: { claimsParameter: { enabled: true } },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.com`, groups: members[id] ?? [] }),
  }),
});
provider.listen(Number(port), "127.0.0.1");
