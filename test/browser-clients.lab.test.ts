/** Client libraries in a web page of another origin, in a real browser: what the key allows works, and nothing else. */
import http from 'node:http'
import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import type { Page } from 'playwright-core'
import { build } from 'rolldown'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { browserLeftOut, openOtherSite, whyNoBrowser } from './lab/browser.ts'
import { needs } from './needs.ts'

needs('browser')

/** The program of the page. Each call returns what its library gives, or the error that it throws. */
const program = `
import Anthropic from 'anthropic-sdk-0'
import OpenAI from 'openai'
import { makeClient } from 'berth-client'

const messages = [{ role: 'user', content: 'Name three rivers.' }]
const dangerouslyAllowBrowser = true
const calls = {
  openai: async (url, key, model) => {
    const client = new OpenAI({ baseURL: url + '/v1', apiKey: key, dangerouslyAllowBrowser, maxRetries: 0 })
    const { data, response } = await client.chat.completions.create({ model, messages, stream: true }).withResponse()
    let text = ''
    for await (const chunk of data) text += chunk.choices[0]?.delta.content ?? ''
    return { text, requestId: response.headers.get('x-inference-request-id'), limit: response.headers.get('x-ratelimit-limit') }
  },
  anthropic: async (url, key, model) => {
    const client = new Anthropic({ baseURL: url, apiKey: key, dangerouslyAllowBrowser, maxRetries: 0 })
    let text = ''
    for await (const event of await client.messages.create({ model, messages, max_tokens: 100, stream: true }))
      if (event.type === 'content_block_delta') text += event.delta.text
    return { text }
  },
  berth: async (url, key, model) => {
    const client = makeClient({ url, key })
    const chunks = await client.stream('createChatCompletion', { body: { model, messages, stream: true } })
    let text = ''
    for await (const chunk of chunks) text += chunk.choices[0]?.delta.content ?? ''
    const { account } = await client.call('getMe')
    return { text, requestId: chunks.requestId, account: account.id }
  },
  blind: async (url, key, model) => {
    const headers = { authorization: 'Bearer ' + key, 'content-type': 'application/json' }
    const init = { method: 'POST', headers, body: JSON.stringify({ model, messages }), credentials: 'include' }
    return { status: (await fetch(url + '/v1/chat/completions', init)).status }
  },
}
globalThis.run = async (name, ...input) => {
  try {
    return await calls[name](...input)
  } catch (error) {
    return { error: error.name, status: error.status, message: error.message }
  }
}
`

interface Outcome {
  readonly text?: string
  readonly requestId?: string
  readonly limit?: string
  readonly account?: string
  readonly error?: string
  readonly status?: number
  readonly message?: string
}

describe.skipIf(whyNoBrowser() !== undefined)(`client libraries in a web page${browserLeftOut}`, () => {
  let folder: string
  let server: TestServer
  let model: TestModel
  let customer: Awaited<ReturnType<TestServer['account']>>
  let site: http.Server
  let origin: string
  let page: Page

  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-page-'))
    server = await testServer()
    model = await serveModel(server, { behaviour: { words: 3, wordOf: (n) => ['Volga ', 'Danube ', 'Ural'][n] ?? '' } })
    customer = await server.account({ usd: '5' })
    const script = await buildPage(folder)
    site = http.createServer((request, response) => {
      const isScript = request.url === '/page.js'
      response.writeHead(200, { 'Content-Type': isScript ? 'text/javascript' : 'text/html' })
      response.end(
        isScript ? script : '<!doctype html><title>App</title><script type="module" src="/page.js"></script>',
      )
    })
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
    origin = `http://localhost:${(site.address() as AddressInfo).port}`
    page = await openOtherSite(origin)
    await page.goto('/')
    await page.waitForFunction('globalThis.run !== undefined')
  })
  afterAll(async () => {
    await page.context().close()
    await new Promise((resolve) => site.close(resolve))
    await server.close()
    await model.upstream.close()
    await removeFolder(folder)
  })

  async function createKey(allowedOrigins: readonly string[]): Promise<string> {
    const body = { name: 'for a page', scopes: ['inference'], allowedOrigins }
    return String((await customer.call('POST', '/v2/api-keys', body)).body.key)
  }

  const run = (name: 'openai' | 'anthropic' | 'berth' | 'blind', key: string): Promise<Outcome> =>
    page.evaluate(`run(${JSON.stringify(name)}, ${JSON.stringify(server.url)}, ${JSON.stringify(key)}, 'test/model')`)

  const answer = 'Volga Danube Ural'

  test.each(['openai', 'anthropic', 'berth'] as const)(
    '%s streams a chat with a key that allows the page',
    async (name) => {
      const outcome = await run(name, await createKey([origin]))
      expect(outcome).toMatchObject({ text: answer })
      expect(await run(name, await createKey(['*']))).toMatchObject({ text: answer })
    },
  )

  test('a page that the key allows sees the request id and the rate limit, and reaches the other operations', async () => {
    const key = await createKey([origin])
    const ofOpenai = await run('openai', key)
    expect([ofOpenai.requestId, ofOpenai.limit]).toEqual([
      expect.stringMatching(/^req_/),
      expect.stringMatching(/^\d+$/),
    ])
    const ofBerth = await run('berth', key)
    expect([ofBerth.requestId, ofBerth.account]).toEqual([expect.stringMatching(/^req_/), customer.id])
  })

  test.each(['openai', 'anthropic', 'berth'] as const)(
    '%s is refused with every other key, and says why',
    async (name) => {
      const before = model.upstream.requests.length
      for (const origins of [[], ['https://app.example.com']]) {
        const outcome = await run(name, await createKey(origins))
        expect([outcome.text, outcome.status]).toEqual([undefined, 403])
        expect(outcome.message).toContain(origin)
      }
      expect(await run(name, 'bk_nonsense')).toMatchObject({ status: 401 })
      expect(model.upstream.requests).toHaveLength(before)
    },
  )

  test('a page cannot send cookies along: the browser stops at the preflight', async () => {
    const before = model.upstream.requests.length
    expect(await run('blind', await createKey([origin]))).toMatchObject({ error: 'TypeError' })
    expect(model.upstream.requests).toHaveLength(before)
  })
})

/** One script for browsers, with the package that `npm run sdk` builds. */
async function buildPage(folder: string): Promise<string> {
  const sdk = path.join(folder, 'sdk')
  await promisify(execFile)(process.execPath, ['scripts/build-sdk.mjs', sdk])
  const input = path.join(folder, 'page.mjs')
  await writeFile(input, program)
  const modules = path.resolve('node_modules')
  const { output } = await build({
    input,
    platform: 'browser',
    resolve: { alias: { 'berth-client': path.join(sdk, 'client.js') }, modules: [modules] },
    write: false,
    logLevel: 'silent',
  })
  return output.find((one) => one.type === 'chunk')?.code ?? ''
}
