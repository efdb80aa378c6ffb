// Numbers as people read them. Money comes in millionths of a dollar.
import type { Json } from "./types";

const WHOLE = new Intl.NumberFormat("en-US");

export const whole = (value: number | null | undefined) => (value == null ? "–" : WHOLE.format(value));

export function decimal(value: number | null | undefined): string {
  if (value == null || Number.isNaN(value)) return "–";
  if (value < 0) return `−${decimal(-value)}`;
  if (value === 0) return "0";
  if (value >= 1e5 || value < 1e-3) return value.toExponential(2).replace("e+", "e");
  return Number.isInteger(value) ? WHOLE.format(value) : String(Number(value.toPrecision(4)));
}

export function cents(micros: number | null | undefined): string {
  if (micros == null) return "–";
  if (micros === 0) return "0 ¢";
  const value = micros / 1e4;
  return `${value < 0.01 ? value.toPrecision(2) : value.toFixed(value < 1 ? 3 : 2)} ¢`;
}

export function dollars(micros: number | null | undefined): string {
  if (micros == null) return "–";
  if (micros === 0) return "$0";
  return micros < 1e4 ? cents(micros) : `$${(micros / 1e6).toFixed(micros < 1e6 ? 3 : 2)}`;
}

export function seconds(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  return value < 100 ? `${value.toFixed(1)} s` : `${Math.round(value / 60)} min`;
}

export const percent = (share: number | null | undefined) => (share == null ? "–" : `${Math.round(100 * share)}%`);

export const points = (share: number) => `${share > 0 ? "+" : share < 0 ? "−" : ""}${Math.abs(100 * share).toFixed(1)}`;

export const words = (name: string) => name.replaceAll("_", " ");

export const short = (id: string) => (id.length > 12 && /^[0-9a-f]+$/.test(id) ? id.slice(0, 10) : id);

export function plain(value: Json | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "string") return value;
  if (typeof value === "number") return decimal(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) && value.every((each) => typeof each === "string") ? value.join(", ") || "–" : JSON.stringify(value);
}

/** A value as JSON spells it, so that "87" is not 87; a text of several lines keeps them. */
export const literal = (value: Json) => (typeof value === "string" && value.includes("\n") ? `"${value}"` : JSON.stringify(value, null, 1));

/** A call as one line, `name(argument: value)`; anything else as it is. Lists hold only the beginning of long ones. */
export function callLine(value: Json | undefined): string {
  const text = plain(value).replace(/^<tool_call>|<\/tool_call>$/g, "");
  try {
    const call = JSON.parse(text) as { name?: Json; arguments?: Json };
    if (typeof call.name !== "string" || typeof call.arguments !== "object" || call.arguments === null) return text;
    const given = Object.entries(call.arguments).map(([name, inner]) => `${name}: ${JSON.stringify(inner)}`);
    return `${call.name}(${given.join(", ")})`;
  } catch {
    return text;
  }
}

export const when = (iso: string | null) => (iso ? iso.replace("T", " ").slice(0, 16) : "–");
