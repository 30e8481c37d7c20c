/**
 * LiteLLM's proxy as one side of a comparison: one worker, no database, no logging, one key. Installed from PyPI on
 * first use, where there is Python.
 */
import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { freePort, stopProcess, untilListening, watchProcess } from './child.ts'
import { findProgram, installPeer, peerFolder } from './peer-cache.ts'
import type { MissingSide, Side } from './side.ts'

export const LITELLM = 'LiteLLM'
const VERSION = '1.106.0'
const FOLDER = peerFolder(`litellm-${VERSION}`)
const PROGRAM = path.join(FOLDER, 'bin', 'litellm')
const INSTALL_WITHIN_MS = 600_000
/** It imports for ten seconds. */
const START_WITHIN_MS = 120_000

export async function startLiteLlm(upstreamPort: number, model: string): Promise<Side | MissingSide> {
  if (!(await findProgram('python3'))) return { name: LITELLM, missing: 'python3 is not installed' }
  const missing = await installPeer({
    name: `litellm ${VERSION}`,
    folder: FOLDER,
    program: PROGRAM,
    commands: [
      ['python3', '-m', 'venv', FOLDER],
      [path.join(FOLDER, 'bin', 'pip'), 'install', '--quiet', `litellm[proxy]==${VERSION}`],
    ],
    withinMs: INSTALL_WITHIN_MS,
  })
  if (missing !== undefined) return { name: LITELLM, missing }
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-litellm-'))
  const port = await freePort()
  const file = path.join(dir, 'config.yaml')
  await writeFile(file, configOf(model, upstreamPort))
  const args = ['--config', file, '--host', '127.0.0.1', '--port', String(port), '--num_workers', '1']
  // It does not start without one.
  const key = `sk-${randomBytes(32).toString('hex')}`
  const child = spawn(PROGRAM, [...args, '--telemetry', 'False'], {
    cwd: dir,
    // Its price list comes with the package, so that it asks nobody.
    env: {
      PATH: process.env.PATH ?? '',
      HOME: dir,
      LITELLM_MASTER_KEY: key,
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      LITELLM_LOG: 'ERROR',
    },
    stdio: 'ignore',
  })
  const { pid, ended } = watchProcess(child, LITELLM)
  const stop = async (): Promise<void> => {
    await stopProcess(child, ended, 'SIGTERM')
    await rm(dir, { recursive: true, force: true })
  }
  try {
    await untilListening(port, ended, LITELLM, START_WITHIN_MS)
  } catch (error) {
    await stop()
    return { name: LITELLM, missing: error instanceof Error ? error.message : String(error) }
  }
  return { name: LITELLM, port, pid, headers: { Authorization: `Bearer ${key}` }, stop }
}

/** JSON is YAML. */
function configOf(model: string, upstreamPort: number): string {
  return JSON.stringify({
    model_list: [
      {
        model_name: model,
        litellm_params: {
          model: 'openai/engine',
          api_base: `http://127.0.0.1:${upstreamPort}/v1`,
          api_key: 'of-nobody',
        },
      },
    ],
    litellm_settings: { num_retries: 0 },
  })
}
