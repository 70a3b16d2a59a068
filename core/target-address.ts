import ipaddr from 'ipaddr.js';

/** Ranges that are refused whatever the settings say: where clouds answer questions about the machine. */
const METADATA = [
  ...['169.254.0.0/16', 'fe80::/10', 'fd00:ec2::254/128'], // AWS, Google Cloud, Azure and most others
  ...['fd20:ce::254/128', '168.63.129.16/32', '100.100.100.200/32', '192.0.0.192/32'], // Google, Azure, Alibaba, Oracle
].map((range) => ipaddr.parseCIDR(range));

/** Ranges (ipaddr.js names) that are the internet at large. */
const PUBLIC = new Set(['unicast']);

/**
 * Whether a resolved address may be connected to.
 *
 * IPv4 inside IPv6 (mapped, compatible, translated, NAT64, 6to4) is judged as the IPv4 address it leads to. Source:
 * contract §7, threats "internal network".
 */
export function isAllowedAddress(address: string, allowPrivate: boolean): boolean {
  let parsed: ipaddr.IPv4 | ipaddr.IPv6;
  try {
    parsed = ipaddr.parse(address.split('%')[0]!);
  } catch {
    return false;
  }
  const inner = embedded(parsed);
  for (const one of inner === null ? [parsed] : [parsed, inner]) {
    if (METADATA.some(([range, bits]) => one.kind() === range.kind() && one.match(range, bits))) return false;
  }
  const judged = inner ?? parsed;
  const range = judged.range();
  if (range === 'multicast' || range === 'broadcast' || range === 'unspecified') return false;
  return allowPrivate || PUBLIC.has(range);
}

function embedded(address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | null {
  if (!(address instanceof ipaddr.IPv6)) return null;
  if (address.isIPv4MappedAddress()) return address.toIPv4Address();
  const range = address.range();
  const parts = address.toByteArray();
  if (range === 'rfc6052' || range === 'rfc6145') return new ipaddr.IPv4(parts.slice(12));
  // RFC 4291 §2.5.5.1; `::` and `::1` are addresses of their own.
  if (range === 'unicast' && parts.slice(0, 12).every((byte) => byte === 0)) return new ipaddr.IPv4(parts.slice(12));
  if (range === '6to4') return new ipaddr.IPv4(parts.slice(2, 6));
  return null;
}
