// What the server does for lists and search, for an export that has none.
import type { Fields, Json, ListAnswer, SearchAnswer, SearchResult } from "./types";
import type { Query } from "./answers";

const PAGE = 500;
const MOST = 5000;
const FACET_VALUES = 30;
const AROUND = 80;
const NOT_FIELDS = new Set(["kind", "limit", "offset", "sort", "has", "lacks", "q"]);

export async function listed(query: Query, part: (query: Query) => Promise<ListAnswer>): Promise<ListAnswer> {
  const kind = String(query.kind);
  const first = await part({ kind, limit: PAGE, offset: 0 });
  const offsets = [];
  for (let offset = PAGE; offset < Math.min(first.total, MOST); offset += PAGE) offsets.push(offset);
  const more = await Promise.all(offsets.map((offset) => part({ kind, limit: PAGE, offset })));
  const all = [first, ...more].flatMap((answer) => answer.rows);
  const rows = sorted(all.filter((row) => matches(row, query)), String(query.sort ?? ""));
  const offset = Number(query.offset ?? 0);
  const facets = Object.fromEntries(Object.keys(first.facets).map((field) => [field, counted(rows, field)]));
  return { kind, total: rows.length, offset, rows: rows.slice(offset, offset + Number(query.limit ?? PAGE)), facets };
}

function matches(row: Fields, query: Query): boolean {
  return Object.entries(query).every(([name, wanted]) => {
    if (name === "q") return Object.values(row).some((value) => holds(value, comparable(String(wanted))));
    if (name === "has") return Number(row[wanted] ?? 0) > 0;
    if (name === "lacks") return Number(row[wanted] ?? 0) === 0;
    return NOT_FIELDS.has(name) || asText(row[name] ?? null) === String(wanted);
  });
}

function holds(value: Json, text: string): boolean {
  if (value === null || typeof value === "boolean") return false;
  if (typeof value === "object") return Object.values(value).some((inner) => holds(inner, text));
  return comparable(String(value)).includes(text);
}

const comparable = (text: string) => lower(text).replaceAll("_", " ");

/** As a filter in an address names a value; a missing one is named by nothing. */
export function asText(value: Json): string {
  return value === null ? "null" : typeof value === "object" ? JSON.stringify(value) : String(value);
}

function sorted(rows: Fields[], by: string): Fields[] {
  if (!by) return rows;
  const [field, sign] = by.startsWith("-") ? [by.slice(1), -1] : [by, 1];
  const order = (a: Json, b: Json) =>
    typeof a === "number" && typeof b === "number" ? a - b : asText(a).localeCompare(asText(b));
  return [...rows].sort((a, b) => sign * order(a[field] ?? null, b[field] ?? null));
}

function counted(rows: Fields[], field: string) {
  const counts = new Map<Json, number>();
  for (const row of rows) counts.set(row[field] ?? null, (counts.get(row[field] ?? null) ?? 0) + 1);
  return [...counts]
    .map(([value, count]) => ({ value, count }))
    .sort((a, b) => b.count - a.count)
    .slice(0, FACET_VALUES);
}

interface Text extends Omit<SearchResult, "before" | "match" | "after"> {
  text: string;
}

/** `more`: the run has texts that the export left out. */
interface Texts {
  texts: Text[];
  more: boolean;
}

/** As long as the text, for places in it: of all letters only this one has two characters in lower case. */
const lower = (text: string) => text.replaceAll("İ", "I").toLowerCase();

export async function searched(query: Query, texts: () => Promise<Texts>): Promise<SearchAnswer> {
  const q = String(query.q ?? "");
  const words = [...q.matchAll(/"([^"]+)"|(\S+)/g)].map((found) => lower(found[1] ?? found[2] ?? ""));
  const most = Number(query.limit ?? 200);
  const results: SearchResult[] = [];
  const { texts: all, more: isCut } = words.length ? await texts() : { texts: [], more: false };
  for (const { text, ...place } of all) {
    const low = lower(text);
    if (query.kind && place.kind !== query.kind) continue;
    if (query.trace && place.trace_id !== query.trace) continue;
    if (!words.every((word) => low.includes(word))) continue;
    const start = low.indexOf(words[0] ?? "");
    const end = start + (words[0] ?? "").length;
    results.push({
      ...place,
      before: text.slice(Math.max(0, start - AROUND), start),
      match: text.slice(start, end),
      after: text.slice(end, end + AROUND),
    });
    if (results.length > most) break;
  }
  return { q, indexing: null, results: results.slice(0, most), more: isCut || results.length > most };
}
