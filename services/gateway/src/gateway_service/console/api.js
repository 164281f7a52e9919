// The public REST API, called as any client calls it: with an API key in the Authorization header, and no cookie. The key
// is in sessionStorage: of this tab, until it is closed. Who signs in by an identity provider has its token in place of a
// key. A cookie, which no script reads, binds the way there and back to this browser; no other call takes it along.

const STORED = "ratchet.key";
const LOGOUT = "ratchet.logout"; // the provider's address for it
const VIEW = "ratchet.view"; // where somebody was before the login
const API = new URL("../api/v1/", document.baseURI);
const LOGIN = new URL("../login", document.baseURI);

export class ApiError extends Error {
  constructor(status, code, message, violations = []) {
    super(message);
    Object.assign(this, { status, code, violations });
  }
}

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (secret) => sessionStorage.setItem(STORED, secret),
  forget: () => [STORED, LOGOUT].forEach((name) => sessionStorage.removeItem(name)),
};

export const login = {
  // The identity provider's name; empty where there is none.
  provider: async () => (await (await send("GET", LOGIN)).json()).provider,
  async begin() {
    const { url } = await (await send("POST", LOGIN, { credentials: "same-origin" })).json();
    sessionStorage.setItem(VIEW, location.hash);
    location.assign(url);
  },
  // `answer`: the parameters with which the provider sent the browser back. Gives the view to go on with.
  async finish(answer) {
    const body = Object.fromEntries(answer);
    const reply = await send("POST", `${LOGIN}/token`, { body, credentials: "same-origin" });
    const { token, logout_url } = await reply.json();
    key.set(token);
    sessionStorage.setItem(LOGOUT, logout_url);
    const view = sessionStorage.getItem(VIEW) ?? "";
    sessionStorage.removeItem(VIEW);
    return view;
  },
  logoutUrl: () => sessionStorage.getItem(LOGOUT),
};

async function send(method, path, { query = {}, body, signal, credentials = "omit" } = {}) {
  const url = new URL(path, API);
  for (const [name, value] of Object.entries(query))
    if (value !== "" && value != null) url.searchParams.set(name, value);
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url, { method, headers, signal, credentials, body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, "UNREACHABLE", "The gateway does not answer.");
  }
  if (response.ok) return response;
  const failed = await response.json().catch(() => ({}));
  const { code = "UNKNOWN", message = `The gateway answered ${response.status}.`, violations } = failed.error ?? {};
  if (response.status === 401 && key.get()) dispatchEvent(new CustomEvent("signed-out", { detail: message }));
  throw new ApiError(response.status, code, message, violations);
}

export async function get(path, query, signal) {
  return (await send("GET", path, { query, signal })).json();
}

export async function post(path, body = {}) {
  return (await send("POST", path, { body })).json();
}

export async function put(path, body = {}) {
  return (await send("PUT", path, { body })).json();
}

export async function remove(path) {
  return (await send("DELETE", path)).json();
}

// Up to `limit` items of a list, through its pages; `cut` where there are more. `field`: where the answer has them.
export async function list(path, field, { query = {}, limit = 200, signal } = {}) {
  const found = [];
  let token = "";
  do {
    const page = await get(
      path,
      { ...query, page_size: Math.min(limit - found.length, 200), page_token: token },
      signal,
    );
    found.push(...page[field]);
    token = page.next_page_token;
  } while (token && found.length < limit);
  return Object.assign(found, { cut: Boolean(token) });
}

// The messages of a server-sent stream. EventSource would do, but sends no Authorization header.
export async function* watch(path, query, signal) {
  const response = await send("GET", path, { query, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const events = waiting.split("\n\n");
    waiting = events.pop();
    for (const event of events) {
      const lines = event.split("\n");
      const data = lines.find((line) => line.startsWith("data: "));
      if (!data) continue; // a ping
      const message = JSON.parse(data.slice(6));
      if (lines.includes("event: error")) throw new ApiError(0, message.error.code, message.error.message);
      yield message;
    }
  }
}

// The same, and again from `query()` on where the connection or the service was lost; ends when the stream has ended.
export async function follow(path, query, signal, take, lost = () => {}) {
  for (;;) {
    try {
      for await (const message of watch(path, query(), signal)) take(message);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && !["UNREACHABLE", "UNAVAILABLE", "DEADLINE_EXCEEDED"].includes(error.code))
        throw error;
      lost(error);
      await sleep(2, signal);
    }
  }
}

export function sleep(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 1000 * seconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

// For creates: sent again under it, a request makes nothing twice.
export const requestId = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
