// The address of a page: #/<run>/<page>[/<id>][?<filters>], every part encoded. The only state that a link carries.
import { useEffect, useState } from "preact/hooks";

export type Filters = Record<string, string>;

export interface Address {
  run: string;
  page: string;
  id: string;
  filters: Filters;
}

export function parsed(hash: string): Address {
  const [path = "", query = ""] = splitOnce(hash.replace(/^#?\/?/, ""), "?");
  const [run = "", page = "", ...rest] = path.split("/").map(decoded);
  return { run, page, id: rest.join("/"), filters: Object.fromEntries(new URLSearchParams(query)) };
}

export function written({ run, page, id, filters }: Address): string {
  const path = [run, page, ...(id ? [id] : [])].map(encodeURIComponent).join("/");
  const query = Object.entries(filters)
    .filter(([, value]) => value !== "")
    .map(([name, value]) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`)
    .join("&");
  return `#/${path}${query ? `?${query}` : ""}`;
}

export function link(run: string, page: string, id = "", filters: Filters = {}): string {
  return written({ run, page, id, filters });
}

/** Where something of a kind is shown. A turn and a step have no page of their own. */
export function linkTo(run: string, kind: string, id: string): string {
  if (kind === "turn") {
    const colon = id.lastIndexOf(":");
    return link(run, "trace", id.slice(0, colon), { turn: id.slice(colon + 1) });
  }
  return kind === "step" ? link(run, "training", "", { step: id }) : link(run, kind, id);
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes filters in place: typing in a filter must not fill the history. */
export function refine(address: Address, changes: Filters): void {
  history.replaceState(null, "", written({ ...address, filters: { ...address.filters, ...changes } }));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useAddress(): Address {
  const [address, set] = useState(() => parsed(location.hash));
  useEffect(() => {
    const changed = () => set(parsed(location.hash));
    addEventListener("hashchange", changed);
    changed(); // the address may have changed since the first drawing
    return () => removeEventListener("hashchange", changed);
  }, []);
  return address;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function splitOnce(text: string, by: string): [string, string] {
  const at = text.indexOf(by);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + by.length)];
}
