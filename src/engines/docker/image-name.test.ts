import { describe, expect, test } from 'vitest'
import { checkRegistry, parseImageName } from './image-name.ts'

const digest = `sha256:${'0a'.repeat(32)}`

describe('names of images', () => {
  test.each([
    ['debian', '12', 'debian', '12', undefined, 'debian:12'],
    ['debian', null, 'debian', 'latest', undefined, 'debian:latest'],
    ['debian:11', null, 'debian', '11', undefined, 'debian:11'],
    ['debian:11', '12', 'debian', '12', undefined, 'debian:12'],
    ['library/debian', '12', 'library/debian', '12', undefined, 'library/debian:12'],
    ['r.example:5000/a/b', null, 'r.example:5000/a/b', 'latest', 'r.example:5000', 'r.example:5000/a/b:latest'],
    ['localhost/a', '1', 'localhost/a', '1', 'localhost', 'localhost/a:1'],
    [`r.example/a@${digest}`, null, 'r.example/a', digest, 'r.example', `r.example/a@${digest}`],
  ])('%s with tag %s', (name, tag, repository, reference, host, full) => {
    expect(parseImageName(name, tag)).toEqual({ repository, reference, host, full })
  })

  test.each([
    ['', null],
    ['A', null],
    ['a b', null],
    ['../../etc', null],
    ['a/../b', null],
    ['a', 'b/c'],
    ['a', 'x y'],
    ['a', ''],
    ['a?fromSrc=-', null],
    ['user@host.example/a', null],
    ['a@sha256:0', null],
    ['x'.repeat(300), null],
  ])('%j with tag %j is none', (name, tag) => {
    expect(() => parseImageName(name, tag)).toThrow('is not the name of an image')
  })
})

describe('registries', () => {
  const ask = (name: string, address: string, changes: { allow?: boolean; named?: string } = {}) =>
    checkRegistry(parseImageName(name, null), {
      allowPrivateRegistries: changes.allow ?? false,
      registries: changes.named === undefined ? {} : { [changes.named]: {} },
      resolve: () => Promise.resolve([{ address, family: address.includes(':') ? 6 : 4 }]),
    })

  test.each([
    ['the default one is not asked for', 'debian', '10.0.0.1'],
    ['one with a public address', 'r.example/a', '8.8.8.8'],
  ])('%s may be called', async (_, name, address) => {
    await expect(ask(name, address)).resolves.toBeUndefined()
  })

  test.each([
    ['a private address', 'r.example/a', '10.0.0.1'],
    ['the address of a cloud', 'r.example/a', '169.254.169.254'],
    ['an address that is written out', '127.0.0.1:5000/a', '8.8.8.8'],
    ['an address that is written otherwise', '0x7f.1/a', '8.8.8.8'],
    ['a name of this machine', 'localhost/a', '::1'],
  ])('one with %s may not, unless the operator lets it', async (_, name, address) => {
    await expect(ask(name, address)).rejects.toMatchObject({ reason: 'registry_refused' })
    await expect(ask(name, address, { allow: true })).resolves.toBeUndefined()
    await expect(ask(name, address, { named: name.slice(0, -2) })).resolves.toBeUndefined()
  })
})
