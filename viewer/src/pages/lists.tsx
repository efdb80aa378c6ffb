// Lists of records, one table of columns per kind.
import type { ComponentChildren } from "preact";
import { callLine, cents, percent, plain, seconds, short, words } from "../format";
import { Heading } from "../parts/common";
import { type Column, Table } from "../parts/table";
import type { Fields, Json } from "../types";

interface Listing {
  kind: string;
  title: string;
  sub: string;
  id: (row: Fields) => [string, string];
  columns: Column[];
}

const own = (kind: string, field: string) => (row: Fields): [string, string] => [kind, String(row[field])];
const asWords = (value: Json) => (value === null ? "–" : words(String(value)));
const asCall = (value: Json): ComponentChildren => <span class="mono">{callLine(value)}</span>;
const asMono = (value: Json): ComponentChildren => <span class="mono">{plain(value)}</span>;
const noHint = (reason: Json): ComponentChildren => <span class="faint">{reason === null ? "–" : `none: ${words(String(reason))}`}</span>;
const count = (field: string, wide = true): Column => ({ field, width: "4.5rem", number: true, wide, sorts: false });

export const LISTS: Record<string, Listing> = {
  traces: {
    kind: "trace",
    title: "Traces",
    sub: "What agents did, turn by turn.",
    id: own("trace", "trace_id"),
    columns: [
      { field: "title", title: "first words", width: "minmax(10rem, 3fr)", show: (value, row) => plain(value) || short(String(row.trace_id)) },
      { field: "agent", width: "7rem", wide: true },
      { field: "model", width: "minmax(6rem, 1fr)", wide: true },
      { field: "task_id", title: "task", width: "minmax(6rem, 1fr)", wide: true },
      { field: "turns", width: "4.5rem", number: true },
      count("sites", false),
      count("pairs"),
      count("findings"),
    ],
  },
  sites: {
    kind: "site",
    title: "Sites",
    sub: "Turns where something went wrong.",
    id: own("site", "site_id"),
    columns: [
      { field: "error_kind", title: "kind", width: "9rem", show: asWords },
      { field: "error_message", title: "message", width: "minmax(10rem, 3fr)", show: asMono },
      { field: "tool_name", title: "tool", width: "8rem", wide: true },
      { field: "fault", width: "5rem", wide: true },
      { field: "turn", width: "4rem", number: true, wide: true },
      { field: "hint", width: "minmax(8rem, 2fr)", wide: true, sorts: false, show: (value, row) => (value ? plain(value) : noHint(row.no_hint ?? null)) },
      { field: "held_out", title: "held out", width: "4.5rem", wide: true, sorts: false, show: (value) => (value ? "yes" : "–") },
      { ...count("replies"), optional: true },
      { ...count("pairs", false), optional: true },
    ],
  },
  hints: {
    kind: "hint",
    title: "Hints",
    sub: "What would have helped. A hint's own page has its sham, of the same length.",
    id: own("hint", "hint_id"),
    columns: [
      { field: "error_kind", title: "kind", width: "9rem", sorts: false, show: asWords },
      { field: "text", title: "hint", width: "minmax(10rem, 4fr)", show: plain },
      { field: "trace_id", title: "trace", width: "7rem", wide: true, sorts: false },
      { field: "turn", width: "4rem", number: true, wide: true, sorts: false },
      { field: "layer", width: "6rem", wide: true },
      { field: "leak_level", title: "leak", width: "4rem" },
      { field: "tokens", width: "5rem", number: true, wide: true },
    ],
  },
  replies: {
    kind: "reply",
    title: "Replies",
    sub: "What teachers would have done in the same state.",
    id: own("reply", "key"),
    columns: [
      { field: "teacher", width: "minmax(9rem, 1fr)" },
      { field: "outcome", width: "7rem", show: asWords, wide: true },
      { field: "action", title: "call", width: "minmax(10rem, 2fr)", show: (value, row) => (value ? asCall(value) : asWords(row.outcome ?? null)) },
      { field: "finish_reason", title: "finished", width: "7rem", show: asWords, wide: true },
      { field: "cost_micros", title: "cost", width: "5.5rem", number: true, wide: true, show: (value) => cents(value as number | null) },
      { field: "latency_s", title: "latency", width: "5.5rem", number: true, wide: true, show: (value) => seconds(value as number | null) },
    ],
  },
  pairs: {
    kind: "pair",
    title: "Pairs",
    sub: "A turn that went wrong, and what enough teachers did instead.",
    id: own("pair", "pair_id"),
    columns: [
      { field: "error_kind", title: "kind", width: "9rem", show: asWords },
      { field: "chosen", width: "minmax(9rem, 2fr)", show: asCall },
      { field: "rejected", width: "minmax(9rem, 2fr)", show: asCall, wide: true },
      { field: "tier", width: "5rem", wide: true },
      { field: "votes", width: "4.5rem", number: true, show: (value, row) => `${plain(value)} of ${plain(row.n)}` },
      { field: "precision", width: "5.5rem", number: true, wide: true, show: (value) => percent(value as number | null) },
      { field: "doubts", width: "minmax(6rem, 1fr)", wide: true, sorts: false },
    ],
  },
  rollouts: {
    kind: "rollout",
    title: "Rollouts",
    sub: "Attempts of the policy that training kept.",
    id: own("rollout", "id"),
    columns: [
      { field: "task_id", title: "task", width: "minmax(9rem, 2fr)" },
      { field: "step", width: "4rem", number: true },
      { field: "reward", width: "5rem", number: true },
      { field: "solved", width: "4.5rem", wide: true },
      { field: "turns", width: "4.5rem", number: true, wide: true },
      { field: "errors", width: "minmax(8rem, 2fr)", wide: true, sorts: false, show: (value) => asWords(plain(value)) },
      { field: "sampled_tokens", title: "tokens", width: "5rem", number: true, wide: true },
    ],
  },
};

export function ListPage({ of }: { of: string }) {
  const listing = LISTS[of]!;
  return (
    <div class="fill">
      <Heading title={listing.title} sub={listing.sub} />
      <Table kind={listing.kind} id={listing.id} columns={listing.columns} />
    </div>
  );
}
