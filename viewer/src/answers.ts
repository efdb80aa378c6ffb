// Asks for answers: from the server, or in an export from the scripts in data/. Both know the same addresses.
import { useEffect, useState } from "preact/hooks";
import { listed, searched } from "./offline";
import type { ListAnswer, Runs, SearchAnswer } from "./types";

export type Query = Record<string, string | number>;

export class Refused extends Error {
  constructor(
    message: string,
    readonly next: string,
  ) {
    super(message);
  }
}

const KEPT = 60;
const kept = new Map<string, Promise<unknown>>();
let index: Record<string, string> | null = null;

/** What the page would ask a server: names of the query in order of the alphabet. Also the key in an export. */
export function addressOf(run: string, name: string, query: Query = {}): string {
  const pairs = Object.keys(query)
    .sort()
    .map((key) => `${encodeURIComponent(key)}=${encodeURIComponent(String(query[key]))}`);
  return `/api/${encodeURIComponent(run)}/${name}${pairs.length ? "?" : ""}${pairs.join("&")}`;
}

export async function openRuns(): Promise<Runs> {
  if (location.protocol === "file:") await openExport();
  return (await at("/api/runs")) as Runs;
}

export const isExport = () => index !== null;

export function ask<T>(run: string, name: string, query: Query = {}): Promise<T> {
  return at(addressOf(run, name, query)) as Promise<T>;
}

/** Rows with filters. An export holds whole lists, and the page filters them. */
export function askList(run: string, query: Query): Promise<ListAnswer> {
  return isExport() ? listed(query, (part) => ask(run, "list", part)) : ask(run, "list", query);
}

export function askSearch(run: string, query: Query): Promise<SearchAnswer> {
  return isExport() ? searched(query, () => ask(run, "texts")) : fresh(addressOf(run, "search", query));
}

export async function post<T>(run: string, name: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json" };
  const answer = (await answered(await fetch(addressOf(run, name), { method: "POST", headers, body: JSON.stringify(body) }))) as T;
  kept.clear();
  return answer;
}

/** Past what is kept, for what changes while one looks. */
export function fresh<T>(address: string): Promise<T> {
  return (index ? fromScript(address) : fromServer(address)) as Promise<T>;
}

function at(address: string): Promise<unknown> {
  const known = kept.get(address);
  if (known) return known;
  const asked = fresh(address);
  kept.set(address, asked);
  asked.catch(() => kept.delete(address));
  for (const oldest of kept.keys()) {
    if (kept.size <= KEPT) break;
    kept.delete(oldest);
  }
  return asked;
}

async function fromServer(address: string): Promise<unknown> {
  let response: Response;
  try {
    response = await fetch(address);
  } catch {
    throw new Refused("The server does not answer.", "recompose view RUN");
  }
  return answered(response);
}

async function answered(response: Response): Promise<unknown> {
  const body = await response.json().catch(() => ({ error: `answer ${response.status}`, next: "" }));
  if (!response.ok) throw new Refused(String(body.error), String(body.next ?? ""));
  return body;
}

const waiting = new Map<string, (answer: unknown) => void>();

function openExport(): Promise<void> {
  const given = globalThis as unknown as Record<string, unknown>;
  given.recompose_data = (address: string, answer: unknown) => waiting.get(address)?.(answer);
  return new Promise((done, fail) => {
    given.recompose_index = (names: Record<string, string>) => {
      index = names;
      done();
    };
    script("index.js", () => fail(new Refused("data/index.js is missing beside this page.", "recompose view RUN --export DIR")));
  });
}

function fromScript(address: string): Promise<unknown> {
  const file = index?.[address];
  if (!file) return Promise.reject(new Refused("The export does not hold this.", "recompose view RUN"));
  return new Promise((done, fail) => {
    waiting.set(address, (answer) => {
      waiting.delete(address);
      const refusal = answer as { error?: string; next?: string };
      if (refusal.error) fail(new Refused(refusal.error, refusal.next ?? ""));
      else done(answer);
    });
    script(file, () => fail(new Refused(`data/${file} is missing beside this page.`, "")));
  });
}

function script(file: string, failed: () => void): void {
  const element = document.createElement("script");
  element.src = `data/${file}`;
  element.onload = () => element.remove();
  element.onerror = failed;
  document.head.append(element);
}

export interface Asked<T> {
  answer: T | null;
  failure: Refused | null;
}

/** The answer that belongs to `key`, and null while it is on its way; an earlier one is never shown under a new key. */
export function useAsked<T>(key: string, asking: () => Promise<T>): Asked<T> {
  const [state, set] = useState<Asked<T> & { key: string }>({ key: "", answer: null, failure: null });
  useEffect(() => {
    let isCurrent = true;
    asking().then(
      (answer) => isCurrent && set({ key, answer, failure: null }),
      (failure) => isCurrent && set({ key, answer: null, failure }),
    );
    return () => {
      isCurrent = false;
    };
  }, [key]);
  return state.key === key ? state : { answer: null, failure: null };
}

export function useAnswer<T>(run: string, name: string, query: Query = {}): Asked<T> {
  return useAsked(addressOf(run, name, query), () => ask<T>(run, name, query));
}
