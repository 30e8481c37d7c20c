/** Batches in the console: a file is uploaded and run, followed, cancelled, and its answers are downloaded. */
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserLeftOut, expectDuring, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { serveModel, type TestModel } from '../harness/inference.ts'
import type { Call } from '../harness/server.ts'
import { needs } from '../needs.ts'

needs('browser')

const request = (id: number, body: object = {}) => ({
  custom_id: `line-${id}`,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'house/chatter', messages: [{ role: 'user', content: `question ${id}` }], ...body },
})
const fileOf = (name: string, lines: readonly unknown[]) => ({
  name,
  mimeType: 'application/jsonl',
  buffer: Buffer.from(lines.map((line) => JSON.stringify(line)).join('\n')),
})
const picture = { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a' } }] }] }

describe.skipIf(whyNoBrowser() !== undefined)(`batches${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let chat: TestModel
  let slow: TestModel
  let customer: { id: string; key: string; call: Call }

  beforeAll(async () => {
    browser = await openBrowser()
    chat = await serveModel(browser.server, { name: 'house/chatter' })
    slow = await serveModel(browser.server, { name: 'house/slow', deployment: { concurrency: 5 } })
    slow.upstream.behaviour.latencyMs = 500
    customer = await browser.server.account({ usd: '1' })
  })
  afterAll(async () => {
    await Promise.all([chat, slow].map((model) => model?.upstream.close()))
    await browser.close()
  })

  test('a customer runs a file, sees its progress and cost, and downloads answers and errors', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    await visit('/batches', 'Batches')
    await page.getByText('No batches yet').waitFor()
    await look('batches-empty')
    await page.getByRole('button', { name: 'Run a batch' }).first().click()
    const dialog = page.getByRole('dialog', { name: 'Run a batch' })
    await dialog.getByRole('button', { name: 'Run', exact: true }).click()
    await dialog.getByText('Choose a file').waitFor()
    await dialog.getByLabel('File').setInputFiles(fileOf('wrong.jsonl', [{ ...request(1), url: '/v1/moderations' }]))
    await dialog.getByText('of its first line must be one of', { exact: false }).waitFor()
    await look('batches-run')
    await dialog.getByLabel('File').setInputFiles(fileOf('mixed.jsonl', [request(1), request(2, picture), request(3)]))
    await expectDuring(page.getByText('Batch created'), () =>
      dialog.getByRole('button', { name: 'Run', exact: true }).click(),
    )
    await page.getByRole('heading', { level: 1, name: /^batch_/ }).waitFor()
    await page.getByText('Completed').waitFor()
    await page.getByText('3 of 3').waitFor()
    await look('batch')
    const contentOf = async (name: string): Promise<string> => {
      const [download] = await Promise.all([
        page.waitForEvent('download'),
        page.getByRole('link', { name, exact: true }).click(),
      ])
      return readFile(await download.path(), 'utf8')
    }
    expect((await contentOf('Answers')).match(/"custom_id":"line-[13]"/g)).toHaveLength(2)
    expect(await contentOf('Errors')).toContain('"custom_id":"line-2"')
    const [batch] = (await customer.call('GET', '/v1/batches')).body.data
    expect(batch).toMatchObject({ status: 'completed', request_counts: { total: 3, completed: 2, failed: 1 } })
    await close()
  })

  test('names the lines that are wrong, and cancels a batch that runs', async () => {
    const { page, visit, look, close } = await browser.open(customer.key)
    const run = async (file: ReturnType<typeof fileOf>): Promise<void> => {
      await visit('/batches', 'Batches')
      await page.getByRole('button', { name: 'Run a batch' }).first().click()
      await page.getByLabel('File').setInputFiles(file)
      await page.getByRole('dialog').getByRole('button', { name: 'Run', exact: true }).click()
      await page.getByRole('heading', { level: 1, name: /^batch_/ }).waitFor()
    }
    await run(fileOf('twice.jsonl', [request(1), request(1)]))
    await page.getByRole('table', { name: 'Faults' }).getByText('custom_id', { exact: true }).waitFor()
    await look('batch-failed')
    const lines = Array.from({ length: 100 }, (_, id) => request(id, { model: 'house/slow' }))
    await run(fileOf('long.jsonl', lines))
    await page.getByText(/^[1-9]\d* of 100$/).waitFor()
    await visit('/batches', 'Batches')
    await page.getByRole('progressbar').waitFor()
    await look('batches')
    await page.setViewportSize({ width: 390, height: 844 })
    await look('batches-390')
    await page.setViewportSize({ width: 1280, height: 800 })
    await page.getByRole('button', { name: 'Cancel batch_', exact: false }).click()
    await expectDuring(page.getByText('The batch is being cancelled'), () =>
      page.getByRole('dialog').getByRole('button', { name: 'Cancel batch' }).click(),
    )
    await page.getByRole('table', { name: 'Batches' }).getByText('Cancelled').waitFor()
    const [batch] = (await customer.call('GET', '/v1/batches')).body.data
    expect(batch).toMatchObject({ status: 'cancelled', request_counts: { total: 100 } })
    await close()
  })
})
