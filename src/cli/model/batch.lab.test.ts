/** `berth batches` and `berth files`: a file of requests becomes files of results, and whoever leaves finds them again. */
import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { serveModel, type TestModel } from '../../../test/harness/inference.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let chat: TestModel
let slow: TestModel

beforeAll(async () => {
  cli = await startCliTest()
  chat = await serveModel(cli.server, { name: 'house/chatter' })
  slow = await serveModel(cli.server, { name: 'house/slow', deployment: { concurrency: 5 } })
  slow.upstream.behaviour.latencyMs = 300
})
afterAll(async () => {
  await Promise.all([chat, slow].map(({ upstream }) => upstream.close()))
  await cli.close()
})

interface Line {
  readonly custom_id: string
}

const at = (name: string): string => path.join(cli.folder, name)
const request = (id: number, body: object = {}) => ({
  custom_id: `line-${id}`,
  method: 'POST',
  url: '/v1/chat/completions',
  body: { model: 'house/chatter', messages: [{ role: 'user', content: `question ${id}` }], ...body },
})
async function writeLines(name: string, lines: readonly unknown[]): Promise<string> {
  const file = at(name)
  await writeFile(file, lines.map((line) => JSON.stringify(line)).join('\n'))
  return file
}
const idsIn = async (file: string): Promise<string[]> =>
  (await readFile(file, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as Line).custom_id)
    .sort()
const picture = { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a' } }] }] }

describe('batches run', () => {
  test('writes the answers and the errors beside the input, each line in one of them', async () => {
    const input = await writeLines('mixed.jsonl', [request(1), request(2, picture), request(3)])
    const { code, out, error } = await cli.berth(['batches', 'run', input], { BERTH_KEY: cli.server.demoKey })
    expect({ code, error }).toEqual({ code: 1, error: '' })
    expect(await idsIn(at('mixed.output.jsonl'))).toEqual(['line-1', 'line-3'])
    expect(await idsIn(at('mixed.errors.jsonl'))).toEqual(['line-2'])
    expect(out).toContain('2 of 3 lines answered')
    expect(out).toContain(`Wrote 1 error to ${at('mixed.errors.jsonl')}.`)
  })

  test('sends nothing where a file of results exists, and replaces it with --force', async () => {
    const input = await writeLines('again.jsonl', [request(1)])
    await writeFile(at('a.jsonl'), 'mine')
    const before = (await cli.berth(['files', 'ls', '--json'])).out
    const command = ['batches', 'run', input, '-o', at('a.jsonl')]
    const { code, error } = await cli.berth(command, { BERTH_KEY: cli.server.demoKey })
    expect([code, error.split('\n')[0]]).toEqual([1, `error: ${at('a.jsonl')} already exists.`])
    expect((await cli.berth(['files', 'ls', '--json'])).out).toBe(before)
    expect(await cli.json('batch', 'run', input, '-o', at('a.jsonl'), '--force')).toMatchObject({
      status: 'completed',
      request_counts: { total: 1, completed: 1, failed: 0 },
      output_path: at('a.jsonl'),
      error_path: null,
    })
    expect(await idsIn(at('a.jsonl'))).toEqual(['line-1'])
    expect(existsSync(at('a.errors.jsonl'))).toBe(false)
  })

  test('shows what is wrong with lines, and ends with 1', async () => {
    const input = await writeLines('wrong.jsonl', [request(1), { ...request(1) }])
    const { code, out } = await cli.berth(['batches', 'run', input])
    expect(code).toBe(1)
    expect(out).toMatch(/failed: nothing was run or charged\.\nLine 2: custom_id: /)
  })

  test('reads the endpoint from the first line that is not empty, and refuses one that no batch has', async () => {
    const embedding = await writeLines('none.jsonl', [{ ...request(1), url: '/v1/images/generations' }])
    const { code, error } = await cli.berth(['batches', 'run', embedding])
    expect([code, error]).toEqual([2, expect.stringContaining('/v1/embeddings') as string])
    expect((await cli.berth(['batches', 'run', at('missing.jsonl')])).code).toBe(2)
    expect((await cli.berth(['batches', 'run', cli.folder])).code).toBe(2)
    await writeFile(at('late.jsonl'), `\n\n${JSON.stringify(request(1))}\n`)
    expect(await cli.json('batches', 'run', at('late.jsonl'))).toMatchObject({ endpoint: '/v1/chat/completions' })
  })

  test('--no-wait prints the id, and batches results waits for it later', async () => {
    const input = await writeLines('later.jsonl', [request(1), request(2)])
    const { id } = (await cli.json('batches', 'run', input, '--no-wait')) as { id: string }
    const { code, out } = await cli.berth(['batches', 'results', id, '-o', at('later.done.jsonl')])
    expect([code, out]).toEqual([0, expect.stringContaining('2 of 2 lines answered')])
    expect(await idsIn(at('later.done.jsonl'))).toEqual(['line-1', 'line-2'])
    const [newest] = ((await cli.json('batches', 'ls', '-n', '1')) as { data: Array<{ id: string }> }).data
    expect(newest?.id).toBe(id)
    expect(await cli.onScreen(['batch', 'get', id])).toMatch(/Progress +2 of 2/)
    expect(await cli.onScreen(['batches', 'ls', '--all'])).toMatch(new RegExp(`^${id} .* Completed +2 of 2`, 'm'))
    // Three of all: the last line continues the list.
    const page = await cli.onScreen(['batches', 'ls', '-n', '1'])
    expect(page).toContain(`There are more: berth batches ls --limit 1 --cursor ${id}`)
    const next = (await cli.json('batches', 'ls', '-n', '1', '--cursor', id)) as { data: Array<{ id: string }> }
    expect(next.data.map((one) => one.id)).not.toContain(id)
  })

  test('Ctrl-C leaves the batch running, and prints how to go on', async () => {
    const lines = Array.from({ length: 60 }, (_, id) => request(id, { model: 'house/slow' }))
    const input = await writeLines('long.jsonl', lines)
    const { code, out } = await cli.inTerminal(['batches', 'run', input], [[/\d+ of 60/, '\u0003']])
    const [, id = ''] = /(batch_\w+) goes on\. To wait for its answers: berth batches results batch_/.exec(out) ?? []
    expect([code, out]).toEqual([130, expect.stringContaining(`berth batches cancel ${id}`)])
    expect(await cli.json('batches', 'show', id)).toMatchObject({ status: 'in_progress' })
    expect((await cli.berth(['batches', 'cancel', id])).out).toContain('is being cancelled')
    const done = await waitFor('the batch to be cancelled', async () => {
      const batch = (await cli.json('batches', 'show', id)) as { status: string; error_file_id: string }
      return batch.status === 'cancelled' && batch
    })
    expect(await cli.json('files', 'show', done.error_file_id)).toMatchObject({ purpose: 'batch_output' })
  })
})

describe('files', () => {
  test('are uploaded, listed, shown, downloaded and deleted', async () => {
    const input = await writeLines('kept.jsonl', [request(1)])
    const file = (await cli.json('files', 'upload', input, '--days', '2')) as Record<string, number>
    expect(Number(file['expires_at']) - Number(file['created_at'])).toBe(2 * 86_400)
    const id = String(file['id'])
    expect(await cli.onScreen(['file', 'ls'])).toMatch(new RegExp(`^${id} +kept\\.jsonl +batch`, 'm'))
    expect(await cli.onScreen(['files', 'get', id])).toMatch(/^Name +kept\.jsonl$/m)
    expect(await cli.json('files', 'download', id, '-o', at('copy.jsonl'))).toEqual({ id, file: at('copy.jsonl') })
    expect(await readFile(at('copy.jsonl'))).toEqual(await readFile(input))
    const twice = await cli.berth(['files', 'download', id, '-o', at('copy.jsonl')])
    expect(twice).toMatchObject({ code: 1, error: expect.stringContaining('--force') as string })
    expect(existsSync(at('copy.jsonl.part'))).toBe(false)
    expect((await cli.berth(['files', 'rm', id])).code).toBe(2)
    expect((await cli.berth(['files', 'rm', id, '--yes'])).code).toBe(0)
    const gone = await cli.berth(['files', 'download', id, '-o', at('gone.jsonl')])
    expect(gone).toMatchObject({ code: 1, error: expect.stringContaining('berth files ls') as string })
    expect(existsSync(at('gone.jsonl'))).toBe(false)
  })
})
