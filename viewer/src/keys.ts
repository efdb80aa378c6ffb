// One place for keys. A page adds its own while it is shown; the help overlay lists what works now.
import { useLayoutEffect, useRef } from "preact/hooks";

export interface Key {
  key: string;
  does: string;
  act: () => void;
}

const layers: Key[][] = [];

/** Of the page, and those that work everywhere: the layer that has the help itself. */
export function keysNow(): { own: Key[]; everywhere: Key[] } {
  const isEverywhere = (layer: Key[]) => layer.some(({ key }) => key === "?");
  return { own: layers.filter((layer) => !isEverywhere(layer)).flat(), everywhere: layers.filter(isEverywhere).flat() };
}

export function useKeys(keys: Key[]): void {
  const latest = useRef(keys);
  latest.current = keys;
  // Not after the paint: a key must do what the page that one sees says.
  useLayoutEffect(() => {
    const layer = keys.map(({ key, does }, place) => ({ key, does, act: () => latest.current[place]?.act() }));
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
    };
  }, [keys.map(({ key }) => key).join()]);
}

let first = "";
let firstAt = 0;
/** A first key of two, such as the g of "g r", is forgotten after this time. */
const TOGETHER_MS = 1200;

export function listen(): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target as HTMLElement;
    if (event.key === "Escape" && target.matches("input, textarea, select")) return target.blur();
    if (target.matches("input, textarea, select")) return;
    const pressed = performance.now() - firstAt < TOGETHER_MS && first ? `${first} ${event.key}` : event.key;
    first = "";
    const found = [...layers].reverse().flat().find(({ key }) => key === pressed);
    if (found) {
      event.preventDefault();
      found.act();
    } else if (layers.flat().some(({ key }) => key.startsWith(`${event.key} `))) {
      first = event.key;
      firstAt = performance.now();
    }
  });
}
