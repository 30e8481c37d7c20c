/** Batches for tests: lines, the files that they come from and go to, and what they cost. */
import { expect } from 'vitest'
import type { Reply } from '../../src/client/client.ts'
import { hasBatchEnded, type Batch } from '../../src/view/batch.ts'
import type { Call } from './server.ts'
import { waitFor } from './wait.ts'

/** Prices of a model of which a batch pays half: these nano-dollars per token. */
export const batchModelPrices = { inputUsdPerMillion: '0.004', outputUsdPerMillion: '0.006' }
const [BATCH_INPUT, BATCH_OUTPUT] = [2, 3]

interface Body {
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
  readonly data: ReadonlyArray<{ readonly object: string }>
}

export interface ResultLine {
  readonly id: string
  readonly custom_id: string
  readonly response: { readonly status_code: number; readonly request_id: string; readonly body: Body } | null
  readonly error: { readonly code: string; readonly message: string } | null
}

export const chatLine = (id: number, more: object = {}, url = '/v1/chat/completions') => ({
  custom_id: `line-${id}`,
  method: 'POST',
  url,
  body: { model: 'chatter', messages: [{ role: 'user', content: `question ${id}` }], ...more },
})

export const linesText = (lines: readonly unknown[]): string => lines.map((line) => JSON.stringify(line)).join('\n')

export function readResultLines(text: string): ResultLine[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ResultLine)
}

export async function createBatch(call: Call, lines: readonly unknown[] | string, more: object = {}): Promise<Batch> {
  const form = new FormData()
  form.set('file', new Blob([typeof lines === 'string' ? lines : linesText(lines)]), 'lines.jsonl')
  form.set('purpose', 'batch')
  const file = await call('POST', '/v1/files', form)
  const body = { input_file_id: file.body.id, endpoint: '/v1/chat/completions', completion_window: '24h', ...more }
  const batch = await call('POST', '/v1/batches', body)
  expect([batch.status, batch.body.status]).toEqual([200, 'validating'])
  return batch.body
}

export async function readBatch(call: Call, id: string): Promise<Batch> {
  return (await call('GET', `/v1/batches/${id}`)).body
}

export function endOfBatch(call: Call, id: string, timeoutMs?: number): Promise<Batch> {
  return waitFor(
    `${id} to end`,
    async () => {
      const batch = await readBatch(call, id)
      return hasBatchEnded(batch) && batch
    },
    timeoutMs,
  )
}

export async function resultsOf(
  { url, key }: { readonly url: string; readonly key: string },
  batch: Pick<Reply<'getBatch'>, 'output_file_id' | 'error_file_id'>,
): Promise<{ output: ResultLine[]; errors: ResultLine[] }> {
  const contentOf = async (id: string | null): Promise<ResultLine[]> => {
    if (id === null) return []
    const reply = await fetch(`${url}/v1/files/${id}/content`, { headers: { Authorization: `Bearer ${key}` } })
    return readResultLines(await reply.text())
  }
  return { output: await contentOf(batch.output_file_id), errors: await contentOf(batch.error_file_id) }
}

/** In nano-dollars, at the prices above. */
export function batchCost(output: readonly ResultLine[]): number {
  return output.reduce((sum, { response }) => {
    const { prompt_tokens: input = 0, completion_tokens: words = 0 } = response?.body.usage ?? {}
    return sum + input * BATCH_INPUT + words * BATCH_OUTPUT
  }, 0)
}
