/** Codex and Claude Code, as npm has them, kept outside the checkout: only the first run installs them. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { buildOnce } from './go-build.ts'

const CODEX = '0.169.0'
const CLAUDE_CODE = '2.1.197'

/** The folder of their programs, for PATH. */
export async function codingAgents(): Promise<string> {
  const folder = path.join(cacheFolder(), `coding-agents-${CODEX}-${CLAUDE_CODE}`)
  const installed = path.join(folder, 'packages')
  await buildOnce(
    'coding agents',
    folder,
    () => existsSync(installed),
    async (work) => {
      const run = (file: string, args: readonly string[]) => promisify(execFile)(file, [...args], { cwd: work })
      await writeFile(path.join(work, 'package.json'), '{"private": true}')
      const packages = [`@openai/codex@${CODEX}`, `@anthropic-ai/claude-code@${CLAUDE_CODE}`]
      await run('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', ...packages])
      // Puts the program for this system in the place of one that explains what is missing.
      await run(process.execPath, [path.join(work, 'node_modules/@anthropic-ai/claude-code/install.cjs')])
      await rename(work, installed)
    },
  )
  return path.join(installed, 'node_modules', '.bin')
}
