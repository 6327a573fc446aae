/** Numbers that follow from a seed (mulberry32). */
export interface Random {
  /** At least 0, and below `limit`. */
  below(limit: number): number;
  /** One of these. */
  pick<T>(of: readonly T[]): T;
  /** True once in `n`. */
  oneIn(n: number): boolean;
}

export function random(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return (t ^ (t >>> 14)) >>> 0;
  };
  const below = (limit: number): number =>
    Math.floor((next() / 2 ** 32) * limit);
  return {
    below,
    pick: (of) => of[below(of.length)]!,
    oneIn: (n) => below(n) === 0,
  };
}
