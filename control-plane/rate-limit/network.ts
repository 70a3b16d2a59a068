import ipaddr from 'ipaddr.js';

/** What one customer of a network is given at least: limits by single IPv6 addresses would limit nobody. */
const IPV6_NETWORK_PARTS = 4;

/** The network that an address counts for: an IPv4 address itself, the /64 of an IPv6 one; other text as it is. */
export function networkOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  if (parsed instanceof ipaddr.IPv4) return parsed.toString();
  const network = parsed.parts.slice(0, IPV6_NETWORK_PARTS).map((part) => part.toString(16));
  return `${network.join(':')}::/64`;
}
