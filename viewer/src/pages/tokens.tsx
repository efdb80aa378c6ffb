// Every token as the trainer saw it: mask, entropy, and how hard each channel pulls at it.
import { useRef, useState } from "preact/hooks";
import { link, refine } from "../address";
import { useAnswer } from "../answers";
import { decimal, short, whole, words } from "../format";
import { useKeys } from "../keys";
import { Facts, Heading, Section, useHere, Waiting } from "../parts/common";
import type { TokenCard, TokenRow, TokensAnswer } from "../types";

const MASK = "mask";
const ENTROPY = "entropy";

export function TokensPage() {
  const { id } = useHere();
  return id ? <Tokens /> : <TokenList />;
}

function TokenList() {
  const { run } = useHere();
  const asked = useAnswer<{ rows: TokenCard[] }>(run, "tokens");
  return (
    <div class="column">
      <Heading title="Tokens" sub="Rows of training with the gradient weight of every channel at every token." />
      <Waiting asked={asked}>
        {({ rows }) =>
          rows.length ? (
            <div class="wide-table">
              <table>
                <thead>
                  <tr>
                    <th scope="col">row</th>
                    <th scope="col" class="number">step</th>
                    <th scope="col" class="number">tokens</th>
                    <th scope="col">parts</th>
                    <th scope="col">channels</th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((row) => (
                    <tr>
                      <th scope="row">
                        <a class="mono" href={link(run, "tokens", row.id)}>{row.trace_id ? short(row.trace_id) : "stored traces"}</a>
                      </th>
                      <td class="number">{row.step}</td>
                      <td class="number">{whole(row.n_tokens)}</td>
                      <td>{row.parts.map(words).join(", ")}</td>
                      <td>{row.channels.map(words).join(", ")}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="faint">
              This run kept none. Set <code>training.token_weights = true</code> before training.
            </p>
          )
        }
      </Waiting>
    </div>
  );
}

function Tokens() {
  const here = useHere();
  const { run, id } = here;
  const asked = useAnswer<TokensAnswer>(run, "tokens", { id });
  return (
    <Waiting asked={asked}>
      {(answer) => {
        const channels = [...new Set(answer.rows.flatMap((row) => layersOf(row)))];
        const asked = here.filters.channel ?? "";
        const channel = channels.includes(asked) ? asked : (channels.findLast((name) => largest(answer.rows, name) > 0) ?? MASK);
        return <Shaded answer={answer} channels={channels} channel={channel} choose={(name) => refine(here, { channel: name })} run={run} />;
      }}
    </Waiting>
  );
}

/** What a row can be shaded by. Older runs have no mask and no entropy. */
const layersOf = (row: TokenRow) => [...(row.mask ? [MASK] : []), ...(row.entropy ? [ENTROPY] : []), ...Object.keys(row.channels)];

const valuesOf = (row: TokenRow, layer: string): (number | null)[] | null =>
  layer === MASK ? row.mask : layer === ENTROPY ? row.entropy : (row.channels[layer] ?? null);

const largest = (rows: TokenRow[], layer: string) =>
  rows.reduce((most, row) => (valuesOf(row, layer) ?? []).reduce<number>((max, value) => Math.max(max, Math.abs(value ?? 0)), most), 0);

const strongest = (row: TokenRow, layer: string) =>
  (valuesOf(row, layer) ?? []).reduce<number>((best, value, place, all) => (Math.abs(value ?? 0) > Math.abs(all[best] ?? 0) ? place : best), 0);

function Shaded(props: { answer: TokensAnswer; channels: string[]; channel: string; choose: (name: string) => void; run: string }) {
  const { answer, channels, channel } = props;
  const most = largest(answer.rows, channel);
  const step = (by: number) => props.choose(channels[(channels.indexOf(channel) + by + channels.length) % channels.length] ?? channel);
  useKeys([
    { key: "c", does: "next channel", act: () => step(1) },
    { key: "C", does: "previous channel", act: () => step(-1) },
  ]);
  return (
    <div class="column wide-column">
      <Heading
        title="Tokens"
        sub={
          <>
            step {answer.step}, {answer.trace_id ? <a href={link(props.run, "rollout", answer.id)}>rollout <span class="mono">{short(answer.trace_id)}</span></a> : "what stored traces taught"}
          </>
        }
      />
      <div class="layers" role="radiogroup" aria-label="shade by">
        {channels.map((name) => (
          <button role="radio" aria-checked={name === channel} onClick={() => props.choose(name)}>
            {words(name)}
          </button>
        ))}
      </div>
      <p class="scale">
        <span class="number">0</span>
        <span class="ramp" aria-hidden="true" />
        <span class="number">{decimal(most)}</span>
        <span class="faint">
          {channel === MASK
            ? "1 where the token is learned from"
            : channel === ENTROPY
              ? "entropy of the policy before the token, in nats"
              : "L2 norm of the gradient of the weighted loss at the token's logits; the stronger the shade, the harder it pulls"}
        </span>
      </p>
      {answer.rows.filter((row) => valuesOf(row, channel)).map((row) => (
        <TokenText row={row} channel={channel} most={most} />
      ))}
    </div>
  );
}

function TokenText({ row, channel, most }: { row: TokenRow; channel: string; most: number }) {
  const [at, setAt] = useState(() => strongest(row, channel));
  const list = useRef<HTMLDivElement>(null);
  const values = valuesOf(row, channel);
  const piece = (place: number) => row.pieces?.[place] ?? String(row.ids[place]);
  const move = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -row.ids.length, End: row.ids.length }[event.key];
    if (!by) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(row.ids.length - 1, at + by));
    setAt(next);
    list.current?.querySelector<HTMLElement>(`[data-place="${next}"]`)?.focus();
  };
  const over = (event: Event) => {
    const place = (event.target as HTMLElement).dataset.place;
    if (place) setAt(Number(place));
  };
  return (
    <Section title={words(row.part)} note={`${whole(row.ids.length)} tokens${row.pieces ? "" : "; this run kept ids only"}`}>
      <div class="tokens-with-values">
        <div class="tokens" ref={list} role="group" aria-label={`tokens of ${row.part}`} onKeyDown={move} onMouseOver={over} onFocusIn={over}>
          {row.ids.map((_, place) => {
            const value = values?.[place] ?? 0;
            const token = (
              <span
                data-place={place}
                tabIndex={place === at ? 0 : -1}
                class={`token${row.mask && !row.mask[place] ? " masked" : ""}${place === at ? " current" : ""}`}
                style={{ "--share": most ? Math.abs(value ?? 0) / most : 0 }}
                aria-label={`${piece(place)}: ${words(channel)} ${decimal(value)}`}
              >
                {visibleSpace(piece(place))}
              </span>
            );
            return piece(place).endsWith("\n") ? [token, <br />] : token;
          })}
        </div>
        <div class="values" aria-live="polite">
          <Facts
            of={[
              ["token", <span class="mono">{visibleSpace(piece(at))}</span>],
              ["place", `${whole(at)}, id ${row.ids[at]}`],
              ...layersOf(row).map((layer): [string, string] => [words(layer), decimal(valuesOf(row, layer)?.[at])]),
            ]}
          />
        </div>
      </div>
    </Section>
  );
}

const visibleSpace = (text: string) => text.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "·") || "∅";
