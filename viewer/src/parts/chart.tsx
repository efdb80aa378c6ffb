// Lines over steps. Series differ by colour and by dash; values are told at the pointer, and by the arrow keys.
import { useState } from "preact/hooks";
import { decimal, words } from "../format";

export interface Series {
  name: string;
  points: [number, number][];
}

const [WIDTH, HEIGHT] = [320, 96];

export function Chart(props: { title: string; series: Series[]; x?: (value: number) => string; format?: (value: number) => string; zero?: boolean }) {
  const format = props.format ?? decimal;
  const series = props.series.filter(({ points }) => points.length);
  const [at, setAt] = useState<number | null>(null);
  const steps = [...new Set(series.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
  const values = series.flatMap(({ points }) => points.map(([, y]) => y)).filter(Number.isFinite);
  if (!values.length) return null;
  const [left, right] = [steps[0] ?? 0, steps.at(-1) ?? 1];
  const [low, high] = range(values, props.zero ?? false);
  const x = (step: number) => (right === left ? WIDTH / 2 : ((step - left) / (right - left)) * WIDTH);
  const y = (value: number) => HEIGHT - ((value - low) / (high - low)) * HEIGHT;
  const step = at === null ? null : (steps[Math.max(0, Math.min(at, steps.length - 1))] ?? null);
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const wanted = left + ((event.clientX - box.left) / box.width) * (right - left);
    setAt(steps.reduce((best, each, place) => (Math.abs(each - wanted) < Math.abs((steps[best] ?? 0) - wanted) ? place : best), 0));
  };
  const keys = (event: KeyboardEvent) => {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!by) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(steps.length - 1, (at ?? steps.length - 1) + by)));
  };
  const shown = (points: [number, number][]) => (step === null ? points.at(-1) : points.find(([each]) => each === step))?.[1];
  const name = `${props.title}, ${series.map((one) => `${one.name} ${format(shown(one.points) ?? Number.NaN)}`).join(", ")}`;
  return (
    <figure class="chart" tabIndex={0} role="img" aria-label={name} onKeyDown={keys} onPointerMove={point} onPointerLeave={() => setAt(null)}>
      <figcaption>
        <span class="title">{props.title}</span>
        <span class="number faint">{step === null ? "" : (props.x ?? ((value) => `step ${value}`))(step)}</span>
      </figcaption>
      <svg viewBox={`0 -4 ${WIDTH} ${HEIGHT + 8}`} preserveAspectRatio="none" aria-hidden="true">
        <line class="axis" x1="0" x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
        {low < 0 && high > 0 && <line class="axis zero" x1="0" x2={WIDTH} y1={y(0)} y2={y(0)} />}
        {series.map(({ points }, place) => (
          <path class={`line series-${place % 6}`} d={points.map(([a, b], n) => `${n ? "L" : "M"}${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("")} />
        ))}
        {step !== null && <line class="cursor" x1={x(step)} x2={x(step)} y1="0" y2={HEIGHT} />}
      </svg>
      <div class="ends number faint">
        <span>{format(Number(low.toPrecision(2)))}</span>
        <span>{format(Number(high.toPrecision(2)))}</span>
      </div>
      <ul class="legend">
        {series.map((one, place) => (
          <li>
            <svg class="swatch" viewBox="0 0 20 4" aria-hidden="true">
              <line class={`line series-${place % 6}`} x1="0" x2="20" y1="2" y2="2" />
            </svg>
            <span>{words(one.name)}</span>
            <span class="number">{format(shown(one.points) ?? Number.NaN)}</span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function range(values: number[], zero: boolean): [number, number] {
  let [low, high] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (zero) low = Math.min(0, low);
  return low === high ? [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2] : [low, high];
}
