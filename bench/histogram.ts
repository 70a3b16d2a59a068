/** Values of one power of two share this many buckets, so a quantile is at most 1/128 (0.8 %) off. */
const BUCKETS_PER_OCTAVE = 128;
const OCTAVE_BITS = 7;
/** Up to 2^32 microseconds, a little over an hour. */
const OCTAVES = 32 - OCTAVE_BITS + 1;

/** A log-linear histogram of latencies in whole microseconds. */
export class LatencyHistogram {
  max = 0;
  private count = 0;
  private readonly buckets = new Float64Array(BUCKETS_PER_OCTAVE * OCTAVES);

  record(microseconds: number): void {
    const value = Math.min(Math.max(0, Math.round(microseconds)), 0xff_ff_ff_ff);
    const shift = Math.max(0, 31 - Math.clz32(value) - OCTAVE_BITS);
    const index = shift * BUCKETS_PER_OCTAVE + (value >>> shift);
    this.buckets[index] = (this.buckets[index] ?? 0) + 1;
    this.count += 1;
    if (value > this.max) this.max = value;
  }

  /** The middle of the bucket that holds the quantile (0 to 1), in microseconds; 0 where nothing was recorded. */
  quantile(quantile: number): number {
    let left = Math.max(1, Math.ceil(this.count * quantile));
    for (const [index, count] of this.buckets.entries()) {
      left -= count;
      if (left > 0 || count === 0) continue;
      const shift = Math.max(0, Math.floor(index / BUCKETS_PER_OCTAVE) - 1);
      const low = (index - shift * BUCKETS_PER_OCTAVE) * 2 ** shift;
      return Math.min(this.max, low + (2 ** shift - 1) / 2);
    }
    return 0;
  }
}
