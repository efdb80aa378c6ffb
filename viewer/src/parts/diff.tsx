import { type ArgumentChange, type Change, difference, wordsOf } from "../diff";
import type { Json } from "../types";
import { marked } from "./text";

const NAMES = { "+": "added", "-": "removed", " ": "" };

export function Diff({ changes, label }: { changes: Change[]; label: string }) {
  return (
    <pre class="diff" role="group" aria-label={label}>
      {changes.map(({ sign, part }) => (
        <span class={NAMES[sign]}>
          <span class="sign">{sign === "-" ? "−" : sign}</span>
          {marked(part)}
          {"\n"}
        </span>
      ))}
    </pre>
  );
}

/** One side of a comparison by words; the other side's words are left out. */
function Words({ changes, side }: { changes: Change[]; side: "+" | "-" }) {
  return (
    <pre class="text">
      {changes
        .filter(({ sign }) => sign === " " || sign === side)
        .map(({ sign, part }) => (sign === " " ? marked(part) : side === "+" ? <ins>{marked(part)}</ins> : <del>{marked(part)}</del>))}
    </pre>
  );
}

/** Two calls or texts side by side, word by word. */
export function SideBySide({ rows, titles }: { rows: ArgumentChange[]; titles: [string, string] }) {
  return (
    <div class="wide-table">
      <table class="arguments-diff">
        <thead>
          <tr>
            <th scope="col">argument</th>
            <th scope="col">{titles[0]}</th>
            <th scope="col">{titles[1]}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Argument row={row} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Argument({ row }: { row: ArgumentChange }) {
  const asText = (value: Json) => (value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 1));
  const changes = difference(wordsOf(asText(row.other)), wordsOf(asText(row.one)));
  return (
    <tr class={row.same ? "same" : ""}>
      <th scope="row" class="mono">
        {row.path}
        {!row.same && <span class="visually-hidden"> differs</span>}
      </th>
      <td>{row.one === null ? <span class="faint">absent</span> : <Words changes={changes} side="+" />}</td>
      <td>{row.other === null ? <span class="faint">absent</span> : <Words changes={changes} side="-" />}</td>
    </tr>
  );
}
