import { percent, points } from "../format";
import type { Estimate } from "../types";

/** A mean as a dot and its interval as a line, on a scale that rows share. */
export function Interval({ of, low, high, label }: { of: Estimate; low: number; high: number; label: string }) {
  const x = (value: number) => ((value - low) / (high - low)) * 100;
  return (
    <svg class="interval" viewBox="0 0 100 12" preserveAspectRatio="none" role="img" aria-label={label}>
      <line class="axis" x1="0" x2="100" y1="6" y2="6" />
      {low < 0 && <line class="axis zero" x1={x(0)} x2={x(0)} y1="0" y2="12" />}
      {of.lo !== null && of.hi !== null && <line class="whisker" x1={x(of.lo)} x2={x(of.hi)} y1="6" y2="6" />}
      <line class="dot" x1={x(of.mean)} x2={x(of.mean)} y1="6" y2="6" />
    </svg>
  );
}

export const ends = (of: Estimate, told: (value: number) => string) =>
  of.lo === null || of.hi === null ? of.why : `${told(of.lo)} to ${told(of.hi)}`;

export const asShare = (of: Estimate) => `${percent(of.mean)} (${ends(of, percent)}), ${of.n} tasks`;

export const asDifference = (of: Estimate) => `${points(of.mean)} points (${ends(of, points)}), ${of.n} tasks`;
