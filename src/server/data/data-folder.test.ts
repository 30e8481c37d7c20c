// The lock protects against other processes, so the tests use real ones that hold the folder, die, or race for it.

import { type ChildProcess, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { processStart } from '../../base/process-start.ts'
import { openDataFolder, readOrCreateSecret, readPrivateFile, runsIn, writePrivateFile } from './data-folder.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

const root = fs.realpathSync(fs.mkdtempSync(join(tmpdir(), 'berth-test-')))
const children: ChildProcess[] = []

/** Opens the folders named on stdin, one per line, and prints whether it got each, or why not. */
const HOLDER = `
import { createInterface } from 'node:readline'
import { openDataFolder } from './data-folder.mjs'
console.log('up')
for await (const dir of createInterface({ input: process.stdin })) {
  console.log(await openDataFolder(dir).then(() => 'held', (error) => error.message))
}
`

beforeAll(async () => {
  const bundle = await rolldown({ input: join(import.meta.dirname, 'data-folder.ts'), platform: 'node' })
  await bundle.write({ file: join(root, 'data-folder.mjs') })
  fs.writeFileSync(join(root, 'holder.mjs'), HOLDER)
})

afterAll(() => {
  for (const child of children) child.kill('SIGKILL')
  fs.rmSync(root, { recursive: true, force: true })
})

test('makes a folder private, under one name, and frees it on release', async () => {
  const dir = join(newFolder(), 'deep/data')
  const held = await openDataFolder(`${dir}/../data/`)
  expect(held.dir).toBe(dir)
  expect(fs.statSync(dir).mode & 0o777).toBe(0o700)
  expect(readPrivateFile(dir, 'berth.pid')?.split('\n')[0]).toBe(String(process.pid))
  await held.release()
  await held.release()
  expect(fs.readdirSync(dir)).toEqual([])
  const again = await openDataFolder(dir)
  await held.release()
  expect(fs.readdirSync(dir)).toEqual(['berth.pid'])
  await again.release()
})

test('closes a folder to other users, and refuses a shared one', async () => {
  const dir = newFolder()
  fs.chmodSync(dir, 0o777)
  await openDataFolder(dir)
  expect(fs.statSync(dir).mode & 0o777).toBe(0o700)
  const shared = newFolder()
  fs.chmodSync(shared, 0o1777)
  await expect(openDataFolder(shared)).rejects.toThrow(`Cannot use ${shared} as the data folder: it is shared`)
  expect(fs.statSync(shared).mode & 0o7777).toBe(0o1777)
  fs.writeFileSync(join(dir, 'file'), '')
  await expect(openDataFolder(join(dir, 'file'))).rejects.toThrow(`Cannot use ${join(dir, 'file')} as the data folder`)
})

test('refuses a folder in use, and takes it over after a kill -9', async () => {
  const dir = newFolder()
  const holder = await startHolder()
  expect(await holder.open(dir)).toBe('held')
  const refusal = `Another Berth (process ${holder.pid}) is using the data folder ${dir}.`
  await expect(openDataFolder(dir)).rejects.toThrow(refusal)
  await holder.kill()
  const held = await openDataFolder(dir)
  await expect(openDataFolder(dir)).rejects.toThrow(`(process ${process.pid})`)
  expect(fs.readdirSync(dir)).toEqual(['berth.pid'])
  await held.release()
})

test.each([
  ['of a pid that is now another process', `${process.pid}\nearlier boot/1\nabcdefabcdef\n`],
  ['that a power failure left empty', ''],
  ['that a power failure left torn', `${process.pid}\n`],
  ['of no process at all', `2147483647\nearlier boot/1\nabcdefabcdef\n`],
])('a lock %s is taken over', async (_, text) => {
  const dir = newFolder()
  fs.writeFileSync(join(dir, 'berth.pid'), text)
  await openDataFolder(dir)
  expect(fs.readdirSync(dir)).toEqual(['berth.pid'])
  await expect(openDataFolder(dir)).rejects.toThrow('Another Berth')
})

test('recovers from a crash during a takeover', async () => {
  const dir = newFolder()
  const dead = (nonce: string): string => `2147483647\nearlier boot/1\n${nonce}\n`
  fs.writeFileSync(join(dir, 'berth.pid'), dead('aaaaaaaaaaaa'))
  fs.writeFileSync(join(dir, 'berth.pid.aaaaaaaaaaaa'), dead('bbbbbbbbbbbb'))
  fs.writeFileSync(join(dir, 'berth.pid.aaaaaaaaaaaa.bbbbbbbbbbbb'), dead('cccccccccccc'))
  await openDataFolder(dir)
  expect(fs.readdirSync(dir)).toEqual(['berth.pid'])
})

test('gives the folder to exactly one of many processes that find the same stale lock', async () => {
  const holders = await Promise.all(Array.from({ length: 5 }, startHolder))
  for (let round = 0; round < 40; round++) {
    const dir = newFolder()
    fs.writeFileSync(join(dir, 'berth.pid'), '2147483647\nearlier boot/1\nabcdefabcdef\n')
    const answers = await Promise.all(holders.map((holder) => holder.open(dir)))
    const winner = holders[answers.indexOf('held')]
    const refusal = `Another Berth (process ${winner?.pid}) is using the data folder ${dir}.`
    expect(answers.filter((answer) => answer !== 'held')).toEqual(Array.from({ length: 4 }, () => refusal))
    expect(fs.readdirSync(dir)).toEqual(['berth.pid'])
  }
})

test('replaces private files atomically, readable only by their owner', () => {
  const dir = newFolder()
  expect(readPrivateFile(dir, 'token')).toBeUndefined()
  writePrivateFile(dir, 'token', 'first')
  writePrivateFile(dir, 'token', 'second')
  expect(readPrivateFile(dir, 'token')).toBe('second')
  expect(fs.statSync(join(dir, 'token')).mode & 0o777).toBe(0o600)
  expect(fs.readdirSync(dir)).toEqual(['token'])
})

test('creates a secret once, and the first of two creators wins', () => {
  const dir = newFolder()
  const secret = readOrCreateSecret(dir, 'key', () => {
    expect(readOrCreateSecret(dir, 'key', () => 'the first')).toBe('the first')
    return 'the second'
  })
  expect(secret).toBe('the first')
  expect(readOrCreateSecret(dir, 'key', () => 'the third')).toBe('the first')
  expect(fs.statSync(join(dir, 'key')).mode & 0o777).toBe(0o600)
})

test('recognizes a process by its start time and working folder', async () => {
  const holder = await startHolder()
  const start = processStart(holder.pid)
  expect(start).toBeDefined()
  expect(processStart(holder.pid)).toBe(start)
  expect(start).not.toBe(processStart(process.pid))
  expect(runsIn(holder.pid, 'postgres', root)).toBe(false)
  await holder.kill()
  expect(processStart(holder.pid)).toBeUndefined()
  expect(processStart(Number.NaN)).toBeUndefined()
})

function newFolder(): string {
  return fs.mkdtempSync(join(root, 'data-'))
}

async function startHolder() {
  const child = spawn(process.execPath, [join(root, 'holder.mjs')], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(child)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const nextLine = async (): Promise<string> => String((await lines.next()).value)
  const ended = new Promise<unknown>((resolve) => child.once('exit', resolve))
  expect(await nextLine()).toBe('up')
  const open = (dir: string): Promise<string> => {
    child.stdin.write(`${dir}\n`)
    return nextLine()
  }
  const kill = (): Promise<unknown> => {
    child.kill('SIGKILL')
    return ended
  }
  return { pid: child.pid ?? 0, open, kill }
}
