/** The web console, built from `console/` into `dist/console/`, from where the server hands it out. */
import tailwindcss from '@tailwindcss/vite'
import { defineConfig } from 'vite'
import { contractAsData } from './scripts/contract-as-data.ts'
import { writeConsoleFont } from './scripts/console-font.ts'
import { leanContract } from './scripts/lean-contract.ts'

await writeConsoleFont()

export const consoleConfig = defineConfig({
  root: 'console',
  plugins: [tailwindcss(), { ...contractAsData, apply: 'build' }, leanContract()],
  build: {
    outDir: '../dist/console',
    emptyOutDir: true,
    // Nothing may be inlined: the page's policy allows files of the server only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    chunkSizeWarningLimit: 1_000,
    rolldownOptions: {
      // Directives for servers that render React, of which there is none here.
      onwarn: (warning, warn) => {
        if (warning.code !== 'MODULE_LEVEL_DIRECTIVE') warn(warning)
      },
    },
  },
  // `npx vite` beside a running server: calls go there.
  server: {
    proxy: Object.fromEntries(
      ['/v1', '/v2', '/billing', '/console', '/docs'].map((path) => [
        path,
        { target: 'http://127.0.0.1:8420', ws: true },
      ]),
    ),
  },
})

export default consoleConfig
