/** A backup made under load and restored into an empty folder contains every write acknowledged before it. */
import { spawn } from 'node:child_process'
import { constants, readdirSync, readFileSync } from 'node:fs'
import { appendFile, cp, mkdtemp, readFile, rename, rm, truncate, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, expect, inject, it } from 'vitest'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess } from './lab/process.ts'
import { caller } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const cleanUp: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

async function folder(): Promise<string> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-backup-'))
  cleanUp.push(() => removeFolder(dir))
  return dir
}

async function start(dataDir: string) {
  const server = await startServerProcess({
    BERTH_DATA_DIR: dataDir,
    BERTH_MOCK_BOOT_MS: '0',
    BERTH_MOCK_DESTROY_MS: '0',
  })
  cleanUp.push(() => server.killTree())
  const key = (name: string): string => readFileSync(path.join(dataDir, `${name}.key`), 'utf8').trim()
  return { server, demo: caller(server.url, key('demo')), operator: caller(server.url, key('operator')) }
}

async function run(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const program = path.join(path.dirname(inject('serverBundle')), 'backup.mjs')
  const child = spawn(process.execPath, [program, ...args], { env: { PATH: process.env.PATH ?? '' } })
  let [out, err] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, out, err }
}

it('restores exactly the data of a server under load, including its secret key', async () => {
  const home = await folder()
  const [data, saved, fresh] = ['data', 'saved', 'fresh'].map((name) => path.join(home, name)) as [
    string,
    string,
    string,
  ]
  const { server, demo, operator } = await start(data)
  const account = (await operator('POST', '/v2/operator/accounts', { name: 'Before', ownerEmail: 'a@example.com' }))
    .body
  const credit = (n: number) =>
    operator('POST', `/v2/operator/accounts/${account.account.id as string}/credit`, {
      amountUsd: '1',
      reason: `load ${n}`,
    })
  // Writes continue until the copy is complete.
  let answered = 0
  let isLoading = true
  const load = (async () => {
    while (isLoading) {
      const reply = await credit(answered)
      expect(reply.status).toBe(200)
      answered += 1
    }
  })()
  await demo('POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
  await waitFor('some load', () => answered >= 5)
  const before = answered
  const made = await run('backup', '--data-dir', data, '--json', saved)
  const after = answered
  isLoading = false
  await load
  expect(made).toMatchObject({ code: 0 })
  const manifest = JSON.parse(made.out) as { hasSecretKey: boolean; folder: string }
  expect(manifest).toMatchObject({ hasSecretKey: true, folder: saved })
  expect(readdirSync(home).toSorted()).toEqual(['data', 'saved'])
  expect(readdirSync(data).filter((name) => name.startsWith('journal.'))).toEqual([])
  // The original server is unaffected.
  expect((await operator('GET', '/v2/operator/ledger/verify')).body).toMatchObject({ ok: true })
  await server.stop()

  expect(await run('restore', saved, fresh)).toMatchObject({ code: 0 })
  expect(readFileSync(path.join(fresh, 'secret.key'), 'utf8')).toBe(readFileSync(path.join(data, 'secret.key'), 'utf8'))
  const again = await start(fresh)
  const verdict = await again.operator('GET', '/v2/operator/ledger/verify')
  expect(verdict.body).toMatchObject({ ok: true, findings: [] })
  const shown = await again.operator('GET', `/v2/operator/accounts/${account.account.id as string}`)
  const balance = Number(shown.body.availableUsd)
  expect(balance).toBeGreaterThanOrEqual(before)
  // A request still in flight when the copy ended may be in it.
  expect(balance).toBeLessThanOrEqual(after + 1)
  const rentals = await again.demo('GET', '/v2/alpha/on-demand/virtual-machine-rentals')
  expect(rentals.body).toHaveLength(1)
})

it('rejects an invalid backup or target with a one-sentence error and leaves no files behind', async () => {
  const home = await folder()
  const data = path.join(home, 'data')
  const { server } = await start(data)
  expect(await run('backup', '--data-dir', data, home)).toMatchObject({ code: 1, out: '' })
  expect(await run('backup', '--data-dir', path.join(home, 'none'), path.join(home, 'b'))).toMatchObject({ code: 1 })
  expect(await run('backup')).toMatchObject({ code: 2 })
  const whole = path.join(home, 'whole')
  expect(await run('backup', '--data-dir', data, whole)).toMatchObject({ code: 0 })
  await server.stop()
  const stopped = await run('backup', '--data-dir', data, path.join(home, 'b'))
  expect(stopped.code).toBe(1)
  expect(stopped.err.trim().split('\n')).toHaveLength(1)
  expect(await run('restore', whole, data)).toMatchObject({ code: 1 })
  expect(readdirSync(home).toSorted()).toEqual(['data', 'whole'])
})

it('refuses a damaged backup, names the damage and writes nothing (issue 31, 6)', async () => {
  const home = await folder()
  const [data, whole, copy] = ['data', 'whole', 'copy'].map((name) => path.join(home, name)) as [string, string, string]
  const { server } = await start(data)
  expect(await run('backup', '--data-dir', data, whole)).toMatchObject({ code: 0 })
  await server.stop()
  const table = path.join('postgres', 'base', '1', '1249')
  const wal = path.join('postgres', 'pg_wal', readdirSync(path.join(whole, 'postgres', 'pg_wal'))[0] ?? '')
  const flip = async (file: string): Promise<void> => {
    const bytes = await readFile(file)
    bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1)
    await writeFile(file, bytes)
  }
  const swap = async (first: string, second: string): Promise<void> => {
    await rename(first, `${first}.aside`)
    await rename(second, first)
    await rename(`${first}.aside`, second)
  }
  const at = (name: string): string => path.join(copy, name)
  const damages: Array<[name: string, damage: () => Promise<void>]> = [
    [table, () => flip(at(table))],
    [wal, () => flip(at(wal))],
    ['postgres/global/pg_control', () => flip(at('postgres/global/pg_control'))],
    ['secret.key', () => flip(at('secret.key'))],
    ['backup.json', () => flip(at('backup.json'))],
    ['SHA256SUMS', () => appendFile(at('SHA256SUMS'), 'x')],
    [table, () => truncate(at(table), 8_192)],
    ['operator.key', () => swap(at('operator.key'), at('demo.key'))],
    ['gateway.id', () => rm(at('gateway.id'))],
    ['postgres/standby.signal', () => writeFile(at('postgres/standby.signal'), '')],
    ['SHA256SUMS', () => rm(at('SHA256SUMS'))],
  ]
  for (const [name, damage] of damages) {
    await cp(whole, copy, { recursive: true, mode: constants.COPYFILE_FICLONE })
    await damage()
    const { code, err } = await run('restore', copy, path.join(home, 'restored'))
    // Progress may stand before it.
    expect([code, err.trim().split('\n').at(-1)]).toEqual([1, expect.stringContaining(name)])
    expect(readdirSync(home).toSorted()).toEqual(['copy', 'data', 'whole'])
    await rm(copy, { recursive: true })
  }
  expect(await run('restore', whole, path.join(home, 'restored'))).toMatchObject({ code: 0 })
})
