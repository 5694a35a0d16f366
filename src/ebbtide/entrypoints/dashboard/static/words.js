// Times, spans and money as people say them.

export function clock(seconds, short) {
  return seconds ? new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(short ? {} : { second: "2-digit" }) }) : "never";
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function moment(seconds, short) {
  if (!seconds) return "never";
  return new Date(seconds * 1000).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", ...(short ? {} : { second: "2-digit" }) });
}

// The day is left out where it is that of `now`, which is the cluster's time and not always the browser's.
export function when(seconds, now, short) {
  return dayOf(seconds) === dayOf(now) ? clock(seconds, short) : moment(seconds, short);
}

export function dayOf(seconds) {
  return new Date(seconds * 1000).toDateString();
}

// In as few letters as fit on a tile.
export function brief(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  return whole < 86400 ? `${Math.floor(whole / 3600)} h` : `${Math.floor(whole / 86400)} d`;
}

// As the sentences of the log say it, which stand next to it.
export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

// Of what is estimated, to ten seconds: "5 min 1 s" would claim to know more.
export function about(seconds) {
  return `about ${span(seconds < 100 ? seconds : Math.round(seconds / 10) * 10)}`;
}

// Of what is expected, as the headline says it: tens of seconds, then whole minutes.
export function roughly(seconds) {
  return seconds < 90 ? `${Math.max(10, Math.round(seconds / 10) * 10)} s` : `${Math.round(seconds / 60)} min`;
}

function digitsOf(value) {
  return Math.abs(value) < 1 ? 4 : Math.abs(value) < 1000 ? 2 : 0;
}

// Of all amounts in a column: as many as the smallest of them needs. What costs nothing needs none.
export function decimals(amounts) {
  return Math.max(0, ...amounts.map(Number).filter(Boolean).map(digitsOf));
}

export function money(amount, currency, digits = digitsOf(Number(amount))) {
  if (amount === null || amount === undefined) return "unknown";
  const value = Number(amount);
  const text = Number(value.toFixed(digits)) === 0 ? "0" : value.toLocaleString([], { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${text} ${currency ?? ""}`.trim();
}

// A decision that comes to the same again is not logged again: the numbers in it may be older than those next to it.
const FRESH_SECONDS = 10;
export function decidedAt(node, now) {
  return node.kept_at && now - node.kept_at > FRESH_SECONDS ? ` as of ${when(node.kept_at, now)}` : "";
}

// What a decision says begins with its action; "nothing" alone would be no sentence. Meanwhile an operation may continue.
export function sentence(says) {
  return says.replace(/^nothing(?: to do)?: /, "Nothing new decided: ").replace(/^(scale)_(\w+): /, "$1-$2: ").replace(/^consolidate: (?:consolidation: )?/, "consolidation: ").replace(/^(release|forget|adopt|retry|repair|replace): (?=\1)/, "");
}

// Steps of a machine as people say them; a launch has no name before its node is there.
const STATES = { RESERVED: "planned", LAUNCHING: "requested", LAUNCHED: "started", MARKED: "emptying", EMPTIED: "empty" };
const STEP = /([A-Z]{2,}(?:_[A-Z]+)*|new) -> ([A-Z]{2,}(?:_[A-Z]+)*)/g;
const STATE = /\b(?:RESERVED|LAUNCHING|LAUNCHED|JOINED|READY|PLANNED|DRAINING|DRAINED|TERMINATING|GONE|MARKED|EMPTIED|EVICTING|MOVED|LEFT)\b/g;
const LAUNCH = /\b(?:\d{10}-\d{14}-\d{8}-\w+|spot:[\w-]+-\d{10}\b)/g;
const word = (state) => STATES[state] ?? state.toLowerCase().replaceAll("_", " ");

export function plainly(says) {
  return says.replace(LAUNCH, "a new node").replace(STEP, (_, before, after) => (before === "new" ? `is ${word(after)}` : `was ${word(before)}, is ${word(after)}`));
}

// A notice for each of many nodes, one after the other, is no sentence to read. Nor are they counted: the last of a long
// text are cut off.
const NOTICE = /^interruption of (?:\S+(?: \(\S+\))? received: the instance will be gone at (.+)|.*…)$/;
function summedUp(parts) {
  const notices = parts.map((part) => part.match(NOTICE)).filter(Boolean);
  if (notices.length < 2) return parts;
  const [first] = notices.map((found) => found[1]).filter(Boolean).sort();
  return [`spot notices received, instances will be gone from ${first} on`, ...parts.filter((part) => !NOTICE.test(part))];
}

// What was decided, without the steps that follow from it, where anything else is said.
export function decided(says) {
  const parts = summedUp(says.split("; "));
  const kept = parts.filter((part) => part.search(STEP) < 0);
  return kept.length ? kept.join("; ").replace(LAUNCH, "a new node").replace(STATE, word) : plainly(says);
}

export function share(value) {
  return value === null || value === undefined ? "unknown" : `${Math.round(value * 100)}%`;
}

// Who or what woke something.
export function by(reason) {
  return { manual: "hand", scheduled: "its schedule", webhook: "a webhook", api_request: "a request" }[reason] ?? reason.replaceAll("_", " ");
}

// A number and its unit stay on one line, in all that `h` writes.
export function tied(text) {
  return text.replace(/(\d) (s|min|h|d|days?|USD|EUR)\b/g, "$1\u00a0$2").replace(/(\u00a0(?:min|h|d|days?)) (?=\d+\u00a0(?:s|min|h)\b)/g, "$1\u00a0");
}

// As a sentence continues in the middle of another one.
export function lower(text) {
  return text.startsWith("Ebbtide") ? text : text[0].toLowerCase() + text.slice(1);
}
