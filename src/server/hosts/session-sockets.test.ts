/** Only the owner of a machine, with a key that has the scope, can open a terminal. */
import { fail } from '../../contract/result.ts'
import type { IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { WebSocket, type ClientOptions } from 'ws'
import { changeMember } from '../../app/account/account.ts'
import { createApiKey, revokeApiKey, type ApiKeyInput } from '../../app/account/api-key.ts'
import { endSession, startKeySession } from '../../app/person/session.ts'
import { testBrowser } from '../../../test/harness/people.ts'
import type { MuxStream } from '../../base/net/mux.ts'
import { frameOutput, OutputReader } from '../../base/net/output-frame.ts'
import { streamRequest, type StreamRequest } from '../../contract/agent.ts'
import { insertMember } from '../../store/account/account.ts'
import { transact } from '../../store/platform/database.ts'
import { findRental } from '../../store/rental/rental.ts'
import { openLogs } from './session-sockets.ts'
import {
  insertHostRental,
  startHostSockets,
  TestAgent,
  type HostSockets,
  type RentalChange,
} from '../../../test/harness/host-sockets.ts'
import { openTestAccount, type TestAccount } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let lab: HostSockets
let agent: TestAgent
let owner: TestAccount
let rentalId: number
const opened: Array<{ request: StreamRequest; stream: MuxStream; signals: unknown[] }> = []

beforeAll(async () => {
  // Short enough to wait for, long enough for a busy machine to answer in time.
  lab = await startHostSockets({ checkMs: 1_200 })
  const host = await lab.addHost('host-1')
  agent = await new TestAgent(lab.httpUrl, host, (request, stream) => {
    const one = { request: streamRequest.parse(request), stream, signals: [] as unknown[] }
    stream.on('signal', (value) => one.signals.push(value))
    opened.push(one)
  }).enter()
  owner = await openTestAccount(lab)
  rentalId = await insertRental(owner)
})
afterAll(async () => {
  await agent.end()
  await lab.close()
})

function insertRental(account: TestAccount, change: RentalChange = {}): Promise<number> {
  const { personId, keyId } = account.actor
  return insertHostRental(lab.app, { accountId: account.accountId, personId, keyId }, change)
}

interface Asked {
  readonly key?: string
  readonly protocols?: string[]
  readonly query?: string
  readonly headers?: Record<string, string>
}

function dial(id: number | string, session: Asked): WebSocket {
  const options: ClientOptions = {
    headers: { ...(session.key === undefined ? {} : { Authorization: `Bearer ${session.key}` }), ...session.headers },
  }
  const url = `${lab.httpUrl.replace('http', 'ws')}/v2/rentals/${id}/terminal${session.query ?? ''}`
  return new WebSocket(url, session.protocols ?? [], options)
}

/** The response to a rejected request. */
async function refusal(id: number | string, session: Asked): Promise<{ status: number | undefined; body: unknown }> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const socket = dial(id, session)
    socket.once('unexpected-response', (_, answer) => resolve(answer))
    socket.once('open', () => reject(new Error('it was let in')))
    socket.once('error', reject)
  })
  expect(response.headers['x-request-id']).toMatch(/^req_/)
  return { status: response.statusCode, body: JSON.parse(await text(response)) as unknown }
}

interface Terminal {
  readonly socket: WebSocket
  readonly far: (typeof opened)[number]
  readonly frames: Array<{ text?: string; bytes?: string }>
  closed?: { code: number; reason: string }
}

async function enter(session: Asked, id = rentalId): Promise<Terminal> {
  const before = opened.length
  const socket = dial(id, session)
  const frames: Terminal['frames'] = []
  let closed: Terminal['closed']
  socket.on('message', (data, isBinary) => {
    const content = (data as Buffer).toString()
    frames.push(isBinary ? { bytes: content } : { text: content })
  })
  socket.on('close', (code, reason) => (closed = { code, reason: reason.toString() }))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  const far = await waitFor('the stream', () => opened[before])
  return {
    socket,
    far,
    frames,
    get closed() {
      return closed
    },
  } as Terminal
}

test('passes bytes and sizes in, bytes and the exit code out, and closes', async () => {
  const terminal = await enter({
    key: owner.keyText,
    query: '?columns=100&rows=30&command=sh&command=-c&command=ls%20/',
  })
  const { far, socket, frames } = terminal
  expect(far.request).toEqual({
    kind: 'terminal',
    workloadId: 'w1',
    columns: 100,
    rows: 30,
    command: ['sh', '-c', 'ls /'],
  })
  let heard = ''
  far.stream.on('data', (piece: Buffer) => (heard += piece.toString()))
  socket.send(Buffer.from('echo hi\n'))
  await waitFor('the bytes', () => heard === 'echo hi\n')
  socket.send(JSON.stringify({ columns: 120, rows: 40 }))
  await waitFor('the size', () => far.signals.length === 1)
  expect(far.signals).toEqual([{ columns: 120, rows: 40 }])
  // Only the first and the last of a flood arrive, and a few between them.
  for (let n = 1; n <= 1_000; n += 1) socket.send(JSON.stringify({ columns: n, rows: 40 }))
  await waitFor('the last size', () => far.signals.some((one) => JSON.stringify(one) === '{"columns":1000,"rows":40}'))
  expect(far.signals.length).toBeLessThan(100)
  far.stream.write('hi\r\n')
  far.stream.sendSignal({ exitCode: 3 })
  far.stream.end('bye\r\n')
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed?.code).toBe(1_000)
  expect(frames.map((one) => one.bytes ?? '').join('')).toBe('hi\r\nbye\r\n')
  expect(frames.at(-1)).toEqual({ text: '{"exitCode":3}' })
})

test('a command without a terminal gets its input to the end, and its frames pass unchanged (issue 31, C)', async () => {
  const terminal = await enter({ key: owner.keyText, query: '?tty=false&command=cat' })
  const { far, socket, frames } = terminal
  expect(far.request).toEqual({ kind: 'command', workloadId: 'w1', command: ['cat'] })
  const input: Buffer[] = []
  far.stream.on('data', (piece: Buffer) => void input.push(piece))
  socket.send(Buffer.from([0, 4, 13, 10, 255]))
  socket.send('{"end":true}')
  await waitFor('the end of input', () => far.stream.readableEnded)
  expect(Buffer.concat(input)).toEqual(Buffer.from([0, 4, 13, 10, 255]))
  far.stream.write(frameOutput('error', Buffer.from('problem')))
  far.stream.sendSignal({ exitCode: 7 })
  far.stream.end()
  await waitFor('the end', () => terminal.closed?.code === 1_000)
  const received = Buffer.from(frames.map((one) => one.bytes ?? '').join(''))
  expect(new OutputReader().push(received)).toEqual([{ isError: true, data: Buffer.from('problem') }])
  expect(frames.at(-1)).toEqual({ text: '{"exitCode":7}' })
})

test('a client that is busy with the output of a command is not disconnected (issue 31, C)', async () => {
  const terminal = await enter({ key: owner.keyText, query: '?tty=false&command=cat' })
  const shell = await enter({ key: owner.keyText })
  terminal.socket.pause()
  shell.socket.pause()
  await waitFor('the silent terminal to be closed', () => shell.far.stream.destroyed)
  expect(terminal.far.stream.destroyed).toBe(false)
  terminal.socket.resume()
  terminal.far.stream.sendSignal({ exitCode: 0 })
  terminal.far.stream.end()
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed?.code).toBe(1_000)
})

test('opens a login shell of 80 by 24 by default', async () => {
  const terminal = await enter({ key: owner.keyText })
  expect(terminal.far.request).toMatchObject({ columns: 80, rows: 24, command: null })
  terminal.socket.terminate()
  await waitFor('the connection to be closed', () => terminal.far.stream.destroyed)
})

test('takes a browser’s key from a subprotocol, and answers with the other one', async () => {
  const host = new URL(lab.httpUrl).host
  const protocols = ['berth.terminal', `berth.key.${owner.keyText}`]
  const terminal = await enter({ protocols, headers: { Origin: `http://${host}` } })
  expect(terminal.socket.protocol).toBe('berth.terminal')
  terminal.socket.terminate()
})

test('refuses a page of another site, whatever its key', async () => {
  for (const origin of ['https://example.test', 'null']) {
    const answer = await refusal(rentalId, { key: owner.keyText, headers: { Origin: origin } })
    expect(answer).toMatchObject({ status: 403, body: { code: 'FORBIDDEN', reason: 'foreign_origin' } })
  }
})

test('accepts the console’s cookie on its own pages; signing out ends the terminal', async () => {
  const own = `http://${new URL(lab.httpUrl).host}`
  const token = await transact(lab.database, (tx) => startKeySession(tx, owner.actor.keyId, testBrowser))
  const Cookie = `berth_session=${token}`
  const refused: Array<[Record<string, string>, number, string]> = [
    [{}, 403, 'foreign_origin'],
    [{ Origin: `${own}0` }, 403, 'foreign_origin'],
    [{ Origin: 'null' }, 403, 'foreign_origin'],
    [{ Origin: own, 'Sec-Fetch-Site': 'same-site' }, 403, 'cross_site'],
    [{ Origin: own, Cookie: 'berth_session=ended' }, 401, 'session_ended'],
    // Only a trusted proxy can set the host name, and there is none.
    [{ Origin: 'http://gpu.example.test', 'X-Forwarded-Host': 'gpu.example.test' }, 403, 'foreign_origin'],
  ]
  for (const [headers, status, reason] of refused) {
    expect(await refusal(rentalId, { headers: { Cookie, ...headers } })).toMatchObject({ status, body: { reason } })
  }
  const headers = { Cookie, Origin: own, 'Sec-Fetch-Site': 'same-origin' }
  const terminal = await enter({ protocols: ['berth.terminal'], headers })
  terminal.far.stream.write('hello')
  await waitFor('the bytes', () => terminal.frames[0]?.bytes === 'hello')
  await transact(lab.database, (tx) => endSession(tx, token))
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed?.code).toBe(1_008)
})

test('refuses a missing or wrong key', async () => {
  expect(await refusal(rentalId, {})).toMatchObject({ status: 401, body: { reason: 'missing_key' } })
  expect(await refusal(rentalId, { key: 'nonsense' })).toMatchObject({ status: 401, body: { reason: 'malformed_key' } })
  const wrong = ['berth.terminal', 'berth.key.nonsense']
  expect(await refusal(rentalId, { protocols: wrong })).toMatchObject({ status: 401, body: { code: 'UNAUTHORIZED' } })
})

test('refuses a read-only key', async () => {
  const reader = await openTestAccount(lab, { scopes: ['compute:read'] })
  expect(await refusal(rentalId, { key: reader.keyText })).toMatchObject({
    status: 403,
    body: { reason: 'missing_scope' },
  })
})

test('does not reveal another account’s machine', async () => {
  const stranger = await openTestAccount(lab)
  const theirs = await refusal(rentalId, { key: stranger.keyText })
  const nobodys = await refusal(999_999, { key: stranger.keyText })
  expect(theirs).toEqual(nobodys)
  expect(theirs).toEqual({
    status: 404,
    body: { message: fail('rental_not_found').message, code: 'NOT_FOUND', reason: 'rental_not_found' },
  })
  expect((await refusal(9_999_999_999, { key: stranger.keyText })).status).toBe(404)
})

test('explains why a machine has no terminal: stopped, another engine, host not connected', async () => {
  const key = owner.keyText
  const pending = await insertRental(owner, { status: 'Pending' })
  expect(await refusal(pending, { key })).toMatchObject({ status: 400, body: { reason: 'not_running' } })
  const mock = await insertRental(owner, { driver: 'mock' })
  expect(await refusal(mock, { key })).toMatchObject({ status: 400, body: { reason: 'simulated_machine' } })
  const away = await insertRental(owner, { hostId: 'host-2' })
  expect(await refusal(away, { key })).toMatchObject({
    status: 503,
    body: { code: 'SERVICE_UNAVAILABLE', reason: 'host_not_connected' },
  })
})

test('reports all invalid sizes at once', async () => {
  const { status, body } = await refusal(rentalId, { key: owner.keyText, query: '?columns=0&rows=x&colour=red' })
  expect(status).toBe(400)
  expect((body as { issues: Array<{ path: string[] }> }).issues.map((one) => one.path[0])).toEqual([
    'columns',
    'rows',
    'colour',
  ])
})

test('closes the terminal on an invalid text frame', async () => {
  const terminal = await enter({ key: owner.keyText })
  terminal.socket.send('{"columns":0}')
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed?.code).toBe(1_007)
  await waitFor('the connection to be closed', () => terminal.far.stream.destroyed)
  const ended = await enter({ key: owner.keyText, query: '?tty=false&command=cat' })
  ended.socket.send('{"end":true}')
  ended.socket.send(Buffer.from('input after its end'))
  await waitFor('the end', () => ended.closed?.code === 1_007)
})

test('passes on the reason when the machine hangs up', async () => {
  const terminal = await enter({ key: owner.keyText })
  terminal.far.stream.destroy(new Error('the container has ended'))
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed).toEqual({ code: 1_011, reason: 'the container has ended' })
})

test('a slow client slows the machine down', async () => {
  const terminal = await enter({ key: owner.keyText })
  // Opened before any data flows, so that the time to open does not affect the measurement.
  const quick = await enter({ key: owner.keyText })
  // Pauses after each message: a slow reader.
  const slowly = (): void => {
    terminal.socket.pause()
    setTimeout(() => terminal.socket.resume(), 5)
  }
  terminal.socket.on('message', slowly)
  let sent = 0
  const { stream } = terminal.far
  const feed = (): void => {
    for (let room = true; room && sent < 60; sent += 1) room = stream.write(Buffer.alloc(1_000_000))
    if (sent >= 60) stream.end()
  }
  stream.on('drain', feed)
  feed()
  quick.far.stream.end('quick')
  await waitFor('the other', () => quick.closed)
  expect(sent).toBeLessThan(40)
  terminal.socket.off('message', slowly)
  terminal.socket.resume()
  await waitFor('the end', () => terminal.closed)
  expect(terminal.frames.reduce((sum, one) => sum + (one.bytes?.length ?? 0), 0)).toBe(60_000_000)
})

test('limits an account to 50 terminals', async () => {
  const all = await Promise.all(Array.from({ length: 50 }, () => enter({ key: owner.keyText })))
  expect(await refusal(rentalId, { key: owner.keyText })).toMatchObject({
    status: 429,
    body: { reason: 'too_many_terminals' },
  })
  for (const { socket } of all) socket.terminate()
  await waitFor('them to be gone', () => agent.mux.streams === 0)
})

test('closes the terminals of a revoked key', async () => {
  const terminal = await enter({ key: owner.keyText })
  const other = await openTestAccount(lab)
  const theirs = await insertRental(other)
  const going = await enter({ key: other.keyText }, theirs)
  await transact(lab.database, (tx) => revokeApiKey(tx, other.actor, other.actor.keyId))
  await waitFor('the end', () => going.closed)
  expect(going.closed).toEqual({ code: 1_008, reason: 'the key is no longer valid' })
  await waitFor('the connection to be closed', () => going.far.stream.destroyed)
  expect(terminal.closed).toBeUndefined()
  terminal.socket.terminate()
})

const plainKey = {
  name: 'of the boss',
  scopes: ['keys'],
  expiresAt: null,
  allowedModels: null,
  allowedOrigins: [],
  monthlyLimit: null,
  totalLimit: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
} satisfies ApiKeyInput

test('closes the terminals of a member demoted to viewer', async () => {
  const member = await openTestAccount(lab)
  const boss = await openTestAccount(lab)
  const going = await enter({ key: member.keyText }, await insertRental(member))
  const { accountId } = member
  const changed = await transact(lab.database, async (tx) => {
    await insertMember(tx, { accountId, personId: boss.actor.personId, role: 'owner', name: null })
    // An account must keep an owner with a key, so the other owner could not be removed.
    const key = await createApiKey(tx, member.actor, { ...plainKey, memberId: boss.actor.personId })
    if (!key.ok) return key
    return changeMember(tx, { ...boss.actor, accountId }, { personId: member.actor.personId, role: 'viewer' })
  })
  expect(changed).toMatchObject({ ok: true, value: { role: 'viewer' } })
  await waitFor('the end', () => going.closed)
  expect(going.closed?.code).toBe(1_008)
  await waitFor('the connection to be closed', () => going.far.stream.destroyed)
})

test('drops a client that neither answers nor reads', async () => {
  const terminal = await enter({ key: owner.keyText })
  terminal.socket.pause()
  await waitFor('the connection to be closed', () => terminal.far.stream.destroyed)
  terminal.socket.resume()
  await waitFor('the end', () => terminal.closed)
  expect(terminal.closed?.code).toBe(1_006)
})

test('streams the log from the host, or explains why it cannot', async () => {
  const rental = await findRental(lab.database.db, rentalId)
  const away = await findRental(lab.database.db, await insertRental(owner, { hostId: 'host-2' }))
  if (rental === undefined || away === undefined) throw new Error('no rental')
  const before = opened.length
  const logs = openLogs(lab.app, lab.links, rental, { follow: true, tail: 10 })
  if (!logs.ok) throw new Error(logs.message)
  const far = await waitFor('the stream', () => opened[before])
  expect(far.request).toEqual({ kind: 'logs', workloadId: 'w1', follow: true, tail: 10 })
  far.stream.end('line 1\nline 2\n')
  expect(await text(logs.value)).toBe('line 1\nline 2\n')
  expect(openLogs(lab.app, lab.links, away, { follow: false, tail: 0 })).toMatchObject({
    ok: false,
    kind: 'unavailable',
    reason: 'host_not_connected',
  })
})
