/** P60: the SFTP server for images without one, with a real client, on the programs of this machine. */
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { once } from 'node:events'
import ssh2, { type SFTPWrapper } from 'ssh2'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { serveSftp } from './sftp-server.ts'
import { ShellFiles, type ShellPort } from './shell-files.ts'

const LARGE_BYTES = 8_000_000
const MAX_WAITING_BYTES = 1_048_576

/** Runs the scripts on this machine instead of in a container. */
const localShell: ShellPort = {
  run: (script, args) =>
    new Promise((resolve) => {
      const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], { stdio: ['ignore', 'pipe', 'ignore'] })
      const pieces: Buffer[] = []
      child.stdout.on('data', (piece: Buffer) => pieces.push(piece))
      child.once('close', (code) => resolve({ code: code ?? 255, out: Buffer.concat(pieces) }))
    }),
  read: async function* (script, args) {
    const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], { stdio: ['ignore', 'pipe', 'ignore'] })
    try {
      for await (const piece of child.stdout) yield piece as Buffer
    } finally {
      child.kill()
    }
  },
  write: async (script, args) => {
    const child = spawn('/bin/sh', ['-c', script, 'sh', ...args], { stdio: ['pipe', 'ignore', 'ignore'] })
    const closed = once(child, 'close')
    child.stdin.on('error', () => {})
    return {
      write: async (data) => {
        child.stdin.write(Buffer.from(data))
        if (child.stdin.writableLength < MAX_WAITING_BYTES) return
        await Promise.race([once(child.stdin, 'drain'), closed])
      },
      end: async () => {
        child.stdin.end()
        const [code] = (await closed) as [number]
        return code
      },
    }
  },
}

let folder: string
let sftp: SFTPWrapper
const clients: ssh2.Client[] = []
const servers: ssh2.Server[] = []

beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-sftp-'))
  sftp = await openSftp()
})
afterAll(() => {
  for (const client of clients) client.end()
  for (const server of servers) server.close()
  fs.rmSync(folder, { recursive: true })
})

async function openSftp(): Promise<SFTPWrapper> {
  // This client sends the fields of a new link in the order of OpenSSH, which all others use, only to OpenSSH.
  const server = new ssh2.Server(
    { hostKeys: [makeSshKeyPair('test').privateKey], ident: 'OpenSSH_test' },
    (connection) => {
      connection.on('error', () => {})
      connection.on('authentication', (context) => context.accept())
      connection.on('session', (accept) => {
        accept().on('subsystem', (acceptChannel) => {
          const channel = acceptChannel() as unknown as Duplex
          const send = (packet: Buffer) => new Promise<void>((resolve) => channel.write(packet, () => resolve()))
          void serveSftp(channel as AsyncIterable<Buffer>, send, new ShellFiles(localShell)).then(() => channel.end())
        })
      })
    },
  )
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const client = new ssh2.Client()
  clients.push(client)
  const { port } = server.address() as AddressInfo
  client.connect({ host: '127.0.0.1', port, username: 'root', password: 'any' })
  await once(client, 'ready')
  return new Promise((resolve, reject) => client.sftp((error, opened) => (error ? reject(error) : resolve(opened))))
}

const call = <T = void>(work: (done: (error: Error | null | undefined, value?: T) => void) => void): Promise<T> =>
  new Promise((resolve, reject) => work((error, value) => (error ? reject(error) : resolve(value as T))))
const at = (name: string): string => path.join(folder, name)
const digest = (file: string): string => createHash('sha256').update(fs.readFileSync(file)).digest('hex')

test('P60: writes and reads large files unchanged, both by pieces in parallel', async () => {
  fs.writeFileSync(at('local'), randomBytes(LARGE_BYTES))
  await call((done) => sftp.fastPut(at('local'), at('far file'), done))
  expect(digest(at('far file'))).toBe(digest(at('local')))
  await call((done) => sftp.fastGet(at('far file'), at('back'), { concurrency: 8 }, done))
  expect(digest(at('back'))).toBe(digest(at('local')))
})

test('P60: pieces out of order end where they belong', async () => {
  const handle = await call<Buffer>((done) => sftp.open(at('pieces'), 'w', done))
  const pieces = [
    [7, 'world'],
    [0, 'hello, '],
    [3, 'L'],
    [70_000, 'end'],
  ] as const
  for (const [offset, text] of pieces) {
    await call((done) => sftp.write(handle, Buffer.from(text), 0, text.length, offset, done))
  }
  await call((done) => sftp.close(handle, done))
  const content = fs.readFileSync(at('pieces'))
  expect(content.subarray(0, 12).toString()).toBe('helLo, world')
  expect([content.length, content.subarray(70_000).toString()]).toEqual([70_003, 'end'])
})

test('P60: lists names of any kind, with their modes and sizes', async () => {
  const names = ['plain', '.hidden', '..odd', 'it\'s "quoted" $HOME', '-rf', 'two\nlines', 'ä€😀', '*']
  fs.mkdirSync(at('list'))
  for (const name of names) fs.writeFileSync(path.join(at('list'), name), name, { mode: 0o640 })
  fs.symlinkSync('nowhere', path.join(at('list'), 'broken'))
  const list = await call<ssh2.FileEntryWithStats[]>((done) => sftp.readdir(at('list'), done))
  const byName = new Map(list.map(({ filename, attrs }) => [filename, attrs]))
  expect([...byName.keys()].toSorted()).toEqual([...names, 'broken'].toSorted())
  for (const name of names) {
    expect([name, byName.get(name)?.size, (byName.get(name)?.mode ?? 0) & 0o777]).toEqual([
      name,
      Buffer.byteLength(name),
      0o640,
    ])
  }
  expect(byName.get('broken')?.isSymbolicLink()).toBe(true)
})

test('P60: folders, links, renames, modes and times', async () => {
  await call((done) => sftp.mkdir(at('sub'), { mode: 0o750 }, done))
  expect(fs.statSync(at('sub')).mode & 0o777).toBe(0o750)
  fs.writeFileSync(at('a'), 'a')
  fs.writeFileSync(at('b'), 'b')
  await expect(call((done) => sftp.rename(at('a'), at('b'), done))).rejects.toMatchObject({ code: 4 })
  await call((done) => sftp.ext_openssh_rename(at('a'), at('b'), done))
  expect(fs.readFileSync(at('b'), 'utf8')).toBe('a')
  await call((done) => sftp.symlink('b', at('link'), done))
  expect(await call<string>((done) => sftp.readlink(at('link'), done))).toBe('b')
  await call((done) => sftp.chmod(at('b'), 0o600, done))
  await call((done) => sftp.utimes(at('b'), 1_000_000, 2_000_000, done))
  const stats = await call<ssh2.Stats>((done) => sftp.stat(at('link'), done))
  expect([stats.mode & 0o777, stats.mtime]).toEqual([0o600, 2_000_000])
  await call((done) => sftp.unlink(at('link'), done))
  await expect(call((done) => sftp.rmdir(folder, done))).rejects.toMatchObject({ code: 4 })
  await call((done) => sftp.rmdir(at('sub'), done))
  expect(fs.existsSync(at('sub'))).toBe(false)
  expect(await call<string>((done) => sftp.realpath(`${folder}/x/../b`, done))).toBe(at('b'))
})

describe('P60: failures have the codes that clients know', () => {
  test.each([
    ['a missing file', 2, (done: Done) => sftp.open(at('missing'), 'r', done)],
    ['a missing folder', 2, (done: Done) => sftp.readdir(at('missing'), done)],
    ['a missing attribute', 2, (done: Done) => sftp.stat(at('missing'), done)],
    ['a missing link', 2, (done: Done) => sftp.unlink(at('missing'), done)],
    ['a folder as a file', 4, (done: Done) => sftp.open(folder, 'r', done)],
    ['a file that exists already', 4, (done: Done) => sftp.open(at('pieces'), 'wx', done)],
  ] as const)('%s', async (_, code, work) => {
    await expect(call(work as never)).rejects.toMatchObject({ code })
  })

  test('bytes that are no SFTP end the session', async () => {
    const sent: Buffer[] = []
    const input = async function* () {
      yield Buffer.from([0xff, 0xff, 0xff, 0xff, 1])
    }
    await serveSftp(input(), async (packet) => void sent.push(packet), new ShellFiles(localShell))
    expect(sent).toEqual([])
  })
})
type Done = (error?: Error | null) => void
