/** Which server a command talks to when nobody names one: that of the data folder that its key comes from. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { testDatabase, type TestDatabase } from '../../../test/harness/database.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { startServerProcess, type ServerProcess } from '../../../test/lab/process.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

const program = path.join(path.dirname(inject('serverBundle')), 'cli.mjs')
let database: TestDatabase
let home: string
let server: ServerProcess

beforeAll(async () => {
  database = await testDatabase()
  home = await mkdtemp(path.join(os.tmpdir(), 'berth-address-'))
  server = await start()
})
afterAll(async () => {
  await server.killTree()
  await database.drop()
  await removeFolder(home)
})

const start = (): Promise<ServerProcess> => startServerProcess({ BERTH_DATA_DIR: home, DATABASE_URL: database.url })
const file = (): string => path.join(home, 'server.json')

function status(
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
): Promise<{ code: number | null; out: string; error: string }> {
  return new Promise((resolve) => {
    const options = { env: { XDG_CONFIG_HOME: home, ...env }, cwd: home }
    const child = execFile(process.execPath, [program, 'status', '--json', ...args], options, (_, out, error) =>
      resolve({ code: child.exitCode, out, error }),
    )
  })
}

async function urlOf(env: Readonly<Record<string, string>>, args: readonly string[] = []): Promise<string> {
  const { out, error } = await status(env, args)
  if (out === '') throw new Error(error)
  return (JSON.parse(out) as { server: { url: string } }).server.url
}

test('the server of the data folder, of the folder of a key file, or of BERTH_PORT', async () => {
  expect(await urlOf({ BERTH_DATA_DIR: home })).toBe(server.url)
  const keyFile = path.join(home, 'operator.key')
  expect(await urlOf({ BERTH_DATA_DIR: '/nowhere' }, ['--key-file', keyFile])).toBe(server.url)
  const { port } = new URL(server.url)
  expect(await urlOf({ BERTH_DATA_DIR: '/nowhere', BERTH_PORT: port })).toBe(server.url)
  expect(await urlOf({ BERTH_DATA_DIR: '/nowhere', BERTH_PORT: port, BERTH_HOST: '0.0.0.0' })).toBe(server.url)
})

test('explicit options win over the data folder', async () => {
  for (const [env, args] of [
    [{ BERTH_PORT: '9' }, []],
    [{ BERTH_URL: 'http://127.0.0.1:9' }, []],
    [{}, ['--url', 'http://127.0.0.1:9']],
  ] as const) {
    const { code, error } = await status({ BERTH_DATA_DIR: home, ...env }, args)
    expect(code).toBe(3)
    expect(error).toContain('http://127.0.0.1:9')
  }
})

test('ignores the address that a killed server left behind', async () => {
  const left = await readFile(file(), 'utf8')
  await server.killTree()
  expect(existsSync(file())).toBe(true)
  const killed = await status({ BERTH_DATA_DIR: home })
  expect({ code: killed.code, out: killed.out }).toEqual({ code: 3, out: '' })
  expect(JSON.parse(killed.error)).toMatchObject({ error: { message: expect.stringContaining(home) } })

  // Its pid was given to another process since.
  await writeFile(file(), JSON.stringify({ ...JSON.parse(left), pid: process.pid }))
  expect((await status({ BERTH_DATA_DIR: home })).code).toBe(3)

  server = await start()
  expect(await urlOf({ BERTH_DATA_DIR: home })).toBe(server.url)
})

test('ignores an address whose process cannot be seen', async () => {
  const original = await readFile(file(), 'utf8')
  const { url: _, ...rest } = JSON.parse(original)
  await writeFile(file(), JSON.stringify({ ...rest, url: 'http://127.0.0.1:9', host: 'elsewhere' }))
  const { error } = await status({ BERTH_DATA_DIR: home })
  expect(error).not.toContain('127.0.0.1:9')
  await writeFile(file(), original)
})

test('a server removes its address when it stops', async () => {
  await server.stop()
  await waitFor('the file to be gone', () => !existsSync(file()))
  expect(existsSync(file())).toBe(false)
})
