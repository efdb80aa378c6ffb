// Two arms on the same tasks: before and after of a run, or two runs. Intervals, then a line per task.
import { refine } from "../address";
import { isExport, useAnswer } from "../answers";
import { percent } from "../format";
import { Chart } from "../parts/chart";
import { Heading, Link, Section, useHere, Waiting } from "../parts/common";
import { asDifference, asShare, Interval } from "../parts/estimate";
import { Virtual } from "../parts/virtual";
import type { CompareAnswer, RunCard } from "../types";
import { seriesOf } from "./training";

const CURVES = ["reward", "loss", "entropy", "grad_norm", "rollout/error_turns_per_turn", "completions/mean_length"];

export function ComparePage({ runs }: { runs: RunCard[] }) {
  const here = useHere();
  const { filters, run } = here;
  const names = isExport() ? ["with"] : ["with", "split", "phase", "with_phase"];
  const query = Object.fromEntries(names.flatMap((name) => (filters[name] ? [[name, filters[name]]] : []))) as Record<string, string>;
  const asked = useAnswer<CompareAnswer>(run, "compare", query);
  return (
    <div class="fill compare">
      <Heading title="Compare" sub="The same tasks in two arms.">
        <label>
          with{" "}
          <select value={filters.with ?? ""} onChange={(event) => refine(here, { with: event.currentTarget.value })}>
            <option value="">itself, before training</option>
            {runs
              .filter((each) => each.run !== run)
              .map((each) => (
                <option value={each.run}>{each.run}</option>
              ))}
          </select>
        </label>
        {asked.answer && asked.answer.splits.length > 1 && !isExport() && (
          <label>
            split{" "}
            <select value={asked.answer.split} onChange={(event) => refine(here, { split: event.currentTarget.value })}>
              {asked.answer.splits.map((split) => (
                <option value={split}>{split}</option>
              ))}
            </select>
          </label>
        )}
      </Heading>
      <Waiting asked={asked}>{(answer) => <Arms answer={answer} />}</Waiting>
    </div>
  );
}

function Arms({ answer }: { answer: CompareAnswer }) {
  const [a, b] = answer.arms;
  const tasks = [...answer.tasks].sort((x, y) => Math.abs(y.b - y.a) - Math.abs(x.b - x.a) || x.b - x.a - (y.b - y.a));
  const better = tasks.filter((task) => task.b > task.a).length;
  const worse = tasks.filter((task) => task.b < task.a).length;
  return (
    <>
      <div class="estimates">
        {answer.arms.map((arm, place) =>
          arm.success ? (
            <>
              <span>
                <span class={`arm arm-${place}`} aria-hidden="true" /> {arm.label}
              </span>
              <Interval of={arm.success} low={0} high={1} label={asShare(arm.success)} />
              <span class="number">{asShare(arm.success)}</span>
            </>
          ) : null,
        )}
        {answer.difference && (
          <>
            <span>difference</span>
            <Interval of={answer.difference} low={-1} high={1} label={asDifference(answer.difference)} />
            <span class="number">{asDifference(answer.difference)}</span>
          </>
        )}
      </div>
      {answer.metrics.b.length > 0 && a && b && (
        <details>
          <summary>Curves of both</summary>
          <div class="charts">
            {CURVES.map((name) => (
              <Chart title={name} series={[seriesOf(answer.metrics.a, name, a.run), seriesOf(answer.metrics.b, name, b.run)]} />
            ))}
          </div>
        </details>
      )}
      <Section title="Task by task" note={`${answer.split || "no split"}: ${better} better, ${worse} worse, ${tasks.length - better - worse} the same; the largest differences first`}>
        <Virtual
          count={tasks.length}
          guess={30}
          label="tasks"
          extra={10}
          render={(place) => {
            const task = tasks[place];
            if (!task) return null;
            return (
              <div class={`dots ${task.b > task.a ? "better" : task.b < task.a ? "worse" : ""}`}>
                <Link kind="task" id={task.task_id}>
                  {task.task_id}
                </Link>
                <svg viewBox="-2 0 104 12" preserveAspectRatio="none" role="img" aria-label={`${percent(task.a)} to ${percent(task.b)}`}>
                  <line class="axis" x1="0" x2="100" y1="6" y2="6" />
                  <line class="change" x1={100 * task.a} x2={100 * task.b} y1="6" y2="6" />
                  <line class="dot dot-0" x1={100 * task.a} x2={100 * task.a} y1="6" y2="6" />
                  <line class="dot dot-1" x1={100 * task.b} x2={100 * task.b} y1="6" y2="6" />
                </svg>
                <span class="number">
                  {percent(task.a)} {task.b > task.a ? "↑" : task.b < task.a ? "↓" : "="} {percent(task.b)}
                </span>
              </div>
            );
          }}
        />
      </Section>
    </>
  );
}
