import t from 'tap';
import { networkOf } from '../../../../control-plane/rate-limit/network.ts';

t.test('an IPv4 address counts for itself, in whatever form it comes', async (t) => {
  t.equal(networkOf('203.0.113.9'), '203.0.113.9');
  t.equal(networkOf('::ffff:203.0.113.9'), '203.0.113.9');
  t.not(networkOf('203.0.113.9'), networkOf('203.0.113.10'));
});

t.test('all addresses of an IPv6 network count as one, and those of two do not', async (t) => {
  t.equal(networkOf('2001:db8:1:2:3:4:5:6'), networkOf('2001:db8:1:2::1'));
  t.equal(networkOf('2001:0DB8:1:2::1'), networkOf('2001:db8:1:2::2'));
  t.not(networkOf('2001:db8:1:2::1'), networkOf('2001:db8:1:3::1'));
});

t.test('what is no address counts for itself', async (t) => {
  t.equal(networkOf('unknown'), 'unknown');
});
