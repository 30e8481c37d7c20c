import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { request } from 'undici'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  checkOutboundUrl,
  guardedLookup,
  outboundAgent,
  OutboundRefused,
  refusedAddress,
  type Resolve,
} from './outbound.ts'

const refused = `
  127.0.0.1 127.255.255.254 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254
  100.64.0.1 100.127.255.255 192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1
  239.255.255.250 240.0.0.1 255.255.255.255 192.88.99.1
  :: ::1 ::127.0.0.1 ::10.0.0.1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:a9fe:a9fe ::ffff:0:127.0.0.1
  64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.1.2.3 64:ff9b:1::1 64:ff9b:1::8.8.8.8
  2002:7f00:1:: 2002:a00:1:: 2001:0:1234::1 2001:db8::1 2001:10::1 3fff::1 100::1 5f00::1
  fe80::1 fe80::1%eth0 febf::1 fec0::1 fc00::1 fd00:ec2::254 fdff::1 ff02::1 ff0e::1 4000::1 e000::1
  nonsense localhost`
  .trim()
  .split(/\s+/)
const allowed =
  '1.1.1.1 8.8.8.8 172.32.0.1 100.128.0.1 2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::808:808'

describe('refusedAddress', () => {
  test.each(refused)('%s is not public', (ip) => expect(refusedAddress(ip)).toBeTypeOf('string'))
  test.each(allowed.split(' '))('%s is public', (ip) => expect(refusedAddress(ip)).toBeUndefined())
})

const noLookup: Resolve = () => Promise.reject(new Error('a literal address must not be looked up'))
const answers =
  (...addresses: string[]): Resolve =>
  () =>
    Promise.resolve(addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })))

describe('checkOutboundUrl', () => {
  const odd = [
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0x7f.1/',
    'https://0177.0.0.1/',
    'https://017700000001/',
    'https://127.0.0.1./',
    'https://%31%32%37.0.0.1/',
    'https://１２７.0.0.1/',
    'https://127。0。0。1/',
    'https://[::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:7f00:1]:8443/',
    'https://[fd00::1]/',
    'https://169.254.169.254/latest/meta-data/',
    'https://0/',
  ]
  test.each(odd)('%s is rejected without a DNS lookup', async (url) => {
    expect(await checkOutboundUrl(url, false, noLookup)).toBe('The host has no public address')
    expect(await checkOutboundUrl(url, true, noLookup)).toBeUndefined()
  })

  test('names the fault', async () => {
    const of = (url: string, allowPrivate = false) => checkOutboundUrl(url, allowPrivate, answers('1.1.1.1'))
    expect(await of('nonsense')).toBe('The URL is not valid')
    expect(await of('https://[fe80::1%25eth0]/')).toBe('The URL is not valid')
    expect(await of('http://example.com/')).toBe('The URL must start with https://')
    expect(await of('http://example.com/', true)).toBeUndefined()
    expect(await of('ftp://example.com/', true)).toBe('The URL must start with https://')
    expect(await of('https://me:secret@example.com/')).toBe('The URL must not contain a user name or password')
    expect(await of('https://me@example.com/', true)).toBe('The URL must not contain a user name or password')
    expect(await of('https://example.com:8443/hook?x=1')).toBeUndefined()
  })

  test('rejects a name with any private address, with the same text as a name that does not exist', async () => {
    const failing =
      (code: string): Resolve =>
      () =>
        Promise.reject(Object.assign(new Error('dns'), { code }))
    const of = (resolve: Resolve) => checkOutboundUrl('https://hook.example/', false, resolve)
    expect(await of(answers('1.1.1.1', '10.0.0.5'))).toBe('The host has no public address')
    expect(await of(answers('::1'))).toBe('The host has no public address')
    expect(await of(failing('ENOTFOUND'))).toBe('The host has no public address')
    expect(await of(failing('ETIMEOUT'))).toBeUndefined()
  })
})

describe('guardedLookup', () => {
  const look = (resolve: Resolve, options: { all?: boolean; family?: number }) =>
    new Promise((done) =>
      guardedLookup(false, resolve)('hook.example', options, (error, address, family) =>
        done(error ?? [address, family]),
      ),
    )

  test('returns public addresses in both forms that sockets request', async () => {
    const both = answers('1.1.1.1', '2606:4700::1')
    expect(await look(both, {})).toEqual(['1.1.1.1', 4])
    expect(await look(both, { family: 6 })).toEqual(['2606:4700::1', 6])
    expect(await look(both, { all: true })).toEqual([
      [
        { address: '1.1.1.1', family: 4 },
        { address: '2606:4700::1', family: 6 },
      ],
      undefined,
    ])
    expect(await look(answers('1.1.1.1'), { family: 6 })).toMatchObject({ code: 'ENOTFOUND' })
  })

  test('rejects a name with one private address among public ones', async () => {
    expect(await look(answers('1.1.1.1', '192.168.0.1'), { all: true })).toBeInstanceOf(OutboundRefused)
    expect(await look(answers('1.1.1.1', '::ffff:127.0.0.1'), {})).toBeInstanceOf(OutboundRefused)
  })
})

describe('outboundAgent', () => {
  let server: http.Server
  let port: number
  let requests = 0
  beforeAll(async () => {
    server = http.createServer((_, response) => {
      requests += 1
      response.end('inside')
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    port = (server.address() as AddressInfo).port
  })
  afterAll(() => new Promise((done) => server.close(done)))

  test('rejects a name at connect time that was public when checked and is private now', async () => {
    let lookups = 0
    const rebinding: Resolve = () => {
      lookups += 1
      return Promise.resolve([{ address: lookups === 1 ? '1.1.1.1' : '127.0.0.1', family: 4 }])
    }
    expect(await checkOutboundUrl('https://rebind.example/', false, rebinding)).toBeUndefined()
    const agent = outboundAgent({ allowPrivate: false, timeoutMs: 2_000, resolve: rebinding })
    await expect(request(`http://rebind.example:${port}/`, { dispatcher: agent })).rejects.toBeInstanceOf(
      OutboundRefused,
    )
    expect([lookups, requests]).toEqual([2, 0])
    await agent.close()
  })

  test.each(['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '2130706433'])('rejects the address %s', async (host) => {
    const agent = outboundAgent({ allowPrivate: false, timeoutMs: 2_000, resolve: noLookup })
    await expect(request(`http://${host}:${port}/`, { dispatcher: agent })).rejects.toBeInstanceOf(OutboundRefused)
    expect(requests).toBe(0)
    await agent.close()
  })

  test('allows private addresses if the operator permits them', async () => {
    const agent = outboundAgent({ allowPrivate: true, timeoutMs: 2_000 })
    const answer = await request(`http://localhost:${port}/`, { dispatcher: agent })
    expect(await answer.body.text()).toBe('inside')
    await agent.close()
  })
})
