/**
 * SkyPilot from PyPI with what it needs, some 450 MB, kept outside the checkout: only the first run installs it, for about a
 * minute.
 */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { removeFolder } from '../harness/leftover.ts'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce } from './go-build.ts'

const VERSION = '0.14.1'
const RUN_MS = 100_000
const MAX_OUTPUT_BYTES = 16 * 1_048_576

/** The reason it cannot run here; undefined if it can. */
export function whyNoSkypilot(): string | undefined {
  return spawnSync('python3', ['-m', 'pip', '--version']).status === 0 ? undefined : 'it needs python3 with pip'
}

/** Modules with native parts fit one version of Python. */
async function packages(): Promise<string> {
  const { stdout } = await promisify(execFile)('python3', ['-c', 'import sys; print(sys.version.split()[0])'])
  const folder = path.join(cacheFolder(), `skypilot-${VERSION}-python-${stdout.trim()}`)
  const installed = path.join(folder, 'packages')
  await buildOnce(
    'SkyPilot',
    folder,
    () => existsSync(installed),
    async (work) => {
      const target = path.join(work, 'packages')
      const options = ['--quiet', '--no-compile', '--only-binary', ':all:', '--target', target]
      const pip = ['-n', '5', 'python3', '-m', 'pip', 'install', ...options, `skypilot==${VERSION}`]
      await promisify(execFile)('nice', pip, { maxBuffer: MAX_OUTPUT_BYTES })
      await rename(target, installed)
    },
  )
  return installed
}

export interface Skypilot {
  /** Runs a Python script that imports it, as a user with this key for the cloud; returns what it wrote as JSON. */
  run(script: string, args: readonly string[]): Promise<unknown>
  close(): Promise<void>
}

export async function installSkypilot(apiKey: string): Promise<Skypilot> {
  const PYTHONPATH = await packages()
  const home = await mkdtemp(path.join(os.tmpdir(), 'berth-skypilot-'))
  await mkdir(path.join(home, '.hyperbolic'))
  await writeFile(path.join(home, '.hyperbolic', 'api_key'), apiKey)
  const env = { PATH: process.env['PATH'], HOME: home, PYTHONPATH, SKYPILOT_DISABLE_USAGE_COLLECTION: '1' }
  return {
    run: async (script, args) => {
      const result = path.join(home, 'result.json')
      const options = { env, cwd: home, timeout: RUN_MS, maxBuffer: MAX_OUTPUT_BYTES }
      await promisify(execFile)('python3', [script, result, ...args], options)
      return JSON.parse(await readFile(result, 'utf8'))
    },
    close: () => removeFolder(home),
  }
}
