/** The page that turns recordings into text, in a real browser with a real server and a simulated engine. */
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { silentWav } from '../../src/base/sound/wav.ts'
import { serveModel } from '../harness/inference.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`transcription${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  beforeAll(async () => {
    browser = await openBrowser()
  })
  afterAll(() => browser.close())

  test('turns recordings that are dropped, chosen or recorded into text and subtitles', async () => {
    const listener = await serveModel(browser.server, {
      name: 'meadow/listener',
      model: {
        kind: 'transcription',
        contextTokens: null,
        maxOutputTokens: null,
        inputUsdPerMillion: undefined,
        outputUsdPerMillion: undefined,
        soundMsUsdPerMillion: '20',
      },
    })
    const { requests, behaviour } = listener.upstream
    const customer = await browser.server.account({ usd: '25' })
    const { page, look, visit, faults, close } = await browser.open(customer.key)
    await visit('/transcription', 'Transcription')
    await page.getByText('No texts yet').waitFor()
    await page.getByText('$20.00 per 1,000 seconds of sound').waitFor()
    const choose = page.getByLabel('Drop a recording here, or choose one', { exact: true })
    await page.getByLabel('Prompt').fill('Kai')

    behaviour.fault = { kind: 'status', status: 500 }
    const wav = { name: 'harbor.wav', mimeType: 'audio/wav', buffer: silentWav(2) }
    await choose.setInputFiles(wav)
    await page.getByRole('alert').waitFor()
    expect(faults()).toEqual([expect.stringMatching(/^console: Failed to load resource: .* status of 50\d/)])
    behaviour.fault = undefined
    await page.getByRole('alert').getByRole('button', { name: 'Try again' }).click()
    const texts = page.getByRole('list', { name: 'Texts of this session' })
    await texts.getByText('the harbor --> early.').waitFor()
    await texts.getByText('2.0 s · $0.04').waitFor()
    expect(requests.at(-1)?.body.toString('latin1')).toMatch(/name="prompt"\r\n\r\nKai\r\n/)
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      texts.getByRole('link', { name: 'SRT' }).click(),
    ])
    expect(download.suggestedFilename()).toBe('harbor.srt')
    expect(await readFile(await download.path(), 'utf8')).toContain('00:00:00,500 --> 00:00:01,250\nThe ship left\n')

    // A file of a format that the browser cannot read goes as it is, and the server names the fault.
    await choose.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('no sound') })
    await page.getByRole('alert').getByText(/sound/).waitFor()
    await drop(page, 'Drop a recording here', {
      name: 'ship.flac',
      bytes: readFileSync('test/fixtures/sound/ship.flac'),
    })
    await texts.getByText('ship.flac').waitFor()
    expect(await page.getByRole('alert').count()).toBe(0)
    await look('transcription')

    const before = requests.length
    await page.evaluate(`
      globalThis.allowed = navigator.mediaDevices.getUserMedia
      navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('Permission denied', 'NotAllowedError') }`)
    await page.getByRole('button', { name: 'Record', exact: true }).click()
    await page.getByText('No recording: Permission denied. Check that').waitFor()
    await page.evaluate('navigator.mediaDevices.getUserMedia = allowed')
    await page.getByRole('button', { name: 'Record', exact: true }).click()
    await page.getByRole('timer').filter({ hasText: '0:01' }).waitFor()
    await page.getByRole('button', { name: 'Discard' }).click()
    await page.getByRole('button', { name: 'Record', exact: true }).click()
    await page.getByRole('timer').filter({ hasText: '0:01' }).waitFor()
    await page.getByRole('button', { name: 'Stop and transcribe' }).click()
    await texts.getByText('recording.wav').waitFor()
    expect(requests).toHaveLength(before + 1)
    // What was recorded is sound: the beeps of the browser's microphone.
    const sent = requests.at(-1)?.body ?? Buffer.alloc(0)
    const data = sent.subarray(sent.indexOf('data', sent.indexOf('WAVEfmt ')) + 8)
    const loudest = Math.max(...Array.from({ length: 16_000 }, (_, at) => Math.abs(data.readInt16LE(at * 2))))
    expect(loudest).toBeGreaterThan(1_000)
    await page.getByRole('button', { name: 'Copy as code' }).click()
    await page.getByRole('region', { name: 'Request in curl' }).getByText('/v1/audio/transcriptions').waitFor()
    await page.getByRole('button', { name: 'Close' }).click()
    await close()
    await listener.upstream.close()
  })
})

/** Drops a file on the group of this name, as a user who drags it from another window does. */
async function drop(page: Page, group: string, { name, bytes }: { name: string; bytes: Buffer }): Promise<void> {
  const base64 = bytes.toString('base64')
  const transfer = await page.evaluateHandle(`
    (() => {
      const bytes = Uint8Array.from(atob('${base64}'), (character) => character.codePointAt(0))
      const transfer = new DataTransfer()
      transfer.items.add(new File([bytes], '${name}'))
      return transfer
    })()`)
  const target = page.getByRole('group', { name: group })
  for (const event of ['dragover', 'drop']) await target.dispatchEvent(event, { dataTransfer: transfer })
}
