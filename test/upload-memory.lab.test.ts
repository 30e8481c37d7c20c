/** The memory of a server process while a customer uploads the largest file. */
import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { finished } from 'node:stream/promises'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { answerTo } from '../src/base/net/http-answer.ts'
import { limits } from '../src/base/limits.ts'
import { startServerLab, type ServerLab } from './lab/server-lab.ts'
import { needs } from './needs.ts'

needs('build')

const MAX_GROWTH_MB = 32
const WARM_UP_BYTES = 40_000_000
const CHUNK = randomBytes(1_000_000)

let lab: ServerLab
beforeAll(async () => {
  lab = await startServerLab({ BERTH_DRIVERS: '' })
})
afterAll(() => lab?.close())

async function* chunksOf(bytes: number): AsyncGenerator<Buffer> {
  for (let sent = 0; sent < bytes; sent += CHUNK.length) yield CHUNK
}

async function upload(key: string, bytes: number): Promise<{ status: number; body: string }> {
  const head = Buffer.from(
    '--x\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n' +
      '--x\r\nContent-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n',
  )
  const tail = Buffer.from('\r\n--x--\r\n')
  const request = http.request(`${lab.url}/v1/files`, {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${key}`,
      'Content-Type': 'multipart/form-data; boundary=x',
      'Content-Length': head.length + bytes + tail.length,
    },
  })
  const answer = answerTo(request)
  const body = async function* (): AsyncGenerator<Buffer> {
    yield head
    yield* chunksOf(bytes)
    yield tail
  }
  await finished(Readable.from(body()).pipe(request))
  const response = await answer
  return { status: response.statusCode ?? 0, body: await text(response) }
}

/** In megabytes. */
async function memoryOf(pid: number, what: 'VmHWM' | 'VmRSS'): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(new RegExp(String.raw`^${what}:\s+(\d+) kB$`, 'm').exec(status)?.[1]) / 1_024
}

test('P27: an upload of 200 MB needs less than 32 MB of memory', { timeout: 600_000 }, async () => {
  const { key } = await lab.account()
  expect((await upload(key, WARM_UP_BYTES)).status).toBe(200)
  // The peak starts again at what is used now.
  await writeFile(`/proc/${lab.pid()}/clear_refs`, '5')
  const before = await memoryOf(lab.pid(), 'VmRSS')
  const { status, body } = await upload(key, limits.uploadBytes)
  expect([status, JSON.parse(body)]).toEqual([200, expect.objectContaining({ bytes: limits.uploadBytes })])
  const growth = (await memoryOf(lab.pid(), 'VmHWM')) - before
  expect(growth).toBeLessThan(MAX_GROWTH_MB)
})
