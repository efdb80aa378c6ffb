// Heights of many items, most of them guessed: where an item begins and which one is at a height, in log n (Fenwick).

export class Heights {
  private readonly sums: Float64Array;
  private readonly own: Float64Array;

  constructor(
    readonly count: number,
    guess: number,
  ) {
    this.own = new Float64Array(count).fill(guess);
    this.sums = new Float64Array(count + 1);
    for (let i = 1; i <= count; i++) this.sums[i] = guess * (i & -i);
  }

  /** Whether it changed. */
  set(item: number, height: number): boolean {
    const change = height - (this.own[item] ?? height);
    if (Math.abs(change) < 0.5) return false;
    this.own[item] = height;
    for (let i = item + 1; i <= this.count; i += i & -i) this.sums[i] = (this.sums[i] ?? 0) + change;
    return true;
  }

  top(item: number): number {
    let sum = 0;
    for (let i = Math.min(item, this.count); i > 0; i -= i & -i) sum += this.sums[i] ?? 0;
    return sum;
  }

  at(height: number): number {
    let [item, left] = [0, height];
    for (let bit = 2 ** Math.floor(Math.log2(this.count || 1)); bit >= 1; bit /= 2) {
      const next = item + bit;
      const sum = this.sums[next] ?? Number.POSITIVE_INFINITY;
      if (next <= this.count && sum <= left) {
        item = next;
        left -= sum;
      }
    }
    return Math.max(0, Math.min(item, this.count - 1));
  }
}
