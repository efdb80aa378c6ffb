// The shortest way from one list of parts to another. Used for lines and for words.

import type { Json } from "./types";

export interface Change {
  sign: " " | "+" | "-";
  part: string;
}

/** Beyond this many cells the table would cost more than it tells; then all goes and all comes. */
const MOST_CELLS = 1_000_000;

export function difference(before: string[], after: string[]): Change[] {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < before.length - head && tail < after.length - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++;
  const same = (parts: string[]): Change[] => parts.map((part) => ({ sign: " ", part }));
  const middle = between(before.slice(head, before.length - tail), after.slice(head, after.length - tail));
  return [...same(before.slice(0, head)), ...middle, ...same(before.slice(before.length - tail))];
}

function between(before: string[], after: string[]): Change[] {
  const [rows, columns] = [before.length, after.length];
  const gone = (): Change[] => before.map((part) => ({ sign: "-", part }));
  const come = (): Change[] => after.map((part) => ({ sign: "+", part }));
  if (!rows || !columns || rows * columns > MOST_CELLS) return [...gone(), ...come()];
  const width = columns + 1;
  const common = new Uint32Array((rows + 1) * width);
  for (let i = rows - 1; i >= 0; i--) {
    for (let j = columns - 1; j >= 0; j--) {
      common[i * width + j] =
        before[i] === after[j]
          ? (common[(i + 1) * width + j + 1] ?? 0) + 1
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
    }
  }
  const changes: Change[] = [];
  let [i, j] = [0, 0];
  while (i < rows || j < columns) {
    const [one, other] = [before[i] ?? "", after[j] ?? ""];
    if (i < rows && j < columns && one === other) {
      changes.push({ sign: " ", part: one });
      i++;
      j++;
    } else if (j >= columns || (i < rows && (common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))) {
      changes.push({ sign: "-", part: one });
      i++;
    } else {
      changes.push({ sign: "+", part: other });
      j++;
    }
  }
  return changes;
}

export interface ArgumentChange {
  path: string;
  one: Json;
  other: Json;
  same: boolean;
}

/** Two calls, argument by argument; objects are walked, lists are values. */
export function argumentChanges(one: Json, other: Json): ArgumentChange[] {
  const [a, b] = [flat(one), flat(other)];
  return [...new Set([...a.keys(), ...b.keys()])].map((path) => {
    const [left, right] = [a.get(path) ?? null, b.get(path) ?? null];
    return { path, one: left, other: right, same: JSON.stringify(left) === JSON.stringify(right) };
  });
}

function flat(value: Json, path = ""): Map<string, Json> {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return new Map(path ? [[path, value]] : []);
  return new Map(Object.entries(value).flatMap(([name, inner]) => [...flat(inner, path ? `${path}.${name}` : name)]));
}

export const lines = (text: string) => text.split("\n");

export const wordsOf = (text: string) => text.match(/<SECRET:[a-z0-9-]+:\d+>|\s+|\w+|[^\s\w]/g) ?? [];

const PATCH = /^(?:diff --git |--- \S|\*\*\* Begin Patch|Index: |@@ )/m;

/** A patch that is written as one is shown as one. */
export function fromPatch(text: string): Change[] | null {
  if (!PATCH.test(text.slice(0, 2000)) || !/^[+-]/m.test(text)) return null;
  return lines(text).map((line) => {
    const sign = /^(?:\+(?!\+\+ )|-(?!-- ))/.test(line) ? (line[0] as "+" | "-") : " ";
    return { sign, part: sign === " " ? line : line.slice(1) };
  });
}
