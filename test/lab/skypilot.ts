/** SkyPilot from PyPI, in a home folder of its own. */
import { execFile } from 'node:child_process'
import { mkdtemp, mkdir, readFile, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { removeFolder } from '../harness/leftover.ts'
import { pythonPackages } from './python-packages.ts'

const VERSION = '0.14.1'
const RUN_MS = 100_000
const MAX_OUTPUT_BYTES = 16 * 1_048_576

export interface Skypilot {
  /** Runs a Python script that imports it, as a user with this key for the cloud; returns what it wrote as JSON. */
  run(script: string, args: readonly string[]): Promise<unknown>
  close(): Promise<void>
}

export async function installSkypilot(apiKey: string): Promise<Skypilot> {
  // Some 450 MB, for which the first run takes a minute.
  const PYTHONPATH = await pythonPackages(`skypilot-${VERSION}`, [`skypilot==${VERSION}`])
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
