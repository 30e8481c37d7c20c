import os from 'node:os'
import { expect, test } from 'vitest'
import { parseImageName } from '../image-name.ts'
import { checkRegistry } from './registry-rule.ts'

interface Permission {
  /** All private registries. */
  readonly general?: boolean
  readonly named?: readonly string[]
  readonly login?: string
}

function ask(name: string, address: string, { general = false, named = [], login }: Permission = {}) {
  return checkRegistry(parseImageName(name, null), {
    allowPrivateRegistries: general,
    allowedRegistries: named,
    registries: login === undefined ? {} : { [login]: {} },
    resolve: () => Promise.resolve([{ address, family: address.includes(':') ? 6 : 4 }]),
  })
}

const refused = { reason: 'registry_refused' }
const ownAddress = Object.values(os.networkInterfaces())
  .flatMap((all) => all ?? [])
  .find((one) => one.family === 'IPv4' && !one.internal)?.address

test.each([
  ['the default registry', 'debian', '10.0.0.1'],
  ['one with a public address', 'r.example/a', '8.8.8.8'],
])('allows %s without permission', async (_, name, address) => {
  await expect(ask(name, address)).resolves.toEqual({ quiet: false })
  await expect(ask(name, address, { general: true })).resolves.toEqual({ quiet: false })
})

test.each([
  ['10.0.0.1', 'r.example:5000/a'],
  ['192.168.1.5', 'r.example:5000/a'],
  ['fd00::5', 'r.example:5000/a'],
  ['8.8.8.8', '10.0.0.1:5000/a'],
])('requires permission for a private address (%s, %s), by name or for all', async (address, name) => {
  const host = name.slice(0, -2)
  await expect(ask(name, address)).rejects.toMatchObject(refused)
  await expect(ask(name, address, { general: true })).resolves.toEqual({ quiet: true })
  await expect(ask(name, address, { named: [host] })).resolves.toEqual({ quiet: false })
  await expect(ask(name, address, { named: [host.replace(':5000', '')] })).resolves.toEqual({ quiet: false })
  await expect(ask(name, address, { named: [host.replace('5000', '5001')] })).rejects.toMatchObject(refused)
  await expect(ask(name, address, { login: host })).resolves.toEqual({ quiet: false })
})

test.each([
  ['169.254.169.254', 'r.example/a'],
  ['fe80::1', 'r.example/a'],
  [ownAddress ?? '169.254.0.1', 'r.example/a'],
])('requires permission by name for a link-local address or the host itself (%s)', async (address, name) => {
  await expect(ask(name, address)).rejects.toMatchObject(refused)
  await expect(ask(name, address, { general: true })).rejects.toMatchObject(refused)
  await expect(ask(name, address, { named: ['r.example'] })).resolves.toEqual({ quiet: false })
})

test.each([
  ['127.0.0.1:2375/x', '8.8.8.8'],
  ['0x7f.1/a', '8.8.8.8'],
  ['0.0.0.0:5000/a', '8.8.8.8'],
  ['[::1]:5000/a', '8.8.8.8'],
  ['[::ffff:127.0.0.1]:5000/a', '8.8.8.8'],
  ['localhost/a', '8.8.8.8'],
  ['r.localhost:5000/a', '8.8.8.8'],
  ['r.example/a', '127.0.0.53'],
  ['r.example/a', '::1'],
])('never allows a loopback address: %s, which is %s', async (name, address) => {
  const host = name.slice(0, name.indexOf('/'))
  for (const permission of [{}, { general: true }, { named: [host] }, { login: host }]) {
    await expect(ask(name, address, permission)).rejects.toMatchObject(refused)
  }
})
