// Text of traces. It is hostile: it only ever becomes text nodes, and a link shows in full where it leads.
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import { whole } from "../format";

const INLINE = /(`+)([^`]+?)\1|\*\*([^*\n]+)\*\*|(?<![\w*])\*([^*\s][^*\n]*)\*(?!\w)|\[([^\]\n]+)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>"')\]]+)/g;
const MARKDOWN_MOST = 20_000;

const SECRET = /<SECRET:([a-z0-9-]+):(\d+)>/g;

/** Text with chips where redaction took something out before the run was written. */
export function marked(text: string): ComponentChildren {
  if (!text.includes("<SECRET:")) return text;
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const found of text.matchAll(SECRET)) {
    parts.push(
      text.slice(last, found.index),
      <span class="secret" title={`redacted: ${found[0]}`}>
        {found[1]} {found[2]}
      </span>,
    );
    last = found.index + found[0].length;
  }
  return [...parts, text.slice(last)];
}

/** Markdown of the plain kind: headings, lists, quotes, fences, emphasis, links. Anything else stays as written. */
export function Prose({ text }: { text: string }) {
  if (text.length > MARKDOWN_MOST) return <pre class="text">{marked(text)}</pre>;
  return <div class="prose">{blocks(text.split("\n"))}</div>;
}

function blocks(source: string[]): VNode[] {
  const found: VNode[] = [];
  let at = 0;
  while (at < source.length) {
    const line = source[at] ?? "";
    const fence = /^\s*(```+|~~~+)/.exec(line)?.[1];
    if (fence) {
      let end = at + 1;
      while (end < source.length && !(source[end] ?? "").trim().startsWith(fence)) end++;
      found.push(<pre class="text code">{marked(source.slice(at + 1, end).join("\n"))}</pre>);
      at = end + 1;
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      found.push(<p class="heading">{inline(heading[2] ?? "")}</p>);
      at++;
      continue;
    }
    const item = /^(\s*)(?:[-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (item) {
      const depth = Math.min(4, Math.floor((item[1] ?? "").length / 2));
      found.push(
        <p class={`item depth-${depth}`}>
          <span class="bullet">{/^\s*\d/.test(line) ? line.trim().split(/\s/)[0] : "•"}</span>
          <span>{inline(item[2] ?? "")}</span>
        </p>,
      );
      at++;
      continue;
    }
    if (line.startsWith(">")) {
      found.push(<p class="quote">{inline(line.replace(/^>\s?/, ""))}</p>);
      at++;
      continue;
    }
    let end = at;
    while (end < source.length && (source[end] ?? "").trim() && !/^\s*(?:```|~~~|#{1,6}\s|[-*+]\s|\d+[.)]\s|>)/.test(source[end] ?? "")) end++;
    if (end > at) found.push(<p>{inline(source.slice(at, end).join("\n"))}</p>);
    at = Math.max(end, at + 1);
  }
  return found;
}

function inline(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(marked(text.slice(last, found.index)));
    const [all, , code, strong, emphasis, label, target, bare] = found;
    if (code !== undefined) parts.push(<code>{marked(code)}</code>);
    else if (strong !== undefined) parts.push(<strong>{marked(strong)}</strong>);
    else if (emphasis !== undefined) parts.push(<em>{marked(emphasis)}</em>);
    else if (bare !== undefined) parts.push(<Outside to={bare} />);
    else if (target !== undefined && /^https?:\/\//i.test(target)) parts.push(label, " (", <Outside to={target} />, ")");
    else parts.push(all);
    last = found.index + all.length;
  }
  return [...parts, marked(text.slice(last))];
}

function Outside({ to }: { to: string }) {
  return (
    <a href={to} target="_blank" rel="noopener noreferrer nofollow">
      {to}
    </a>
  );
}

/** Only the beginning, until one wants the rest. `rest` fetches what the answer left out. */
export function Folded(props: { text: string; most?: number; cut?: number; rest?: () => Promise<string>; label: string; raw?: boolean }) {
  const { most = 12, cut = 0, label } = props;
  const [isOpen, setOpen] = useState(false);
  const [all, setAll] = useState<string | null>(null);
  const text = all ?? props.text;
  const lines = text.split("\n");
  const shown = isOpen ? text : lines.slice(0, most).join("\n").slice(0, 160 * most);
  const hidden = text.length - shown.length + (all === null ? cut : 0);
  const open = () => {
    setOpen(!isOpen);
    if (!isOpen && cut && all === null) props.rest?.().then(setAll, () => undefined);
  };
  return (
    <>
      {props.raw === false ? <Prose text={shown} /> : <pre class="text">{marked(shown)}</pre>}
      {(hidden > 0 || isOpen) && (
        <button class="more" onClick={open} aria-expanded={isOpen} aria-label={`${isOpen ? "fold" : "unfold"} ${label}`}>
          {isOpen ? "fold" : `${whole(hidden)} more characters`}
        </button>
      )}
    </>
  );
}
