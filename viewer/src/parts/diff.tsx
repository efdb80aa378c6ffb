import type { Change } from "../diff";

const NAMES = { "+": "added", "-": "removed", " ": "" };

export function Diff({ changes, label }: { changes: Change[]; label: string }) {
  return (
    <pre class="diff" role="group" aria-label={label}>
      {changes.map(({ sign, part }) => (
        <span class={NAMES[sign]}>
          <span class="sign">{sign === "-" ? "−" : sign}</span>
          {part}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** One side of a comparison by words; the other side's words are left out. */
export function Words({ changes, side }: { changes: Change[]; side: "+" | "-" }) {
  return (
    <pre class="text">
      {changes
        .filter(({ sign }) => sign === " " || sign === side)
        .map(({ sign, part }) => (sign === " " ? part : side === "+" ? <ins>{part}</ins> : <del>{part}</del>))}
    </pre>
  );
}
