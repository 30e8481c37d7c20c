/** The demo key goes once to whoever opens the printed link; the paths of the key files are shown on this machine only. */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import Fastify from 'fastify'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ask, consoleHeaders, postSession } from '../../../test/harness/console.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { testServer } from '../../../test/harness/server.ts'
import { DAY_MS, systemClock } from '../../base/instant.ts'
import { consoleWelcome } from '../../contract/session-body.ts'
import { isDemoTaken, noteDemoTaken, openDemoLink, welcomeFor, type WelcomeOptions } from './console-welcome.ts'
import { readPrivateFile, writePrivateFile } from '../data/data-folder.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { makeDemoLink } from './demo-link.ts'

const openLink = (url: string, token: string, headers: Record<string, string> = {}) =>
  ask(url, '/console/welcome', { method: 'POST', headers: { ...consoleHeaders, ...headers }, body: { token } })

test('gives the demo key once to the browser that opens the printed link', async () => {
  const server = await testServer({ isTrial: true, runLoops: false })
  const files = { keyFile: `${server.dataDir}/demo.key`, operatorKeyFile: `${server.dataDir}/operator.key` }
  const welcomeWith = async (headers: Record<string, string> = {}) =>
    consoleWelcome.parse(JSON.parse((await ask(server.url, '/console/welcome', { headers })).text))
  expect(await welcomeWith()).toEqual(files)
  // A proxy that rewrites the host name and adds no header looks like this machine; it gets no key.
  expect(await welcomeWith({ Host: 'localhost' })).toEqual(files)
  expect(await welcomeWith({ Host: 'rebound.example.test' })).toEqual({})
  for (const headers of [{ 'Sec-Fetch-Site': 'cross-site' }, { Origin: 'null' }] as Array<Record<string, string>>) {
    const refused = await ask(server.url, '/console/welcome', { headers })
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([403, { reason: 'cross_site' }])
  }

  const token = server.demoLinkToken ?? ''
  for (const wrong of ['x', `${token.slice(0, -1)}!`, server.demoKey]) {
    const refused = await openLink(server.url, wrong)
    expect([refused.status, JSON.parse(refused.text)]).toMatchObject([403, { reason: 'link_used' }])
  }
  const crossSite = await openLink(server.url, token, { Origin: 'https://elsewhere.example' })
  expect([crossSite.status, JSON.parse(crossSite.text)]).toMatchObject([403, { reason: 'cross_site' }])
  const opened = await openLink(server.url, token, { Host: 'gpu.example.test', 'X-Forwarded-For': '203.0.113.9' })
  expect([opened.status, JSON.parse(opened.text)]).toEqual([200, { ...files, demoKey: server.demoKey }])
  expect((await openLink(server.url, token)).status).toBe(403)
  await server.close()
})

test('expires the link after a day, and after a sign-in with the demo key', async () => {
  const clock = manualClock()
  const link = makeDemoLink(clock)
  clock.advance(DAY_MS)
  expect(link.redeem(link.token)).toBe(false)
  const server = await testServer({ isTrial: true, runLoops: false })
  expect((await postSession(server.url, server.demoKey)).status).toBe(200)
  expect((await openLink(server.url, server.demoLinkToken ?? '')).status).toBe(403)
  await server.close()
})

test('shows nothing on other servers', async () => {
  const server = await testServer({ runLoops: false })
  expect((await ask(server.url, '/console/welcome')).text).toBe('{}')
  expect((await postSession(server.url, server.demoKey)).status).toBe(200)
  expect(readPrivateFile(server.dataDir, 'demo.taken')).toBeUndefined()
  await server.close()
})

describe('local access', () => {
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
    [false, 'no embedded defaults', { options: { isTrial: false } }],
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
    const trial = {
      dataDir,
      shownDir: '.berth',
      isTrial: true,
      demoLink: undefined,
      host: '127.0.0.1',
      trustProxy: false,
    }
    const server = Fastify()
    server.get('/', async (request) => welcomeFor({ ...trial, ...options }, request))
    const answer = await server.inject({
      url: '/',
      headers: { host: '127.0.0.1:8420', ...headers },
      remoteAddress: from,
    })
    expect(answer.json()).toEqual(isTold ? { keyFile: '.berth/demo.key' } : {})
    await server.close()
  })

  test('only the demo account uses up the link', () => {
    const demoLink = makeDemoLink(systemClock)
    const options = { dataDir, shownDir: '.berth', isTrial: true, demoLink, host: '127.0.0.1', trustProxy: false }
    noteDemoTaken(options, 'acc_other')
    expect(isDemoTaken(dataDir)).toBe(false)
    noteDemoTaken(options, 'demo')
    expect(isDemoTaken(dataDir)).toBe(true)
    expect(openDemoLink(options, demoLink.token)).toBeUndefined()
  })
})
