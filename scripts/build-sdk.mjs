/**
 * `npm run sdk`: builds the typed client as a separate package in dist/sdk, for programs that only call a server. It
 * depends on zod only and contains no server code.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const outDir = path.resolve(root, process.argv[2] ?? 'dist/sdk')
const entries = ['client', 'error', 'inference', 'request-cost']

await build({
  cwd: root,
  input: Object.fromEntries(entries.map((name) => [name, `src/client/${name}.ts`])),
  external: ['zod'],
  platform: 'neutral',
  output: {
    dir: outDir,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
    cleanDir: true,
  },
})
const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc')
const typed = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.client.json', '--outDir', outDir], {
  cwd: root,
  stdio: 'inherit',
})
if (typed.status !== 0) throw new Error('the types of the client could not be written')

const { version, license, dependencies, engines } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const described = {
  name: 'berth-client',
  version,
  license,
  description: 'The typed client of Berth',
  type: 'module',
  exports: Object.fromEntries(
    entries.map((name) => [
      name === 'client' ? '.' : `./${name}`,
      { types: `./client/${name}.d.ts`, default: `./${name}.js` },
    ]),
  ),
  dependencies: { zod: dependencies.zod },
  engines,
}
writeFileSync(path.join(outDir, 'package.json'), `${JSON.stringify(described, null, 2)}\n`)
