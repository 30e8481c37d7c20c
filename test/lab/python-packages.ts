/** Packages from PyPI with what they need, kept outside the checkout: only the first run installs them. */
import { execFile, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce } from './go-build.ts'

const MAX_OUTPUT_BYTES = 16 * 1_048_576

/** The reason that packages cannot be installed here; undefined if they can. */
export function whyNoPython(): string | undefined {
  return spawnSync('python3', ['-m', 'pip', '--version']).status === 0 ? undefined : 'it needs python3 with pip'
}

/** The clients of OpenAI and Anthropic. */
export function pythonClients(): Promise<string> {
  return pythonPackages('openai-3.51.0-anthropic-2.9.0', ['openai==3.51.0', 'anthropic==2.9.0'])
}

/** A folder for PYTHONPATH. `name`: of the folder. `requirements`: as for pip, with versions. */
export async function pythonPackages(name: string, requirements: readonly string[]): Promise<string> {
  // Modules with native parts fit one version of Python.
  const { stdout } = await promisify(execFile)('python3', ['-c', 'import sys; print(sys.version.split()[0])'])
  const folder = path.join(cacheFolder(), `${name}-python-${stdout.trim()}`)
  const installed = path.join(folder, 'packages')
  await buildOnce(
    name,
    folder,
    () => existsSync(installed),
    async (work) => {
      const target = path.join(work, 'packages')
      const options = ['--quiet', '--no-compile', '--only-binary', ':all:', '--target', target]
      const pip = ['-n', '5', 'python3', '-m', 'pip', 'install', ...options, ...requirements]
      await promisify(execFile)('nice', pip, { maxBuffer: MAX_OUTPUT_BYTES })
      await rename(target, installed)
    },
  )
  return installed
}
