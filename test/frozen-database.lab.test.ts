/** A server whose database hangs, or whose disk is full, reports it quickly and recovers on its own. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { testDatabase } from './harness/database.ts'
import { serveModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { descendants, startServerProcess } from './lab/process.ts'
import { caller, testSshKey, type Call } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const step of closing.splice(0).toReversed()) await step()
})

function makeFolder(): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'berth-frozen-'))
  closing.push(() => removeFolder(folder))
  return folder
}

function keyIn(folder: string, name: string): string {
  return readFileSync(path.join(folder, name), 'utf8').trim()
}

/** PostgreSQL and all its processes: simulates a frozen machine or a lost disk. */
function signalDatabase(server: number, signal: 'SIGSTOP' | 'SIGCONT'): void {
  for (const pid of descendants(server).filter((one) => one !== server)) process.kill(pid, signal)
}

test('rejects reads and writes while PostgreSQL is frozen, and leaves nothing half-written', async () => {
  const folder = makeFolder()
  const server = await startServerProcess({ BERTH_DATA_DIR: folder })
  closing.push(() => server.killTree())
  const demo = caller(server.url, keyIn(folder, 'demo.key'))
  const keys = async (call: Call) => (await call('GET', '/v2/ssh-keys')).body.sshKeys as Array<{ name: string }>
  const before = (await keys(demo)).length

  signalDatabase(server.pid, 'SIGSTOP')
  closing.push(() => signalDatabase(server.pid, 'SIGCONT'))
  const [read, write] = await Promise.all([
    demo('GET', '/v2/ssh-keys'),
    demo('POST', '/v2/ssh-keys', { name: 'frozen', publicKey: testSshKey }),
  ])
  // PostgreSQL thaws only after these responses, so they must have come while it was frozen.
  expect([read.status, read.body.reason]).toEqual([503, 'database_unavailable'])
  expect([write.status, write.body.reason]).toEqual([503, 'database_unavailable'])
  expect(read.headers.get('retry-after')).toBe('1')
  const ready = await caller(server.url, null)('GET', '/readyz')
  expect([ready.status, ready.body]).toMatchObject([503, { reason: 'database' }])

  signalDatabase(server.pid, 'SIGCONT')
  await waitFor('it to be ready', async () => (await demo('GET', '/readyz')).status === 200)
  await waitFor('reads', async () => (await demo('GET', '/v2/ssh-keys')).status === 200)
  expect((await keys(demo)).length).toBe(before)
})

const isRoot = process.getuid?.() === 0
describe.skipIf(!isRoot)(`a data disk of its own${isRoot ? '' : ' (needs root)'}`, () => {
  test('is reported as not ready while full, and ready again once there is space', async () => {
    const folder = makeFolder()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=32m,mode=700', 'tmpfs', folder])
    closing.push(() => execFileSync('umount', [folder]))
    const database = await testDatabase()
    closing.push(() => database.drop())
    const server = await startServerProcess({
      BERTH_DATA_DIR: folder,
      DATABASE_URL: database.url,
      BERTH_DRIVERS: 'mock',
      BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    })
    closing.push(() => server.killTree())
    const operator = caller(server.url, keyIn(folder, 'operator.key'))
    const model = await serveModel({ operator })
    closing.push(() => model.upstream.close())
    const { body: made } = await operator('POST', '/v2/operator/accounts', { name: 'A', ownerEmail: 'a@example.test' })
    const account = `/v2/operator/accounts/${made.account.id}`
    await operator('POST', `${account}/credit`, { amountUsd: '5', reason: 'for the test' })
    const chat = () =>
      caller(server.url, made.key)('POST', '/v1/chat/completions', {
        model: model.name,
        max_tokens: 5,
        messages: [{ role: 'user', content: 'Hello' }],
      })
    const ready = async () => (await operator('GET', '/readyz')).body
    expect((await chat()).status).toBe(200)
    expect(await ready()).toMatchObject({ status: 'ready', checks: { journal: 'ok' } })

    const ballast = path.join(folder, 'ballast')
    expect(() => writeFileSync(ballast, Buffer.alloc(64_000_000))).toThrow(/ENOSPC/)
    expect(await ready()).toMatchObject({ status: 'not ready', reason: 'journal', checks: { journal: 'disk full' } })
    // Work in progress is acknowledged once the database has committed it; nothing new starts after that.
    await waitFor('a refusal', async () => (await chat()).body.reason === 'cannot_record')
    expect(await ready()).toMatchObject({ reason: 'journal', checks: { journal: 'cannot be written' } })

    rmSync(ballast)
    await waitFor('it to be ready', async () => (await ready()).status === 'ready')
    expect((await chat()).status).toBe(200)
  })
})
