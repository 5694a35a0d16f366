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

export function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

// Of what is estimated, to ten seconds: "5 min 1 s" would claim to know more.
export function about(seconds) {
  return `about ${span(seconds < 100 ? seconds : Math.round(seconds / 10) * 10)}`;
}

export function money(amount, currency) {
  if (amount === null || amount === undefined) return "unknown";
  const value = Number(amount);
  const digits = Math.abs(value) < 1 ? 4 : Math.abs(value) < 1000 ? 2 : 0;
  const text = Number(value.toFixed(digits)) === 0 ? "0" : value.toLocaleString([], { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${text} ${currency ?? ""}`.trim();
}

// What a decision says begins with its action; "nothing" alone would be no sentence.
export function sentence(says) {
  return says.replace(/^nothing(?: to do)?: /, "Nothing to do: ").replace(/^(scale)_(\w+): /, "$1-$2: ").replace(/^consolidate: (?:consolidation: )?/, "consolidation: ").replace(/^(release|forget|adopt|retry|repair|replace): (?=\1)/, "");
}

export function share(value) {
  return value === null || value === undefined ? "unknown" : `${Math.round(value * 100)} %`;
}
