// The whole trace beside the transcript: where sites, pairs and findings are, and what is in view.
import type { Mark } from "../types";

const KINDS = ["site", "pair", "finding"] as const;
const WIDTH = 12;

export function Minimap({ count, marks, view, go }: { count: number; marks: Mark[]; view: [number, number]; go: (turn: number) => void }) {
  const of = (kind: string) => marks.filter((mark) => mark.kind === kind && mark.turn !== null);
  const height = Math.max(count, 1);
  const click = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    go(Math.floor(((event.clientY - box.top) / box.height) * count));
  };
  const label = KINDS.map((kind) => `${of(kind).length} ${kind}s`).join(", ");
  return (
    <svg class="minimap" viewBox={`0 0 ${WIDTH} ${height}`} preserveAspectRatio="none" role="img" aria-label={`map of ${count} turns: ${label}`} onClick={click}>
      {KINDS.map((kind, column) => (
        <path
          class={`mark-${kind}`}
          d={of(kind)
            .map(({ turn }) => `M${(column * WIDTH) / 3 + 0.5} ${(turn ?? 0) + 0.5}h${WIDTH / 3 - 1}`)
            .join("")}
        />
      ))}
      <rect class="in-view" x="0" width={WIDTH} y={view[0]} height={Math.max(view[1] - view[0] + 1, height / 100)} />
    </svg>
  );
}
