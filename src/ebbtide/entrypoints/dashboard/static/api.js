// Asking the API, and listening to it. The token is kept in this tab and sent in a header: no cookie, so
// no other page can act in its name.

const KEY = "ebbtide-token";
let token = sessionStorage.getItem(KEY) ?? "";

// `ebbtide demo` opens the page with its token behind the #, which never leaves the browser.
const given = new URLSearchParams(location.hash.split("?")[1] ?? "").get("token");
if (given) {
  setToken(given);
  history.replaceState(null, "", location.pathname + (location.hash.split("?")[0] || "#/now"));
}

export function setToken(value) {
  token = value.trim();
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

function headers(more = {}) {
  return token ? { Authorization: `Bearer ${token}`, ...more } : more;
}

export class Refused extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

// A connection that is dead without an end would keep the page at old values forever, under a green "live".
const ANSWER_MS = 30000;
const SILENCE_MS = 40000;

export async function ask(path, options = {}) {
  let response;
  let text;
  const more = options.body === undefined ? {} : { "Content-Type": "application/json" };
  try {
    response = await fetch(path, {
      method: options.method ?? "GET",
      headers: headers({ ...more, ...(options.headers ?? {}) }),
      body: options.body === undefined ? undefined : JSON.stringify(options.body),
      cache: "no-store",
      signal: AbortSignal.timeout(ANSWER_MS),
    });
    text = await response.text();
  } catch {
    throw new Refused(0, options.method ? "The server does not answer; nothing was changed as far as this page knows." : "The server does not answer.");
  }
  let body = null;
  try { body = text ? JSON.parse(text) : null; } catch { body = null; }
  if (!response.ok) throw new Refused(response.status, body?.detail ?? `The server answered ${response.status}.`);
  return body;
}

export const NO_POLICIES = "Policies are not served here: their tables are missing. `ebbtide db upgrade` makes them.";

// Null where this server has no policies at all.
export async function askScaling(path) {
  try { return await ask(path); } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

// Server-sent events by fetch, since EventSource cannot send a token. Reconnects, and says where it was.
export async function listen(onEvent, onState) {
  let last = "";
  let wait = 1000;
  for (;;) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    const heard = () => { clearTimeout(timer); timer = setTimeout(() => silence.abort(), SILENCE_MS); };
    try {
      const response = await fetch("/api/v1/events", { headers: headers(last ? { "Last-Event-ID": last } : {}), cache: "no-store", signal: silence.signal });
      if (!response.ok) {
        onState(response.status === 401 ? "token needed" : "refused");
      } else {
        onState("live");
        wait = 1000;
        await drain(response.body.getReader(), (event) => {
          if (event.id) last = event.id;
          onEvent(event);
        }, heard);
        onState("reconnecting");
      }
    } catch {
      onState("reconnecting");
    } finally {
      clearTimeout(timer);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 1.5, 5000);
  }
}

async function drain(reader, onEvent, heard) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest += decoder.decode(value, { stream: true });
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { id: "", name: "message", data: null };
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        else if (line.startsWith("event: ")) event.name = line.slice(7);
        else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
      }
      if (event.data !== null) onEvent(event);
    }
  }
}
