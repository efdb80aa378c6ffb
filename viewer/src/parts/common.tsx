// Small parts that every page uses.
import type { ComponentChildren } from "preact";
import { useContext } from "preact/hooks";
import { createContext } from "preact";
import { type Address, link, linkTo } from "../address";
import type { Asked, Refused } from "../answers";
import { short, words } from "../format";
import type { Json, Ref } from "../types";
import { marked } from "./text";

export const Here = createContext<Address>({ run: "", page: "", id: "", filters: {} });
export const useHere = () => useContext(Here);

export function Link(props: { kind: string; id: string; children?: ComponentChildren; label?: string }) {
  const { run } = useHere();
  return (
    <a href={linkTo(run, props.kind, props.id)} aria-label={props.label}>
      {props.children ?? <span class="mono">{short(props.id)}</span>}
    </a>
  );
}

export function RefLink({ to }: { to: Ref }) {
  return (
    <Link kind={to.kind} id={to.id}>
      {words(to.kind)} {to.label ? `${(["site", "pair"].includes(to.kind) ? words(to.label) : to.label).slice(0, 80)} ` : ""}
      <span class="mono faint">{short(to.id)}</span>
    </Link>
  );
}

export function Waiting<T>({ asked, children }: { asked: Asked<T>; children: (answer: T) => ComponentChildren }) {
  if (asked.failure) return <Failed failure={asked.failure} />;
  if (!asked.answer) return <p class="waiting" role="status">Loading …</p>;
  return <>{children(asked.answer)}</>;
}

export function Failed({ failure }: { failure: Refused }) {
  const { run } = useHere();
  return (
    <div class="failed" role="alert">
      <p>{failure.message}</p>
      {failure.next && (
        <p>
          Next: <code>{failure.next}</code>
        </p>
      )}
      <p>
        <a href={link(run, "run")}>Back to the run</a>
      </p>
    </div>
  );
}

export function Heading(props: { title: ComponentChildren; sub?: ComponentChildren; children?: ComponentChildren }) {
  return (
    <header class="heading-row">
      <div>
        <h1 tabIndex={-1}>{props.title}</h1>
        {props.sub && <p class="sub">{props.sub}</p>}
      </div>
      {props.children && <div class="actions">{props.children}</div>}
    </header>
  );
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false)
        .map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

export function Section(props: { title: ComponentChildren; note?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section id={props.id}>
      <h2>
        {props.title}
        {props.note && <span class="note">{props.note}</span>}
      </h2>
      {props.children}
    </section>
  );
}

export function JsonTree({ value }: { value: Json }) {
  if (value === null || typeof value !== "object") return <pre class="text">{marked(String(value))}</pre>;
  if (Array.isArray(value)) return <pre class="text">{marked(JSON.stringify(value, null, 1))}</pre>;
  return (
    <dl class="arguments">
      {Object.entries(value).map(([name, inner]) => (
        <div>
          <dt>{name}</dt>
          <dd>
            <pre class="text">{marked(typeof inner === "string" ? inner : JSON.stringify(inner, null, 1))}</pre>
          </dd>
        </div>
      ))}
    </dl>
  );
}
