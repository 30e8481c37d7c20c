/** The code in docs/sdk.md compiles against the package and runs against a server. */
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { serveModel, type TestModel } from './harness/inference.ts'
import { removeFolder } from './harness/leftover.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const run = promisify(execFile)
let folder: string
let server: TestServer
let model: TestModel

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'berth-sdk-'))
  server = await testServer()
  model = await serveModel(server, { name: 'tinyllama-1.1b-chat' })
})
afterAll(async () => {
  await server.close()
  await model.upstream.close()
  await removeFolder(folder)
})

test('the program in docs/sdk.md compiles against the package alone and prints the documented output', async () => {
  await run(process.execPath, ['scripts/build-sdk.mjs', path.join(folder, 'sdk')])
  const modules = path.join(folder, 'node_modules')
  await mkdir(path.join(modules, '@types'), { recursive: true })
  await symlink(path.join(folder, 'sdk'), path.join(modules, 'berth-client'))
  for (const name of ['zod', 'openai', '@types/node', 'undici-types']) {
    await symlink(path.resolve('node_modules', name), path.join(modules, name))
  }
  const text = await readFile('docs/sdk.md', 'utf8')
  const blocks = [...text.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
  expect(blocks.length).toBeGreaterThan(6)
  const program = path.join(folder, 'program.ts')
  await writeFile(program, blocks.join('\n'))
  await writeFile(path.join(folder, 'package.json'), '{ "type": "module" }')
  const compilerOptions = {
    module: 'nodenext',
    target: 'es2023',
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    preserveSymlinks: true,
    types: ['node'],
  }
  await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['program.ts'] }))
  const tsc = path.resolve('node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [tsc, '-p', folder]).catch((error: unknown) => {
    throw new Error((error as { stdout: string }).stdout)
  })

  const env = { ...process.env, BERTH_URL: server.url, BERTH_KEY: server.demoKey }
  const preserve = ['--preserve-symlinks', '--preserve-symlinks-main']
  const tsx = path.resolve('node_modules', 'tsx', 'dist', 'cli.mjs')
  const { stdout } = await run(process.execPath, [tsx, ...preserve, program], { env, cwd: folder })
  const lines = stdout.trim().split('\n')
  expect(lines[0]).toBe('Demo, as owner')
  expect(lines.filter((line) => line.endsWith('rental.running'))).toHaveLength(1)
  expect(stdout).toMatch(/^Running \d+\.\d{9}$/m)
  expect(stdout).toMatch(/^404 NOT_FOUND \w+ Rental not found/m)
  expect(stdout.match(/^\d+ nano-dollars$/gm)).toHaveLength(2)
  expect(lines.at(-1)).toMatch(/^\$\d+\.\d{9} left$/)
  await waitFor('the machine is gone', async () => {
    const { body } = await server.demo('GET', '/v2/alpha/on-demand/virtual-machine-rentals')
    return (body as unknown[]).length === 0
  })
})
