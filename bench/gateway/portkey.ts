/**
 * @portkey-ai/gateway as one side of a comparison. It is not a dependency: a bench installs it on first use, without
 * install scripts, into its own cache. If that fails, the table gives the reason.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { freePort, stopProcess, untilListening, watchProcess } from './child.ts'
import { plainHeaders, type MissingSide, type Side } from './side.ts'

export const PORTKEY = 'Portkey'
const PACKAGE = '@portkey-ai/gateway'
const VERSION = '1.15.2'
/** The version Portkey is developed with; every stream fails with versions since 1.14.3. */
const overrides = { '@hono/node-server': '1.13.5' } as const
const INSTALL_WITHIN_MS = 120_000
/** Inside node_modules, invisible to git and our own checks. */
const CACHE = path.join('node_modules', '.cache', 'bench-peers', VERSION)
const PROGRAM = path.join(CACHE, 'node_modules', PACKAGE, 'build', 'start-server.js')

export async function startPortkey(upstreamPort: number): Promise<Side | MissingSide> {
  const missing = await install()
  if (missing !== undefined) return { name: PORTKEY, missing }
  const port = await freePort()
  const child = spawn(process.execPath, [PROGRAM, `--port=${port}`, '--headless'], {
    env: { PATH: process.env.PATH ?? '', NODE_ENV: 'production', TRUSTED_CUSTOM_HOSTS: '127.0.0.1' },
    stdio: 'ignore',
  })
  const { pid, ended } = watchProcess(child, PORTKEY)
  const stop = (): Promise<void> => stopProcess(child, ended, 'SIGTERM')
  try {
    await untilListening(port, ended, PORTKEY)
  } catch (error) {
    await stop()
    return { name: PORTKEY, missing: error instanceof Error ? error.message : String(error) }
  }
  return {
    name: PORTKEY,
    port,
    pid,
    headers: {
      ...plainHeaders,
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `http://127.0.0.1:${upstreamPort}/v1`,
    },
    stop,
  }
}

/** undefined: it is installed. */
async function install(): Promise<string | undefined> {
  if (existsSync(PROGRAM)) return undefined
  mkdirSync(CACHE, { recursive: true })
  const manifest = { private: true, dependencies: { [PACKAGE]: VERSION }, overrides }
  writeFileSync(path.join(CACHE, 'package.json'), JSON.stringify(manifest))
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--fetch-retries=1']
  try {
    await promisify(execFile)('npm', ['install', '--prefix', CACHE, ...flags], { timeout: INSTALL_WITHIN_MS })
  } catch (error) {
    // A partial installation would look complete next time.
    rmSync(CACHE, { recursive: true, force: true })
    return `${PACKAGE}@${VERSION} cannot be installed: ${reasonOf(error)}`
  }
  return existsSync(PROGRAM) ? undefined : `${PACKAGE}@${VERSION} has no build/start-server.js`
}

/** npm's first error line, which names the cause. */
function reasonOf(error: unknown): string {
  if (error instanceof Error && 'killed' in error && error.killed === true) return `not done in ${INSTALL_WITHIN_MS} ms`
  const text = error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
  return /npm error .*/.exec(text)?.[0] ?? text.trim().split('\n')[0] ?? 'npm says nothing'
}
