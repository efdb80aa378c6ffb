// A list of records that scrolls: rows come in parts as they are seen, filters live in the address.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type Address, go, linkTo, refine } from "../address";
import { addressOf, askList, type Refused } from "../answers";
import { plain, short, whole, words } from "../format";
import { useKeys } from "../keys";
import { asText } from "../offline";
import type { Fields, Json, ListAnswer } from "../types";
import { Failed, useHere } from "./common";
import { type Scroller, Virtual } from "./virtual";

export interface Column {
  field: string;
  title?: string;
  width: string;
  number?: boolean;
  show?: (value: Json, row: Fields) => ComponentChildren;
  /** Not shown on a phone. */
  wide?: boolean;
  sorts?: boolean;
  /** Left out while none of the first rows has it: nobody was asked. */
  optional?: boolean;
}

const PART = 100;

export function Table(props: { kind: string; id: (row: Fields) => [string, string]; columns: Column[]; keep?: string[] }) {
  const here = useHere();
  const filters = Object.fromEntries(Object.entries(here.filters).filter(([name, value]) => value && !props.keep?.includes(name)));
  const key = addressOf(here.run, "list", { kind: props.kind, ...filters });
  const isFiltered = Object.keys(filters).some((name) => name !== "sort");
  const rows = useRows(here.run, props.kind, filters, key);
  const [current, setCurrent] = useState(-1);
  const scroller = useRef<Scroller>(null);
  useEffect(() => setCurrent(-1), [key]);
  const move = (by: number) => {
    const next = Math.max(0, Math.min(rows.total - 1, current + by));
    setCurrent(next);
    if (next < scroller.current!.top() || by < 0) scroller.current?.to(Math.max(0, next - 2));
    else document.querySelector(`[data-item="${next}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const open = (row: Fields | undefined) => row && go(linkTo(here.run, ...props.id(row)));
  useKeys([
    { key: "j", does: "next row", act: () => move(1) },
    { key: "k", does: "previous row", act: () => move(-1) },
    { key: "Enter", does: "open the row", act: () => open(rows.get(current)) },
  ]);
  const columns = props.columns.filter(({ field, optional }) => !optional || rows.first?.rows.some((row) => row[field]));
  const grid = { "--columns": columns.map(({ width }) => width).join(" "), "--narrow": narrow(columns) };
  if (rows.failure) return <Failed failure={rows.failure} />;
  return (
    <div class="table" style={grid}>
      <FilterBar here={here} first={rows.first} keep={props.keep ?? []} />
      <div class="rows" role="table" aria-label={`${props.kind}s`} aria-rowcount={rows.total}>
        <div class="row head" role="row">
          {columns.map((column) => (
            <HeadCell column={column} here={here} />
          ))}
        </div>
        {rows.first && !rows.total && <p class="waiting">{isFiltered ? "Nothing matches." : "This run has none."}</p>}
        <Virtual
          count={rows.total}
          guess={37}
          label={`${props.kind}s`}
          role="rowgroup"
          extra={12}
          scroller={scroller}
          onView={rows.see}
          render={(place) => {
            const row = rows.get(place);
            if (!row) return <div class="row">…</div>;
            return (
              <div class={`row${place === current ? " current" : ""}`} role="row" aria-rowindex={place + 1}>
                {columns.map((column, number) => (
                  <span role="cell" class={`${column.number ? "number " : ""}${column.wide ? "wide" : ""}`}>
                    {number === 0 ? <a href={linkTo(here.run, ...props.id(row))}>{cell(column, row)}</a> : cell(column, row)}
                  </span>
                ))}
              </div>
            );
          }}
        />
      </div>
    </div>
  );
}

const narrow = (columns: Column[]) =>
  columns
    .filter(({ wide }) => !wide)
    .map(({ width }) => width.replace(/^minmax\([^,]+/, "minmax(0"))
    .join(" ");

function cell(column: Column, row: Fields): ComponentChildren {
  const value = row[column.field] ?? null;
  return column.show ? column.show(value, row) : typeof value === "string" ? short(value) : plain(value);
}

function HeadCell({ column, here }: { column: Column; here: Address }) {
  const title = column.title ?? words(column.field);
  const sort = here.filters.sort ?? "";
  const order = sort === column.field ? "ascending" : sort === `-${column.field}` ? "descending" : "none";
  const next = order === "none" ? `-${column.field}` : order === "descending" ? column.field : "";
  return (
    <span role="columnheader" aria-sort={order} class={`${column.number ? "number " : ""}${column.wide ? "wide" : ""}`}>
      {column.sorts === false ? (
        title
      ) : (
        <button onClick={() => refine(here, { sort: next })}>
          {title}
          {order === "none" ? "" : order === "ascending" ? " ↑" : " ↓"}
        </button>
      )}
    </span>
  );
}

function FilterBar({ here, first, keep }: { here: Address; first: ListAnswer | null; keep: string[] }) {
  const facets = Object.entries(first?.facets ?? {});
  const others = Object.entries(here.filters).filter(
    ([name, value]) => value && !["q", "sort", ...keep].includes(name) && !facets.some(([field]) => field === name),
  );
  return (
    <form class="filters" role="search" aria-label="filters" onSubmit={(event) => event.preventDefault()}>
      <input
        type="search"
        placeholder="filter rows"
        aria-label="filter rows by text"
        value={here.filters.q ?? ""}
        onInput={(event) => refine(here, { q: event.currentTarget.value })}
      />
      {facets.map(([field, values]) => (
        <label>
          <span>{words(field)}</span>
          <select value={here.filters[field] ?? ""} onChange={(event) => refine(here, { [field]: event.currentTarget.value })}>
            <option value="">any</option>
            {values.map(({ value, count }) => (
              <option value={asText(value)}>
                {value === null ? "none" : typeof value === "boolean" ? (value ? "yes" : "no") : short(String(value))} ({whole(count)})
              </option>
            ))}
          </select>
        </label>
      ))}
      {others.map(([name, value]) => (
        <button type="button" class="chip" onClick={() => refine(here, { [name]: "" })} aria-label={`take out the filter ${name}`}>
          {words(name)}: {short(value)} ✕
        </button>
      ))}
      <span class="total number" role="status">
        {first ? whole(first.total) : "…"}
      </span>
    </form>
  );
}

interface Rows {
  total: number;
  first: ListAnswer | null;
  failure: Refused | null;
  get: (place: number) => Fields | undefined;
  see: (first: number, last: number) => void;
}

/** Parts of a list as they come into view. */
function useRows(run: string, kind: string, filters: Record<string, string>, key: string): Rows {
  const parts = useRef(new Map<number, Fields[] | "asked">());
  const [first, setFirst] = useState<ListAnswer | null>(null);
  const [failure, setFailure] = useState<Refused | null>(null);
  const [, redraw] = useState(0);
  const now = useRef(key);
  now.current = key;
  const load = (part: number) => {
    if (parts.current.has(part)) return;
    parts.current.set(part, "asked");
    askList(run, { kind, ...filters, limit: PART, offset: part * PART }).then(
      (answer) => {
        if (now.current !== key) return;
        parts.current.set(part, answer.rows);
        if (part === 0) setFirst(answer);
        redraw((n) => n + 1);
      },
      (problem) => now.current === key && setFailure(problem),
    );
  };
  useEffect(() => {
    parts.current = new Map();
    setFailure(null);
    load(0);
  }, [key]);
  return {
    total: first?.total ?? 0,
    first,
    failure,
    get: (place) => {
      const part = parts.current.get(Math.floor(place / PART));
      return part === "asked" ? undefined : part?.[place % PART];
    },
    see: (from, to) => {
      if (!first) return;
      for (let part = Math.floor(from / PART); part <= Math.floor(to / PART); part++) load(part);
    },
  };
}
