// Shapes of the answers, as design/010-viewer.md names them. Fields that the page does not use are left out.

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Fields = Record<string, Json>;

export interface Ref {
  kind: string;
  id: string;
  label: string;
}

export interface Estimate {
  mean: number;
  /** Both null where there is no interval, and `why` says so. */
  lo: number | null;
  hi: number | null;
  n: number;
  why: string | null;
}

export interface RunCard {
  run: string;
  path: string;
  created: string | null;
  trained_on: string;
  model: string;
  seed: number;
}

export interface Runs {
  version: string;
  is_export: boolean;
  runs: RunCard[];
}

export interface Drop {
  reason: string;
  count: number;
  filters: Record<string, string> | null;
}

export interface FunnelRow {
  noun: string;
  label: string;
  count: number | null;
  page: string;
  drops: Drop[];
  links: Drop[];
}

export interface TeacherBill {
  teacher: string;
  attempts: Record<string, number>;
  spent_micros: number;
  latency_s: { p50: number; p95: number; p99: number } | null;
  prompt_tokens: number;
  completion_tokens: number;
}

export interface Spend {
  spent_micros: number;
  held_micros: number;
  cap_micros: number | null;
  simulated: boolean;
  micros_per_pair: number | null;
  teachers: TeacherBill[];
  over_calls: { call: number; after_s: number | null; micros: number }[];
}

export interface RunAnswer extends RunCard {
  version: string;
  config: Fields;
  stages: { noun: string; records: number | null; done: boolean; seconds: number | null }[];
  funnel: FunnelRow[];
  spend: Spend | null;
  result: Fields | null;
  /** What a command is at that works on the run; null where none does. */
  now: string | null;
  next: string | null;
}

export interface Agreement {
  teachers: string[];
  same: (number | null)[][];
  n: number[][];
  people: { blind: Estimate | null; open: Estimate | null };
}

export interface ListAnswer {
  kind: string;
  total: number;
  offset: number;
  rows: Fields[];
  facets: Record<string, { value: Json; count: number }[]>;
}

export interface Call {
  id?: string;
  name: string;
  arguments: string;
  parsed: Json;
}

export interface Message {
  n: number;
  role: string;
  content: string;
  tool_calls?: Call[];
  tool_call_id?: string;
  is_error?: boolean;
  /** A system prompt that is in none of the user's files. */
  supplied?: boolean;
  cut: number;
}

export interface Turn {
  turn: number;
  state_id: string;
  segment: number;
  source_model: string | null;
  family: string | null;
  fidelity: string;
  byte_range: [number, number] | null;
  abandoned: boolean;
  thinking: string;
  messages: Message[];
  sites: Ref[];
  pairs: Ref[];
}

export interface Source {
  agent: string;
  version: string | null;
  file: string | null;
  licence: string | null;
}

export interface Mark extends Ref {
  turn: number | null;
}

export interface TraceAnswer {
  trace_id: string;
  source: Source;
  task_id: string | null;
  outcome: Json;
  tools_inferred: boolean;
  system_is_ours: boolean;
  tool_names: string[];
  n_turns: number;
  n_messages: number;
  before: Message[];
  from: number;
  to: number;
  turns: Turn[];
  marks: Mark[];
  segments: { start: number; cleared: number }[];
}

export interface TraceCard {
  trace_id: string;
  n_turns: number;
  source: Source;
  task_id: string | null;
}

export interface Saw {
  total: number;
  from: number;
  to: number;
  messages: Message[];
}

export interface SourceBytes {
  file: string | null;
  byte_range: [number, number] | null;
  text: string;
  found: boolean;
  why: string;
}

export interface Reply {
  name: string;
  key: string | null;
  teacher: string | null;
  served_model: string | null;
  family: string | null;
  action: { name: string; arguments: Json } | null;
  text: string;
  finish_reason: string | null;
  prompt_tokens: number | null;
  completion_tokens: number | null;
  cost_micros: number | null;
  latency_s: number | null;
  outcome: string;
  voted_for_chosen: boolean | null;
  /** Why it does not count, where it does not. */
  no_vote: string | null;
  simulated: boolean;
}

export interface Votes {
  mine: { choice: string; blind: boolean; note: string } | null;
  tally: Record<string, number> | null;
}

export interface Hint {
  hint_id: string;
  text: string;
  sham_text: string | null;
  layer: string;
  leak_level: string;
  tokens: number;
}

export interface SiteAnswer {
  site: Fields & { site_id: string; trace_id: string; turn: number; error_kind: string; error_message: string };
  hint: Hint | null;
  trace: TraceCard;
  turn: Turn;
  replies: Reply[];
  pair: Ref | null;
  agreement: { families: number; largest: number; needed: number; without_vote: Record<string, number> } | null;
  votes: Votes;
  training: number[];
}

export interface Side {
  text: string;
  calls: Call[];
}

export interface PairAnswer {
  pair: Fields & { pair_id: string; kind: string; turn: number };
  trace: TraceCard;
  turn: Turn;
  site: Ref | null;
  hint: Ref | null;
  chosen: Side;
  rejected: Side;
  diff: { arguments: { path: string; chosen: string | null; rejected: string | null; same: boolean }[]; same_tool: boolean; tools: (string | null)[] };
  why: {
    tier: string;
    votes: number;
    n: number;
    families: string[];
    precision: number | null;
    rule: string;
    chosen_from: string;
    rejected_from: string;
    off_policy: boolean;
    simulated: boolean;
    kept_because: string;
    who_voted: string;
    doubts: { name: string; says: string }[];
  };
  replies: Reply[];
  training: number[];
  not_trained: string | null;
  request: Message | null;
}

export interface Finding {
  finding_id: string;
  trace_id: string;
  step: number;
  hack_class: string;
  rule: string;
  evidence: string;
  layer: string;
  lines: string[];
}

export interface RolloutAnswer {
  id: string;
  step: number;
  trace_id: string;
  task_id: string;
  reward: number;
  prompt: { role: string; content: string }[];
  turns: { action: string; observations: string[]; error_kinds: string[]; hint: string | null }[];
  sampled_tokens: number;
  tokens: boolean;
  findings: Finding[];
  canaries: Json[];
  tests: Json;
  others: Ref[];
}

export interface TaskAnswer {
  task_id: string;
  statement: string | null;
  traces: Fields[];
  rollouts: Fields[];
  outcomes: Fields[];
  findings: Fields[];
}

export interface TokenCard {
  id: string;
  step: number;
  trace_id: string | null;
  parts: string[];
  channels: string[];
  n_tokens: number;
}

export interface TokenRow {
  part: string;
  ids: number[];
  pieces: string[] | null;
  mask: number[] | null;
  entropy: (number | null)[] | null;
  channels: Record<string, number[]>;
}

export interface TokensAnswer {
  id: string;
  step: number;
  trace_id: string | null;
  rows: TokenRow[];
}

export type Metrics = Record<string, number>;

export interface TrainingAnswer {
  live: boolean;
  done: boolean;
  steps: number;
  rows: Metrics[];
  alarms: Fields[];
  samples: number[];
  channels: string[];
  updated: number | null;
}

export interface CompareAnswer {
  splits: string[];
  split: string;
  arms: { run: string; phase: string; label: string; success: Estimate | null }[];
  difference: Estimate | null;
  tasks: { task_id: string; a: number; b: number }[];
  metrics: { a: Metrics[]; b: Metrics[] };
}

export interface MonitorAnswer {
  counts: Fields;
  verdicts: Fields[];
  findings: Finding[];
  done: boolean;
  next: string | null;
}

export interface SearchResult {
  kind: string;
  id: string;
  turn: number | null;
  field: string;
  message: number | null;
  trace_id: string | null;
  before: string;
  match: string;
  after: string;
}

export interface SearchAnswer {
  q: string;
  indexing: { done: number; total: number } | null;
  results: SearchResult[];
  more: boolean;
}

export interface ShowAnswer {
  kind: string;
  id: string;
  from: (Ref & { file?: string | null; byte_range?: [number, number] | null })[];
  to: Ref[];
}
