#!/usr/bin/env -S node --max-semi-space-size=64
// The flag: what waits to be settled outlives a small young generation, and would be copied again and again.
// The `berth` command. In a fresh checkout it builds itself first.
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 20 || (major === 20 && minor < 19)) {
  process.stderr.write(`Berth needs Node 20.19 or newer; this is ${process.versions.node}.\n`)
  process.exit(1)
}

const programs = { serve: 'server', backup: 'backup', restore: 'backup' }
const program = programs[process.argv[2] ?? ''] ?? 'cli'
const file = new URL(`../dist/${program}.mjs`, import.meta.url)
if (!existsSync(file)) {
  const { spawnSync } = await import('node:child_process')
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const build = spawnSync('npm', ['run', '--silent', 'build'], { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
  if (build.status !== 0) {
    process.stderr.write('The build failed. Run `npm ci` in the checkout first.\n')
    process.exit(1)
  }
}
await import(file.href)
