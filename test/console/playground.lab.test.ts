/** The model pages in a real browser with a real server and simulated engines. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import sharp from 'sharp'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { formatUsdForPeople, nanoUsdOf } from '../../src/base/money.ts'
import { startModelServer } from '../sim/model-server.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { NANO_PER_INPUT, NANO_PER_OUTPUT, serveModel, type TestModel } from '../harness/inference.ts'
import { startReceiver } from '../harness/receiver.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

const answer = [
  'The three longest rivers of Europe are the Volga, the Danube and the Ural.\n\n',
  'As a list in TypeScript:\n\n',
  '```ts\n',
  "const rivers = ['Volga', 'Danube', 'Ural']\n",
  '```\n\n',
  'The Volga alone is 3,531 km long, and <b>none</b> of this is markup.',
]
const usual = { words: answer.length, wordOf: (n: number) => answer[n] ?? `word${n} `, intervalMs: 0 }

describe.skipIf(whyNoBrowser() !== undefined)(`calling models${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let model: TestModel
  let customer: Awaited<ReturnType<ConsoleBrowser['server']['account']>>

  beforeAll(async () => {
    browser = await openBrowser()
    customer = await browser.server.account({ usd: '25' })
  })
  afterAll(async () => {
    await model.upstream.close()
    await browser.close()
  })

  /** The cost of the last request, from the API. */
  async function lastCost(): Promise<{ requestId: string; text: string }> {
    const { requestId } = await lastLogged()
    const { body } = await customer.call('POST', '/v2/usage/request-cost', { requestIds: [requestId] })
    const nano = BigInt((body.requests as Array<{ costNanoUsd: number }>)[0]?.costNanoUsd ?? -1)
    return { requestId, text: formatUsdForPeople(nanoUsdOf(nano)) }
  }

  async function lastLogged(): Promise<{
    requestId: string
    outcome: string
    inputUnits: number
    outputUnits: number
  }> {
    const { body } = await customer.call('GET', '/v2/usage/requests?limit=1')
    return body.requests[0]
  }

  test('explains to customers and operators that there is no model', async () => {
    const plain = await browser.open(customer.key)
    await plain.visit('/chat', 'Chat')
    await plain.page.getByText('No chat model available').waitFor()
    await plain.look('chat-empty')
    await plain.visit('/requests', 'Requests')
    await plain.page.getByText('No requests yet').waitFor()
    await plain.look('requests-empty')
    await plain.close()
    const operator = await browser.open(browser.server.operatorKey)
    await operator.visit('/images', 'Images')
    expect(await operator.page.getByRole('link', { name: 'Add model' }).getAttribute('href')).toBe('/operator/models')
    await operator.close()
    model = await serveModel(browser.server, { name: 'meadow/rivers-8b', behaviour: usual })
    await browser.server.operator('POST', '/v2/operator/models', {
      name: 'meadow/rivers-70b',
      kind: 'chat',
      contextTokens: 131_072,
      inputUsdPerMillion: '0.4',
      outputUsdPerMillion: '0.8',
    })
  })

  test('streams an answer with tokens and cost; the copied code runs', async () => {
    const { page, look, close } = await browser.open(customer.key)
    await page.goto('/chat?model=meadow/rivers-8b')
    await page.getByLabel('System prompt').fill('You know geography.')
    await page.getByLabel('Temperature').fill('3')
    await page.getByText('Must be a number from 0 to 2').waitFor()
    await page.getByLabel('Message').fill("Which are Europe's longest rivers?")
    expect(await page.getByRole('button', { name: 'Send' }).isDisabled()).toBe(true)
    await page.getByLabel('Temperature').fill('0.7')
    await page.getByLabel('Message').press('Enter')
    const log = page.getByRole('log')
    await log.getByText('<b>none</b> of this is markup.').waitFor()
    expect(await log.locator('pre').innerText()).toBe("const rivers = ['Volga', 'Danube', 'Ural']")
    const sent = JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '{}') as Record<string, unknown>
    expect(sent).toMatchObject({
      temperature: 0.7,
      messages: [
        { role: 'system', content: 'You know geography.' },
        { role: 'user', content: "Which are Europe's longest rivers?" },
      ],
    })
    const { inputUnits, outputUnits } = await waitFor('it is in the log', () => lastLogged())
    const { text } = await lastCost()
    expect(text).toBe(
      formatUsdForPeople(nanoUsdOf(BigInt(inputUnits * NANO_PER_INPUT + outputUnits * NANO_PER_OUTPUT))),
    )
    await log.getByText(`${inputUnits} tokens in · ${answer.length} out`).waitFor()
    await log.getByText(text, { exact: true }).waitFor()
    await page.getByText(`1 question, ${text} in total`).waitFor()
    await look('chat')

    await page.getByLabel('Message').fill('And "the" $HOME of `them`?\nIt\'s a question.')
    await page.getByRole('button', { name: 'Copy as code' }).click()
    await look('chat-code')
    await expectDuring(page.getByText('Copied'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Copy', exact: true }).click(),
    )
    const code = (await page.evaluate('navigator.clipboard.readText()')) as string
    const env = { ...process.env, BERTH_KEY: customer.key }
    const { stdout } = await promisify(execFile)('bash', ['-c', code], { env })
    expect(stdout).toContain('data: [DONE]')
    const ran = JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '{}') as { messages: unknown[] }
    expect(ran.messages.at(-1)).toEqual({ role: 'user', content: 'And "the" $HOME of `them`?\nIt\'s a question.' })
    expect(ran.messages).toHaveLength(4)
    await page.getByRole('tab', { name: 'Python' }).click()
    await page.getByRole('region', { name: 'Request in Python' }).getByText('from openai import OpenAI').waitFor()
    for (const [protocol, call] of [
      ['Anthropic Messages', 'client.messages.create('],
      ['OpenAI Responses', 'client.responses.create('],
    ] as const) {
      await page.getByLabel('Protocol').selectOption(protocol)
      await page.getByRole('region', { name: 'Request in Python' }).getByText(call).waitFor()
    }
    await look('chat-code-responses')
    await page.getByRole('tab', { name: 'curl' }).click()
    const byResponses = await page.getByRole('region', { name: 'Request in curl' }).textContent()
    const byCurl = /^curl[^]*'$/m.exec(byResponses ?? '')?.[0] ?? ''
    expect((await promisify(execFile)('bash', ['-c', byCurl], { env })).stdout).toContain('response.completed')
    await page.getByRole('button', { name: 'Close' }).click()
    // Without a draft it is the last request, which contains the question once.
    await page.getByLabel('Message').fill('')
    await page.getByRole('button', { name: 'Copy as code' }).click()
    const shown = await page.getByRole('region', { name: 'Request in curl' }).textContent()
    expect(shown?.match(/"role": ?"user"/g)).toHaveLength(1)
    await page.getByRole('button', { name: 'Close' }).click()
    await close()
  })

  test('stops, edits and repeats an answer, and shows failures in place', async () => {
    const { page, look, faults, close } = await browser.open(customer.key)
    const { behaviour, requests } = model.upstream
    await page.goto('/chat?model=meadow/rivers-8b')
    Object.assign(behaviour, { words: 4_000, wordOf: (n: number) => `part${n} `, intervalMs: 10 })
    await page.getByLabel('Message').fill('Tell me everything.')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText('part1 ').waitFor()
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText('Stopped · ').waitFor()
    await waitFor('the request to be cancelled', () => requests.at(-1)?.abortedAt)
    await waitFor('it is in the log as left', async () => (await lastLogged()).outcome === 'cut')
    await page
      .getByRole('log')
      .getByText((await lastCost()).text, { exact: true })
      .waitFor()

    Object.assign(behaviour, usual)
    await page.getByRole('button', { name: 'Edit question' }).click()
    expect(await page.getByLabel('Message').inputValue()).toBe('Tell me everything.')
    expect(await page.getByText('Stopped').count()).toBe(0)
    behaviour.faultsOnce.push({ kind: 'reset', afterEvents: 2 })
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByRole('alert').waitFor()
    await page.getByText('The three longest rivers').waitFor()
    await look('chat-broken')
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click()
    await page.getByText('of this is markup.').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)

    behaviour.fault = { kind: 'status', status: 500 }
    await page.getByLabel('Message').fill('Once more?')
    await page.getByLabel('Message').press('Enter')
    await page.getByRole('alert').waitFor()
    // The browser logs each error status.
    expect(faults()).toEqual([expect.stringMatching(/^console: Failed to load resource: .* status of 50\d/)])
    behaviour.fault = undefined
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.getByText('Ask a question').waitFor()

    await page.getByLabel('Model', { exact: true }).selectOption('meadow/rivers-70b')
    await page.waitForURL(/model=meadow/)
    await page.getByText('This model is not running.').waitFor()
    await close()
  })

  test('chat fits a phone', async () => {
    const { page, look, close } = await browser.open(customer.key, { width: 390, height: 844 })
    await page.goto('/chat?model=meadow/rivers-8b')
    await page.getByLabel('Message').fill('Which are the longest rivers of Europe?')
    await page.getByRole('button', { name: 'Send' }).click()
    await page.getByText(/1 question, <?\$\d/).waitFor()
    await look('chat-narrow')
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(390)
    await close()
  })

  test('keeps conversations in the browser, and asks two models side by side', async () => {
    const other = await serveModel(browser.server, { name: 'meadow/lakes-8b', behaviour: usual })
    const { page, look, visit, close } = await browser.open(customer.key, { width: 1440, height: 900 })
    await visit('/chat?model=meadow/rivers-8b', 'Chat')
    await page.getByLabel('Message').fill('Where does the Danube end?')
    await page.getByLabel('Message').press('Enter')
    await page.getByText(/1 question, <?\$\d/).waitFor()
    await page.reload()
    await page.getByText('Ask a question').waitFor()
    const kept = page.getByRole('list', { name: 'Conversations' }).getByRole('button')
    await kept.click()
    await page.getByRole('log').getByText('of this is markup.').waitFor()
    await page.getByRole('button', { name: 'New', exact: true }).click()
    await page.getByText('Ask a question').waitFor()
    await page.getByLabel('Compare with').selectOption('meadow/lakes-8b')
    await page.waitForURL(/with=meadow/)
    await page.getByLabel('Message').fill('And the Rhine?')
    await page.getByLabel('Message').press('Enter')
    const second = page.getByRole('log', { name: 'Conversation with meadow/lakes-8b' })
    await second.getByText('of this is markup.').waitFor()
    expect(await page.getByRole('log').count()).toBe(2)
    expect(other.upstream.requests).toHaveLength(1)
    await kept.nth(1).waitFor()
    await look('chat-compare')
    await page.getByRole('button', { name: 'Delete all' }).click()
    await kept.first().waitFor({ state: 'detached' })
    await page.reload()
    await page.getByText('Ask a question').first().waitFor()
    expect(await kept.count()).toBe(0)
    await close()
  })

  test('lists requests, with texts once the account stores them', async () => {
    const { page, look, visit, close } = await browser.open(customer.key)
    await visit('/requests', 'Requests')
    const rows = page.getByRole('table', { name: 'Requests' }).getByRole('row')
    await rows.nth(1).waitFor()
    await look('requests')
    await page.getByRole('cell', { name: 'Responses' }).waitFor()
    await page.getByLabel('Protocol').selectOption('Responses')
    await page.waitForURL(/operation=responses/)
    await waitFor('the one of that protocol, alone', async () => (await rows.count()) === 2)
    await look('requests-by-protocol')
    await page.getByLabel('Protocol').selectOption('All protocols')
    await page.getByLabel('Sent').selectOption('In a batch')
    await page.getByText('No requests match').waitFor()
    await page.getByLabel('Sent').selectOption('Alone or in a batch')
    await page.getByLabel('Outcome').selectOption('cut')
    await page.waitForURL(/outcome=cut/)
    expect(await waitFor('the one that was left, alone', async () => (await rows.count()) === 2)).toBe(true)
    await page.getByRole('button', { name: 'Details' }).click()
    await page.getByText('This account does not store').waitFor()
    await expectDuring(page.getByText('Request texts are now stored'), () =>
      page.getByRole('button', { name: 'Store texts from now on' }).click(),
    )
    await page.getByRole('button', { name: 'Close' }).click()
    const { headers } = await customer.call('POST', '/v1/chat/completions', {
      model: model.name,
      messages: [{ role: 'user', content: 'Is this kept?' }],
    })
    const requestId = headers.get('x-inference-request-id')
    const isLogged = async (): Promise<boolean> =>
      (await customer.call('GET', `/v2/usage/requests/${requestId}`)).status === 200
    await waitFor('it is in the log', isLogged)
    await page.goto(`/requests?request=${requestId}`)
    await page.getByRole('region', { name: 'Request body' }).getByText('Is this kept?').waitFor()
    await look('requests-details')
    await close()
  })

  test('generates an image with progress, cost, seed and download, and can stop', async () => {
    const painter = await startReceiver()
    const apple = await drawApple()
    painter.answer = ({ body }, response) => {
      if (body === '') return void response.end()
      const { seed } = JSON.parse(body) as { seed: number }
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ images: [apple], info: JSON.stringify({ seed: seed === -1 ? 7 : seed }) }))
    }
    await browser.server.operator('POST', '/v2/operator/models', {
      name: 'meadow/painter',
      kind: 'image',
      pixelStepUsdPerMillion: '0.001',
    })
    const deployment = { model: 'meadow/painter', url: painter.url, protocol: 'txt2img' }
    await browser.server.operator('POST', '/v2/operator/deployments', deployment)
    const { page, look, visit, close } = await browser.open(customer.key)
    await visit('/images', 'Images')
    await page.getByText('No images yet').waitFor()
    await page.getByLabel('Prompt', { exact: true }).fill('a red apple')
    await page.getByLabel('Steps').fill('1000')

    // Other servers do not report steps, so the first image comes from an engine with our own protocol.
    const engine = await startModelServer({ behaviour: { intervalMs: 60 } })
    const path = '/v1/image/generation'
    await page.route(`**${path}`, (route) => route.continue({ url: `http://${engine.host}:${engine.port}${path}` }))
    await page.getByRole('button', { name: 'Generate' }).click()
    await page.getByText(/^Step \d+ of 1000$/).waitFor()
    await look('images-progress')
    await page.getByRole('button', { name: 'Stop' }).click()
    await page.getByText(/Stopped after \d+ step/).waitFor()
    await waitFor('the request to be cancelled', () => engine.requests.at(-1)?.abortedAt)
    await page.unroute(`**${path}`)
    await engine.close()

    await page.getByLabel('Steps').fill('20')
    await page.getByLabel('Seed').fill('11')
    // 512 × 512 pixels in 20 steps, at one nano-dollar each.
    await page.getByText('Costs $0.0052').waitFor()
    await page.getByRole('button', { name: 'Generate' }).click()
    const image = page.getByRole('img', { name: 'a red apple' })
    await image.waitFor()
    const widthOf = (): Promise<number> => image.evaluate((one: { naturalWidth: number }) => one.naturalWidth)
    expect(await waitFor('the image to load', async () => (await widthOf()) || undefined)).toBe(512)
    await page.getByText('$0.0052', { exact: true }).waitFor()
    const downloading = page.waitForEvent('download')
    await page.getByRole('link', { name: 'Download' }).click()
    expect((await downloading).suggestedFilename()).toBe('image-11.png')
    await page.getByRole('button', { name: 'Try another seed' }).click()
    const gallery = page.getByRole('list', { name: 'Images' }).getByRole('button')
    await gallery.nth(1).waitFor()
    const [, first] = painter.received
      .filter(({ body }) => body !== '')
      .map(({ body }) => JSON.parse(body).seed as number)
    expect(first).not.toBe(11)
    await look('images')
    // They are kept in the browser.
    await page.reload()
    await gallery.nth(1).waitFor()
    await page.getByRole('button', { name: 'Delete all' }).click()
    await page.getByText('No images yet').waitFor()
    await page.reload()
    await page.getByText('No images yet').waitFor()
    await close()
    await painter.close()
  })

  test('turns text into speech billed per character, and retries a failure', async () => {
    const voice = await serveModel(browser.server, {
      name: 'meadow/voice',
      model: {
        kind: 'speech',
        contextTokens: null,
        maxOutputTokens: null,
        inputUsdPerMillion: undefined,
        outputUsdPerMillion: undefined,
        characterUsdPerMillion: '5',
      },
    })
    const { page, look, visit, faults, close } = await browser.open(customer.key)
    await visit('/speech', 'Speech')
    await page.getByRole('textbox', { name: 'Text' }).fill('The ship is in the harbour.')
    await page.getByText('27 of 100,000 characters').waitFor()
    await page.getByLabel('Speed').fill('9')
    await page.getByText('Must be a number from 0.1 to 5').waitFor()
    await page.getByLabel('Speed').fill('1.25')
    await page.getByLabel('Voice', { exact: true }).selectOption('neural: American, male')
    voice.upstream.behaviour.fault = { kind: 'status', status: 500 }
    await page.getByRole('button', { name: 'Generate' }).click()
    await page.getByRole('alert').waitFor()
    expect(faults()).toEqual([expect.stringMatching(/^console: Failed to load resource: .* status of 50\d/)])
    voice.upstream.behaviour.fault = undefined
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click()
    const player = page.getByRole('list', { name: 'Recordings of this session' }).locator('audio')
    await player.waitFor()
    const secondsOf = (): Promise<number> => player.evaluate((one: { duration: number }) => one.duration)
    expect(await waitFor('the player to know', async () => (await secondsOf()) || undefined)).toBeGreaterThan(0.5)
    // 27 characters at 5,000 nano-dollars.
    await page.getByText('$0.0001', { exact: true }).waitFor()
    expect(JSON.parse(voice.upstream.requests.at(-1)?.body.toString() ?? '')).toMatchObject({
      voice: 'neural',
      speed: 1.25,
    })
    await look('speech')
    await close()
    await voice.upstream.close()
  })
})

async function drawApple(): Promise<string> {
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="512" height="512"><rect width="512" height="512" fill="#f4efe6"/>
    <path d="M256 170c-60-50-150-20-150 80 0 100 80 190 150 160 70 30 150-60 150-160 0-100-90-130-150-80z" fill="#c8322b"/>
    <path d="M256 175c-4-40 6-70 30-95" stroke="#5b3a1e" stroke-width="14" fill="none" stroke-linecap="round"/>
    <path d="M282 110c30-40 80-40 110-20-30 40-80 45-110 20z" fill="#4f8a3a"/></svg>`
  return (await sharp(Buffer.from(svg)).png().toBuffer()).toString('base64')
}
