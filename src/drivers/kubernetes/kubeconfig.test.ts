import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readKubeconfig, readServiceAccount } from './kubeconfig.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-kubeconfig-'))
})
afterEach(() => rm(folder, { recursive: true }))

const write = async (user: object, cluster: object = {}, more: object = {}): Promise<string> => {
  const file = path.join(folder, 'config')
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://cluster.example:6443/', ...cluster } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
    ...more,
  }
  await writeFile(file, JSON.stringify(config))
  return file
}

test('reads certificates from the file and beside it', async () => {
  await writeFile(path.join(folder, 'ca.crt'), 'the authority')
  const data = Buffer.from('the certificate').toString('base64')
  const file = await write(
    { 'client-certificate-data': data, 'client-key-data': data },
    { 'certificate-authority': 'ca.crt', 'tls-server-name': 'kubernetes' },
  )
  const access = await readKubeconfig(file)
  expect(access.server).toBe('https://cluster.example:6443')
  expect(access.tls).toEqual({
    ca: 'the authority',
    cert: 'the certificate',
    key: 'the certificate',
    servername: 'kubernetes',
  })
  expect(await access.token()).toBeUndefined()
})

test('reads a token again when the server has rejected the old one', async () => {
  await writeFile(path.join(folder, 'token'), 'old\n')
  const access = await readKubeconfig(await write({ tokenFile: 'token' }))
  expect(await access.token()).toBe('old')
  await writeFile(path.join(folder, 'token'), 'new\n')
  expect(await access.token()).toBe('old')
  expect(await access.token('fresh')).toBe('new')
  expect(await access.token()).toBe('new')
})

test('uses the service account of its own pod', async () => {
  await writeFile(path.join(folder, 'ca.crt'), 'the authority')
  await writeFile(path.join(folder, 'token'), 'its token')
  const access = await readServiceAccount('https://10.96.0.1:443', folder)
  expect([access.server, access.tls, await access.token()]).toEqual([
    'https://10.96.0.1:443',
    { ca: 'the authority' },
    'its token',
  ])
  await expect(readServiceAccount(undefined, folder)).rejects.toThrow('does not run in a cluster')
})

test.each([
  ['a program that prints credentials', { exec: { command: 'aws' } }, {}, {}, 'exec'],
  ['a password', { username: 'me', password: 'hunter2' }, {}, {}, 'username'],
  ['no credentials', {}, {}, {}, 'neither a token nor a client certificate'],
  ['an unchecked certificate', { token: 't' }, { 'insecure-skip-tls-verify': true }, {}, 'insecure-skip-tls-verify'],
  ['plain HTTP', { token: 't' }, { server: 'http://cluster.example' }, {}, 'https'],
  ['a context that does not exist', { token: 't' }, {}, { 'current-context': 'y' }, 'no context named y'],
  ['no current context', { token: 't' }, {}, { 'current-context': '' }, 'no current context'],
])('refuses %s', async (_, user, cluster, more, message) => {
  const reading = readKubeconfig(await write(user, cluster, more))
  await expect(reading).rejects.toThrow(message)
  await expect(reading).rejects.not.toThrow('hunter2')
})

test('a file that is not YAML is refused without a quote from it', async () => {
  const file = path.join(folder, 'config')
  await writeFile(file, '{"token": "hunter2')
  await expect(readKubeconfig(file)).rejects.toThrow('neither YAML nor JSON')
})
