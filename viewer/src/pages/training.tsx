// Curves of training, live while it runs.
import { useEffect, useRef, useState } from "preact/hooks";
import { link, refine } from "../address";
import { addressOf, fresh, isExport, type Refused } from "../answers";
import { plain, whole, words } from "../format";
import { Chart, type Series } from "../parts/chart";
import { Failed, Facts, Heading, Section, useHere } from "../parts/common";
import type { Metrics, TrainingAnswer } from "../types";

const EVERY_MS = 2000;

/** Charts that are shown first: those whose names begin alike share one. Names after the slash tell series apart. */
const CHARTS: [string, RegExp][] = [
  ["reward", /^reward$|^rewards\/.*\/mean$/],
  ["loss", /^loss$/],
  ["loss of channels", /^channel\//],
  ["gradient of channels", /^gradient\/(?!cosine|.*_factor)/],
  ["gates", /^gradient\/.*_factor$|^gate\//],
  ["angle between channels", /^gradient\/cosine/],
  ["divergence by kind", /^(?:sdpo|divergence)\//],
  ["errors per turn", /^rollout\/error_turns_per_turn/],
  ["ratios clipped", /^clip_ratio\/(?:low|high|region)_mean|^importance/],
  ["entropy", /^entropy$/],
  ["gradient norm", /^grad_norm$/],
  ["replay", /^replay\/(?:accuracy|margin)/],
  ["log-probability of pairs", /^replay\/(?:chosen|rejected)_logprob/],
  ["length", /^completions\/(?:mean|max|min)_length$/],
  ["tool calls", /^rollout\/(?:tool_calls_per_turn|clean_calls|recovery_rate|truncation_rate)/],
  ["learning rate", /^learning_rate$/],
  ["seconds per step", /^step_time$/],
];

export function seriesOf(rows: Metrics[], name: string, label = name): Series {
  return { name: label, points: rows.flatMap((row): [number, number][] => (typeof row[name] === "number" ? [[row.step ?? 0, row[name]]] : [])) };
}

export function TrainingPage() {
  const here = useHere();
  const { answer, failure } = useLive(here.run);
  if (failure) return <Failed failure={failure} />;
  if (!answer) return <p class="waiting" role="status">Loading …</p>;
  const names = [...new Set(answer.rows.flatMap(Object.keys))].filter((name) => name !== "step").sort();
  const chosen = (here.filters.metrics ?? "").split(",").filter((name) => names.includes(name));
  const last = answer.rows.at(-1)?.step ?? 0;
  return (
    <div class="column wide-column">
      <Heading title="Training" sub={`channels ${answer.channels.join(", ")}`}>
        <span class={answer.live ? "live" : "faint"} role="status">
          {answer.live ? "● live" : answer.done ? "done" : "not running"}, step {whole(last)} of {whole(answer.steps)}
        </span>
      </Heading>
      {answer.alarms.length > 0 && (
        <Section title="Alarms">
          <ul class="alarms">
            {answer.alarms.map((alarm) => (
              <li>
                <Facts of={Object.entries(alarm).map(([name, value]) => [words(name), plain(value)])} />
              </li>
            ))}
          </ul>
        </Section>
      )}
      {!answer.rows.length && <p class="faint">No step is finished yet.</p>}
      <div class="charts">
        {chosen.length
          ? chosen.map((name) => <Chart title={name} series={[seriesOf(answer.rows, name)]} />)
          : CHARTS.map(([title, pattern]) => {
              const found = names.filter((name) => pattern.test(name));
              return <Chart title={title} series={found.map((name) => seriesOf(answer.rows, name, found.length > 1 ? label(name) : name))} />;
            })}
      </div>
      {answer.samples.length > 0 && (
        <Section title="Samples" note="steps whose rollouts were kept">
          <p class="steps">
            {answer.samples.map((step) => (
              <a class="number" href={link(here.run, "rollouts", "", { step: String(step) })}>
                step {step}
              </a>
            ))}
          </p>
        </Section>
      )}
      <details open={chosen.length > 0}>
        <summary>Choose metrics ({names.length})</summary>
        <div class="metric-choice">
          {names.map((name) => (
            <label>
              <input
                type="checkbox"
                checked={chosen.includes(name)}
                onChange={() => refine(here, { metrics: (chosen.includes(name) ? chosen.filter((each) => each !== name) : [...chosen, name]).join(",") })}
              />
              <span class="mono">{name}</span>
            </label>
          ))}
        </div>
      </details>
    </div>
  );
}

const label = (name: string) => name.split("/").slice(1).join("/").replace(/^error_turns_per_turn$/, "all").replace(/^error_turns_per_turn\//, "").replace(/\/mean$/, "") || name;

/** The first answer has everything; later ones only what is new. */
function useLive(run: string): { answer: TrainingAnswer | null; failure: Refused | null } {
  const [answer, setAnswer] = useState<TrainingAnswer | null>(null);
  const [failure, setFailure] = useState<Refused | null>(null);
  const rows = useRef<Metrics[]>([]);
  useEffect(() => {
    let timer = 0;
    let isOver = false;
    rows.current = [];
    const poll = async () => {
      const after = rows.current.at(-1)?.step;
      try {
        const next = await fresh<TrainingAnswer>(addressOf(run, "training", after === undefined ? {} : { after }));
        if (isOver) return;
        rows.current = [...rows.current, ...next.rows];
        setAnswer({ ...next, rows: rows.current });
        if (!next.done && !isExport()) timer = window.setTimeout(poll, EVERY_MS);
      } catch (problem) {
        if (isOver) return;
        if (rows.current.length) timer = window.setTimeout(poll, EVERY_MS);
        else setFailure(problem as Refused);
      }
    };
    setAnswer(null);
    setFailure(null);
    poll();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [run]);
  return { answer, failure };
}
