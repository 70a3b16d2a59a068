import { createHash } from 'node:crypto';
import { RATE_LIMIT_KNOWN_MS } from '../../core/limits.ts';
import { stateOf } from './buckets.ts';
import type { BucketOperation, RatedState } from './operations.ts';

/**
 * Before every key: what stands in braces alone picks the slot of a cluster, so that one call may have many buckets.
 */
export const KEY_PREFIX = '{mandate-rate}:';

/**
 * What `TokenBuckets` does, in the store: KEYS one an operation, ARGV its kind, rate, burst and how long at least
 * the bucket is remembered (ms). A bucket is `tokens at rate burst`, and is forgotten once it is full.
 *
 * Answers the store's time (ms), then four texts an operation: 1 or 0 for allowed, tokens, rate, burst; or `-`
 * four times where there is no bucket. Numbers are doubles that are written with all their digits.
 */
export const BUCKET_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local function digits(number) return string.format('%.17g', number) end
local answer = { digits(now) }
for i, key in ipairs(KEYS) do
  local kind, rate, burst = ARGV[i * 4 - 3], tonumber(ARGV[i * 4 - 2]), tonumber(ARGV[i * 4 - 1])
  local known = redis.call('GET', key)
  local tokens, at
  if known then
    local t, a, r, b = string.match(known, '^(%S+) (%S+) (%S+) (%S+)$')
    tokens, at = tonumber(t), tonumber(a)
    if kind == 'known' or kind == 'give' then rate, burst = tonumber(r), tonumber(b) end
    if not (tokens and at and rate and burst) then return redis.error_reply('ERR a bucket that cannot be read') end
    tokens = math.min(burst, tokens + math.max(0, now - at) * rate / 1000)
    at = math.max(at, now)
  else
    tokens, at = burst, now
  end
  local allowed = tokens >= 1
  if not known and (kind == 'known' or kind == 'give') then
    for _ = 1, 4 do answer[#answer + 1] = '-' end
  else
    if kind == 'adjust' then
      tokens, allowed = math.min(burst, tokens + 1) - 1, true
    elseif kind == 'give' then
      tokens, allowed = math.min(burst, tokens + 1), true
    elseif kind ~= 'peek' and allowed then
      tokens = tokens - 1
    end
    if kind ~= 'peek' then
      local full = math.ceil(at - now + (burst - tokens) * 1000 / rate) + 1
      local bucket = table.concat({ digits(tokens), digits(at), digits(rate), digits(burst) }, ' ')
      redis.call('SET', key, bucket, 'PX', math.min(math.max(full, tonumber(ARGV[i * 4])), 1e15))
    end
    answer[#answer + 1] = allowed and '1' or '0'
    answer[#answer + 1] = digits(tokens)
    answer[#answer + 1] = digits(rate)
    answer[#answer + 1] = digits(burst)
  end
end
return answer
`;

/** By this the store knows the script once it has run. */
export const BUCKET_SCRIPT_SHA1 = createHash('sha1').update(BUCKET_SCRIPT).digest('hex');

/** The bucket of a valid credential; others anybody can make, so they are kept no longer than they must be. */
const CREDENTIAL = /^(management )?[0-9a-f]{64}$/;

/** The number of keys, the keys and the arguments of a call with these operations. */
export function scriptArguments(operations: readonly BucketOperation[]): string[] {
  const keys = operations.map(({ key }) => KEY_PREFIX + key);
  const values = operations.flatMap((one) => {
    const { perSecond, burst } = 'rate' in one ? one.rate : { perSecond: 0, burst: 0 };
    return [one.kind, String(perSecond), String(burst), String(CREDENTIAL.test(one.key) ? RATE_LIMIT_KNOWN_MS : 0)];
  });
  return [String(keys.length), ...keys, ...values];
}

/** The answer to a call with `count` operations and the store's time (ms); null where it is none. */
export function readScriptAnswer(
  answer: unknown,
  count: number,
): { readonly atMs: number; readonly found: (RatedState | null)[] } | null {
  if (!Array.isArray(answer) || answer.length !== 1 + 4 * count) return null;
  const atMs = numberOf(answer[0]);
  if (atMs === null) return null;
  const found: (RatedState | null)[] = [];
  for (let i = 1; i < answer.length; i += 4) {
    if (answer[i] === '-') {
      found.push(null);
      continue;
    }
    const [tokens, perSecond, burst] = [numberOf(answer[i + 1]), numberOf(answer[i + 2]), numberOf(answer[i + 3])];
    if (tokens === null || perSecond === null || burst === null || perSecond === 0 || burst < 1) return null;
    if (tokens > burst || (answer[i] !== '0' && answer[i] !== '1')) return null;
    const state = stateOf({ tokens, rate: perSecond, burst }, answer[i] === '1');
    found.push({ state, rate: { perSecond, burst } });
  }
  return { atMs, found };
}

/** A finite number that is not negative, written by the script. */
function numberOf(value: unknown): number | null {
  if (typeof value !== 'string' || !/^[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$/.test(value)) return null;
  const number = Number(value);
  return Number.isFinite(number) ? number : null;
}
