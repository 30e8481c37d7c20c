/** Files of accounts: what is uploaded comes back, to its account alone, and leaves nothing behind. */
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../src/base/limits.ts'
import { addMs, DAY_MS, HOUR_MS, instantOf } from '../src/base/instant.ts'
import { removeFiles } from '../src/reconcile/files.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

let server: TestServer
let call: Call
let key: string
let now = instantOf(Date.parse('2026-11-18T12:00:00Z'))

beforeAll(async () => {
  server = await testServer({ runLoops: false, clock: { now: () => now } })
  ;({ call, key } = await server.account())
})
afterAll(() => server.close())

function form(
  content: Uint8Array<ArrayBuffer> | string,
  fields: Record<string, string> = { purpose: 'batch' },
): FormData {
  const body = new FormData()
  body.set('file', new Blob([content]), 'questions.jsonl')
  for (const [name, value] of Object.entries(fields)) body.set(name, value)
  return body
}

async function upload(
  content: Uint8Array<ArrayBuffer> | string,
  headers: Record<string, string> = {},
): Promise<string> {
  const reply = await call('POST', '/v1/files', form(content), headers)
  expect([reply.status, reply.body.object]).toEqual([200, 'file'])
  return reply.body.id
}

/** Rows of files and of their pieces. */
async function countRows(): Promise<{ files: number; pieces: number }> {
  const { rows } = await server.app.database.pool.query(
    'select (select count(*)::int from file) as files, (select count(*)::int from file_piece) as pieces',
  )
  return rows[0]
}

const removeUnneeded = (): Promise<boolean> => removeFiles(server.app).run(new AbortController().signal)

describe('P27: files', () => {
  test('P27: a file of several pieces comes back byte by byte, and is sealed at rest', async () => {
    const content = Buffer.concat([Buffer.from('a text to look for'), randomBytes(3 * limits.filePieceBytes)])
    const id = await upload(new Uint8Array(content))
    const shown = await call('GET', `/v1/files/${id}`)
    expect(shown.body).toEqual({
      id,
      object: 'file',
      bytes: content.length,
      created_at: now / 1_000,
      expires_at: (now + 30 * DAY_MS) / 1_000,
      filename: 'questions.jsonl',
      purpose: 'batch',
      status: 'processed',
    })
    const answer = await fetch(`${server.url}/v1/files/${id}/content`, { headers: { Authorization: `Bearer ${key}` } })
    expect(answer.headers.get('content-length')).toBe(String(content.length))
    expect(Buffer.from(await answer.arrayBuffer()).equals(content)).toBe(true)
    const { rows } = await server.app.database.pool.query('select sealed from file_piece where file_id = $1', [id])
    expect(rows).toHaveLength(4)
    expect(rows.some(({ sealed }) => sealed.includes('a text to look for'))).toBe(false)
  })

  test('an empty file is a file', async () => {
    const id = await upload('')
    expect((await call('GET', `/v1/files/${id}/content`)).body).toBe('')
  })

  test('lists pages in both orders', async () => {
    const other = await server.account()
    const ids: string[] = []
    for (const name of ['a', 'b', 'c']) {
      now = addMs(now, 1_000)
      ids.push((await other.call('POST', '/v1/files', form(name))).body.id)
    }
    const first = await other.call('GET', '/v1/files?limit=2')
    expect(first.body).toMatchObject({ object: 'list', has_more: true, first_id: ids[2], last_id: ids[1] })
    const second = await other.call('GET', `/v1/files?limit=2&after=${ids[1]}`)
    expect(second.body).toMatchObject({ has_more: false, data: [{ id: ids[0] }] })
    const oldest = await other.call('GET', '/v1/files?order=asc&limit=1')
    expect(oldest.body.first_id).toBe(ids[0])
    expect((await other.call('GET', '/v1/files?purpose=batch_output')).body.data).toEqual([])
    expect((await other.call('GET', '/v1/files?after=file_none')).body.reason).toBe('stored_file_not_found')
  })

  test('P27: files of others do not exist', async () => {
    const id = await upload('mine')
    const other = await server.account()
    for (const [method, path] of [
      ['GET', `/v1/files/${id}`],
      ['GET', `/v1/files/${id}/content`],
      ['DELETE', `/v1/files/${id}`],
    ] as const) {
      const reply = await other.call(method, path)
      expect([reply.status, reply.body.reason]).toEqual([404, 'stored_file_not_found'])
    }
    expect((await call('GET', `/v1/files/${id}/content`)).body).toBe('mine')
  })

  test('a deleted file leaves no bytes', async () => {
    const before = await countRows()
    const id = await upload('short-lived')
    expect((await call('DELETE', `/v1/files/${id}`)).body).toEqual({ id, object: 'file', deleted: true })
    expect((await call('GET', `/v1/files/${id}`)).status).toBe(404)
    expect(await countRows()).toEqual(before)
  })

  test('P27: expired files leave the disk', async () => {
    const before = await countRows()
    const asked = form('for an hour', {
      purpose: 'batch',
      'expires_after[anchor]': 'created_at',
      'expires_after[seconds]': '3600',
    })
    const { body } = await call('POST', '/v1/files', asked)
    expect(body.expires_at).toBe((now + HOUR_MS) / 1_000)
    now = addMs(now, HOUR_MS)
    await removeUnneeded()
    expect((await call('GET', `/v1/files/${body.id}`)).status).toBe(404)
    expect(await countRows()).toEqual(before)
  })

  test('P27: an upload that breaks off leaves nothing', async () => {
    const before = await countRows()
    const { port } = new URL(server.url)
    const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
    const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    socket.write(
      `POST /v1/files HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nContent-Length: 9000000\r\n` +
        `Content-Type: multipart/form-data; boundary=x\r\n\r\n${head}`,
    )
    socket.write(Buffer.alloc(2 * limits.filePieceBytes + 10))
    await waitFor('two pieces to be written', async () => (await countRows()).pieces >= before.pieces + 2)
    socket.destroy()
    await waitFor('the upload to be gone', async () => (await countRows()).files === before.files)
    expect(await countRows()).toEqual(before)
  })

  test('P27: what a kill leaves of an upload is removed', async () => {
    const before = await countRows()
    const id = await upload('killed')
    await server.app.database.pool.query("update file set state = 'writing' where id = $1", [id])
    expect((await call('GET', `/v1/files/${id}`)).status).toBe(404)
    await removeUnneeded()
    expect((await countRows()).files).toBe(before.files + 1)
    now = addMs(now, limits.uploadPieceMs + 1)
    await removeUnneeded()
    expect(await countRows()).toEqual(before)
  })

  test('the quota holds for what is uploaded at the same time, and nothing of a refused upload stays', async () => {
    const other = await server.account()
    const quota = { quota: { fileGb: 0 }, reason: 'a test' }
    await server.operator('PATCH', `/v2/operator/accounts/${other.id}`, quota)
    const before = await countRows()
    const reply = await other.call('POST', '/v1/files', form('too much'))
    expect([reply.status, reply.body.reason]).toEqual([403, 'quota_exceeded'])
    expect(await countRows()).toEqual(before)
  })
})

describe('P28: Idempotency-Key on uploads', () => {
  test('P28: a repeated upload is the first file, another content is refused', async () => {
    const id = await upload('once', { 'Idempotency-Key': 'upload-1' })
    const before = await countRows()
    expect(await upload('once', { 'Idempotency-Key': 'upload-1' })).toBe(id)
    const other = await call('POST', '/v1/files', form('twice'), { 'Idempotency-Key': 'upload-1' })
    expect(other.body.reason).toBe('idempotency_key_reused')
    expect(await countRows()).toEqual(before)
  })
})

describe('P64: forms that are not accepted', () => {
  const cases: ReadonlyArray<[string, unknown, number, string | undefined]> = [
    ['JSON', { purpose: 'batch' }, 415, 'not_multipart'],
    ['no body', undefined, 415, 'not_multipart'],
    ['another purpose', form('a', { purpose: 'vision' }), 400, undefined],
    ['no purpose', form('a', {}), 422, undefined],
    ['an unknown field', form('a', { purpose: 'batch', more: '1' }), 422, undefined],
    [
      'a short expiry',
      form('a', { purpose: 'batch', 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '1' }),
      400,
      undefined,
    ],
    [
      'many fields',
      form('a', Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`f${at}`, '1']))),
      400,
      'bad_multipart',
    ],
  ]
  test.each(cases)('%s', async (_what, body, status, reason) => {
    const before = await countRows()
    const reply = await call('POST', '/v1/files', body)
    expect([reply.status, reply.body.reason, reply.body.object]).toEqual([status, reason, 'error'])
    expect(await countRows()).toEqual(before)
  })

  test('no file, a text in its place, two files, a broken boundary', async () => {
    const before = await countRows()
    const headers = { 'Content-Type': 'multipart/form-data; boundary=x' }
    const part = (head: string, text: string): string =>
      `--x\r\nContent-Disposition: form-data; ${head}\r\n\r\n${text}\r\n`
    const purpose = part('name="purpose"', 'batch')
    const file = part('name="file"; filename="a"', 'content')
    const send = (body: string, more = headers) => call('POST', '/v1/files', body, more)
    expect((await send(`${purpose}--x--\r\n`)).status).toBe(422)
    expect((await send(`${purpose}${part('name="file"', 'text')}--x--\r\n`)).body.reason).toBe('file_missing')
    expect((await send(`${purpose}${file}${file}--x--\r\n`)).body.reason).toBe('bad_multipart')
    expect((await send(`${purpose}${part('name="other"; filename="a"', 'b')}--x--\r\n`)).body.reason).toBe(
      'bad_multipart',
    )
    expect((await send(`${purpose}${file}`)).body.reason).toBe('bad_multipart')
    expect((await send(file, { 'Content-Type': 'multipart/form-data; a=b' })).body.reason).toBe('bad_multipart')
    expect((await call('POST', '/v2/webhooks', form('a'))).status).toBe(415)
    expect(await countRows()).toEqual(before)
  })
})
