/** The promise: the demo key is told to who sits at the machine of a first trial, until it was used, and to nobody else. */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, postSession } from '../../test/harness/console.ts'
import { removeFolder } from '../../test/harness/leftover.ts'
import { testServer } from '../../test/harness/server.ts'
import { consoleWelcome } from '../contract/session.ts'
import { noteDemoTaken, welcomeFor, type WelcomeOptions } from './console-welcome.ts'
import { readPrivateFile, writePrivateFile } from './data-folder.ts'

test('on a server on embedded defaults: told until the first sign-in of the demo account, then only where it is', async () => {
  const server = await testServer({ handsOverDemoKey: true, runLoops: false })
  const welcome = async () => consoleWelcome.parse(JSON.parse((await ask(server.url, '/console/welcome')).text))
  const files = { keyFile: `${server.dataDir}/demo.key`, operatorKeyFile: `${server.dataDir}/operator.key` }
  expect(await welcome()).toEqual({ demoKey: server.demoKey, ...files })
  const { key } = await server.account()
  expect((await postSession(server.url, key)).status).toBe(200)
  expect((await postSession(server.url, 'nonsense')).status).toBe(401)
  expect(await welcome()).toEqual({ demoKey: server.demoKey, ...files })
  expect((await postSession(server.url, server.demoKey)).status).toBe(200)
  expect(await welcome()).toEqual(files)
  // Of another site's page it would be an address with a name of that site's.
  expect((await ask(server.url, '/console/welcome', { headers: { Host: 'rebound.example.test' } })).text).toBe('{}')
  for (const headers of [{ 'Sec-Fetch-Site': 'cross-site' }, { Origin: 'null' }] as Array<Record<string, string>>) {
    const refused = await ask(server.url, '/console/welcome', { headers })
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([403, { reason: 'cross_site' }])
  }
  await server.close()
})

test('on any other server nothing is told', async () => {
  const server = await testServer({ runLoops: false })
  expect((await ask(server.url, '/console/welcome')).text).toBe('{}')
  expect((await postSession(server.url, server.demoKey)).status).toBe(200)
  expect(readPrivateFile(server.dataDir, 'demo.taken')).toBeUndefined()
  await server.close()
})

describe('what counts as sitting at the machine', () => {
  let dataDir: string
  beforeAll(async () => {
    dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-welcome-'))
    writePrivateFile(dataDir, 'demo.key', 'the key\n')
  })
  afterAll(() => removeFolder(dataDir))

  interface Row {
    readonly options?: Partial<WelcomeOptions>
    readonly from?: string
    readonly headers?: Record<string, string>
  }
  const rows: Array<[boolean, string, Row]> = [
    [true, 'by address', {}],
    [true, 'by name', { headers: { host: 'LocalHost:8420' } }],
    [true, 'without a port', { headers: { host: 'localhost' } }],
    [true, 'over IPv6', { headers: { host: '[::1]:8420' }, from: '::1' }],
    [true, 'over IPv4 in IPv6', { from: '::ffff:127.0.0.1' }],
    [true, 'on ::1', { options: { host: '::1' } }],
    [true, 'on localhost', { options: { host: 'localhost' } }],
    [false, 'no embedded defaults', { options: { handsOverDemoKey: false } }],
    [false, 'a proxy is trusted', { options: { trustProxy: true } }],
    [false, 'on every address', { options: { host: '0.0.0.0' } }],
    [false, 'on every address of IPv6', { options: { host: '::' } }],
    [false, 'on an address of the network', { options: { host: '192.168.1.10' } }],
    [false, 'on a name that only begins so', { options: { host: 'localhost.example.test' } }],
    [false, 'from the network', { from: '192.168.1.20' }],
    [false, 'from the network in IPv6', { from: '::ffff:10.0.0.1' }],
    [false, 'under another name', { headers: { host: 'example.test:8420' } }],
    [false, 'under a name that begins so', { headers: { host: '127.0.0.1.example.test' } }],
    [false, 'under a name that ends so', { headers: { host: 'example.test:8420@localhost' } }],
    [false, 'under no name', { headers: { host: ':8420' } }],
    [false, 'through a proxy', { headers: { 'x-forwarded-for': '203.0.113.9' } }],
    [false, 'through a proxy of this machine', { headers: { 'x-forwarded-for': '127.0.0.1' } }],
    [false, 'through one that says so otherwise', { headers: { forwarded: 'for=203.0.113.9' } }],
    [false, 'through one that names the client', { headers: { 'x-real-ip': '203.0.113.9' } }],
    [false, 'through one that names itself', { headers: { via: '1.1 proxy' } }],
  ]
  test.each(rows)('%s: %s', async (isTold, _, { options = {}, from = '127.0.0.1', headers = {} }) => {
    const trial = { dataDir, shownDir: '.berth', handsOverDemoKey: true, host: '127.0.0.1', trustProxy: false }
    const server = Fastify()
    server.get('/', async (request) => welcomeFor({ ...trial, ...options }, request))
    const answer = await server.inject({
      url: '/',
      headers: { host: '127.0.0.1:8420', ...headers },
      remoteAddress: from,
    })
    expect(answer.json()).toEqual(isTold ? { demoKey: 'the key', keyFile: '.berth/demo.key' } : {})
    await server.close()
  })

  test('only the demo account takes its key', async () => {
    const options = { dataDir, shownDir: '.berth', handsOverDemoKey: true, host: '127.0.0.1', trustProxy: false }
    const server = Fastify()
    server.get('/', async (request) => welcomeFor(options, request))
    const ask = async () => (await server.inject({ url: '/', headers: { host: 'localhost' } })).json() as unknown
    noteDemoTaken(options, 'acc_other')
    expect(await ask()).toHaveProperty('demoKey')
    noteDemoTaken(options, 'demo')
    expect(await ask()).toEqual({ keyFile: '.berth/demo.key' })
    await server.close()
  })
})
